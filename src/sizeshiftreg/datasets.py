"""Data sets by name: the paper's five, small ones made on the spot, or a folder of one's own."""

import io
import os
import pickle
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path

import fsspec
import torch
import torch.nn.functional as F
from filelock import FileLock
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import BaseTransform

from sizeshiftreg.errors import InputError
from sizeshiftreg.synthetic import SYNTHETIC

MIRROR_VARIABLE = "SIZESHIFTREG_MIRROR"


@dataclass(frozen=True)
class DatasetFacts:
    """What a data set holds; a download that differs is refused.

    Attributes:
        graphs: Number of graphs.
        nodes: Number of nodes over all graphs.
        edges: Number of directed edges over all graphs.
        features: Width of the node features: the number of node labels, or of degrees 0 to 100 where there are none.
        classes: Number of classes.
        pool: Number of graphs among the smallest 50%.
        test: Number of graphs among the largest 10%.
    """

    graphs: int
    nodes: int
    edges: int
    features: int
    classes: int
    pool: int
    test: int


TU_DATASETS: dict[str, DatasetFacts] = {
    "NCI1": DatasetFacts(4110, 122747, 265506, 37, 2, 2157, 412),
    "NCI109": DatasetFacts(4127, 122494, 265208, 38, 2, 2079, 421),
    "PROTEINS": DatasetFacts(1113, 43471, 162088, 3, 2, 567, 112),
    "DD": DatasetFacts(1178, 334925, 1686092, 89, 2, 592, 118),
    "deezer_ego_nets": DatasetFacts(9629, 226213, 1256606, 101, 2, 4894, 968),
}
_WITHOUT_NODE_LABELS = frozenset({"deezer_ego_nets"})
# What files of graphs may hold besides tensors and plain values; all else would be code.
_GRAPH_CLASSES = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]


class DegreeFeatures(BaseTransform):  # type: ignore[misc]
    """Give every node its degree, one-hot, as features; degrees above `max_degree` count as `max_degree`.

    Example:
        >>> pair = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
        >>> DegreeFeatures(max_degree=2)(pair).x.tolist()
        [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, max_degree: int = 100) -> None:
        self.max_degree = max_degree

    def forward(self, data: Data) -> Data:
        """Write `x` [num_nodes, max_degree + 1] into a copy of the graph."""
        degree = torch.bincount(data.edge_index[0], minlength=data.num_nodes)
        data.x = F.one_hot(degree.clamp(max=self.max_degree), self.max_degree + 1).float()
        return data

    def __repr__(self) -> str:
        """Name the setting: PyG compares this text with that of stored data."""
        return f"DegreeFeatures(max_degree={self.max_degree})"


def load_dataset(
    name: str | Path, *, root: str | Path = "data", mirror: str | None = None, bare: bool = False
) -> InMemoryDataset:
    """Load a data set by name, or a folder of one's own.

    A collection is downloaded once into `root`; a download that breaks off leaves nothing there. Node features are
    the one-hot node labels, or one-hot degrees where a data set has no labels.

    Args:
        name: One of the paper's data sets (`TU_DATASETS`), one made on the spot (`SYNTHETIC`), or the path of a
            folder with `.pt` files, each a PyG `Data` or a list of them, written by `torch.save`.
        root: Where downloaded data sets are kept.
        mirror: Address of a folder that holds `NAME.zip`, any that fsspec knows (https://, s3://, file://, ...);
            by default the environment variable SIZESHIFTREG_MIRROR, and without it the TUDataset site.
        bare: Accept graphs in a folder that have no classes or features, which can be coarsened, not learned from, and
            keep all attributes that all of them have.

    Raises:
        InputError: The name is unknown, the download failed or is not that data set, or a graph is not usable.

    Example:
        >>> load_dataset("toy_density")[0]
        Data(x=[28, 1], edge_index=[2, 300], y=[1])
    """
    key = str(name)
    if key in SYNTHETIC:
        return _in_memory(SYNTHETIC[key]())
    if key in TU_DATASETS:
        return _load_collection(key, Path(root), mirror or os.environ.get(MIRROR_VARIABLE) or TUDataset.url)
    if Path(name).is_dir():
        return _load_folder(Path(name), bare=bare)
    raise InputError(
        f"unknown data set {key!r}: expected one of {', '.join([*TU_DATASETS, *SYNTHETIC])}, or the path of a folder "
        "with .pt files"
    )


def check_graphs(graphs: Sequence[Data], *, labels: bool = True, features: bool = True) -> None:
    """Raise unless every graph can be used: nodes, finite features of one width, edges inside, and a class.

    Args:
        graphs: The graphs.
        labels: Whether every graph must have a class, as for training.
        features: Whether every graph must have node features.

    Raises:
        InputError: Names the first graph that cannot, and why.
    """
    if len(graphs) == 0:
        raise InputError("the data set is empty: expected graphs, got none")
    width = None
    for number, graph in enumerate(graphs):
        fault = _features_fault(graph) if features or graph.x is not None else None
        fault = fault or _edges_fault(graph) or (_class_fault(graph) if labels else None)
        if fault is None and width is not None and graph.num_features != width:
            fault = f"expected node features of width {width}, as in graph 0; got {graph.num_features}"
        if fault is not None:
            raise InputError(f"graph {number}: {fault}")
        width = graph.num_features


def check_classes(graphs: Sequence[Data]) -> int:
    """Return the number of classes, 0 to the highest label.

    Raises:
        InputError: There is only one class.
    """
    found = torch.cat([graph.y.view(1) for graph in graphs]).unique()
    if len(found) < 2:
        raise InputError(
            f"the data set has one class only: expected graphs of at least two, got {len(graphs)} graphs of class "
            f"{found.tolist()[0]}"
        )
    return int(found[-1]) + 1


def is_here(name: str, root: str | Path = "data") -> bool:
    """Return whether a data set can be loaded without a download."""
    return name in SYNTHETIC or (Path(root) / name / "processed").is_dir()


def _features_fault(graph: Data) -> str | None:
    """Return what makes the node features unusable, or None."""
    x = graph.x
    if x is None:
        return "expected node features `x`; it has none. DegreeFeatures() makes some from the degrees"
    if x.dim() != 2 or not x.is_floating_point():
        return f"expected node features `x` of shape [num_nodes, width] and a float type; got {x.dtype} {list(x.shape)}"
    if x.size(0) == 0:
        return "expected at least one node; it has none. Leave empty graphs out"
    if not bool(torch.isfinite(x).all()):
        rows = (~torch.isfinite(x).all(dim=1)).nonzero().flatten().tolist()
        return f"expected finite node features; got NaN or infinity in the rows {rows[:5]} of `x`"
    return None


def _edges_fault(graph: Data) -> str | None:
    """Return what makes the edges unusable, or None."""
    edges, num_nodes = graph.edge_index, graph.num_nodes
    if edges is None or edges.dim() != 2 or edges.size(0) != 2 or edges.dtype != torch.long:
        got = "none" if edges is None else f"{edges.dtype} {list(edges.shape)}"
        return f"expected `edge_index` of shape [2, num_edges] and type int64; got {got}"
    if not num_nodes:
        return "expected at least one node; it has none. Leave empty graphs out"
    if edges.numel() and not (int(edges.min()) >= 0 and int(edges.max()) < num_nodes):
        got = f"ends from {int(edges.min())} to {int(edges.max())}"
        return f"expected edges between the nodes 0 to {num_nodes - 1}; got {got}"
    return None


def _class_fault(graph: Data) -> str | None:
    """Return what makes the class unusable, or None."""
    y = graph.y
    if y is None:
        return "expected a class `y`; it has none"
    if y.numel() != 1 or y.is_floating_point() or int(y) < 0:
        return f"expected one class `y`, an integer from 0 on; got {y.tolist()} ({y.dtype})"
    return None


def _in_memory(graphs: list[Data]) -> InMemoryDataset:
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = dataset.collate(graphs)
    return dataset


def _load_folder(folder: Path, *, bare: bool) -> InMemoryDataset:
    files = sorted(folder.glob("*.pt"))
    if not files:
        raise InputError(f"{folder}: expected .pt files, each a PyG Data or a list of them; there are none")
    graphs: list[Data] = []
    for file in files:
        try:
            with torch.serialization.safe_globals(_GRAPH_CLASSES):
                content = torch.load(file, weights_only=True)  # a file of graphs must not be able to run code
        except Exception as error:  # whatever a foreign file makes the loader raise
            raise InputError(
                f"{file}: expected PyG Data, or a list of them, written by torch.save; it cannot be read without "
                f"running code from it ({type(error).__name__})"
            ) from error
        items = content if isinstance(content, list) else [content]
        if not all(isinstance(item, Data) for item in items):
            raise InputError(f"{file}: expected a PyG Data or a list of them; got {type(content).__name__}")
        graphs += items
    check_graphs(graphs, labels=not bare, features=not bare)
    common = set.intersection(*(set(graph.keys()) for graph in graphs))
    if bare:
        return _in_memory([_with(graph, common) for graph in graphs])
    items = [_with(graph, common & {"x", "edge_index", "partitions"}) for graph in graphs]
    for item, graph in zip(items, graphs, strict=True):
        item.x, item.y = graph.x.float(), graph.y.view(1).long()
    return _in_memory(items)


def _with(graph: Data, names: set[str]) -> Data:
    """Return a graph with some of its attributes; a data set can hold only those that all its graphs have."""
    item = Data(**{name: graph[name] for name in sorted(names)})
    if "x" not in names:
        item.num_nodes = graph.num_nodes
    return item


def _load_collection(name: str, root: Path, mirror: str) -> InMemoryDataset:
    home = root / name
    if not home.exists():
        try:
            root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(root / f".{name}.lock").acquire()
        except OSError as error:
            raise InputError(f"cannot write to {root}: {error}. Name another folder with root=... (--root)") from error
        with lock:
            if not home.exists():  # another process may have made it meanwhile
                _download(name, root, mirror)
    dataset = _open_collection(name, root)
    _check_facts(name, dataset, f"the folder {home}", f"Delete {home}; the data set is then downloaded again")
    return dataset


def _download(name: str, root: Path, mirror: str) -> None:
    """Download, unpack, process and check in a folder of its own; it gets its name only when all is done."""
    address = f"{mirror.rstrip('/')}/{name}.zip"
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}-") as work:
        archive = Path(work) / "download.zip"
        try:
            with fsspec.open(address, "rb") as remote, archive.open("wb") as local:
                shutil.copyfileobj(remote, local)
        except Exception as error:  # every file system that fsspec knows raises errors of its own
            raise InputError(
                f"could not download {name} from {address}: {type(error).__name__}: {error}. Name a mirror that holds "
                f"{name}.zip with mirror=... (--mirror) or the environment variable {MIRROR_VARIABLE}"
            ) from error
        _unpack(name, archive, Path(work) / name / "raw", address)
        way_out = f"Name another mirror with mirror=... (--mirror) or {MIRROR_VARIABLE}"
        try:
            dataset = _open_collection(name, Path(work))
        except Exception as error:  # PyG's reader meets whatever the files hold
            raise InputError(f"{address} is not the data set {name}: it cannot be read: {error}. {way_out}") from error
        _check_facts(name, dataset, address, way_out)
        (Path(work) / name).rename(root / name)


def _unpack(name: str, archive: Path, raw: Path, address: str) -> None:
    needed = _needed_files(name)
    raw.mkdir(parents=True)
    try:
        with zipfile.ZipFile(archive) as content:
            members = {Path(member).name: member for member in content.namelist() if member.endswith(".txt")}
            missing = [file for file in needed if file not in members]
            if missing:
                raise InputError(
                    f"{address} is not the data set {name}: expected {', '.join(needed)} in it; got "
                    f"{', '.join(sorted(members)) or 'no such file'}"
                )
            for file in needed:
                with content.open(members[file]) as source, (raw / file).open("wb") as target:
                    shutil.copyfileobj(source, target)
    # What zipfile raises for an archive that is cut, damaged, compressed in an unknown way, or encrypted.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{address} is not the data set {name}: it is not a whole zip file ({error})") from error


def _needed_files(name: str) -> list[str]:
    parts = ["A", "graph_indicator", "graph_labels"] + ([] if name in _WITHOUT_NODE_LABELS else ["node_labels"])
    return [f"{name}_{part}.txt" for part in parts]


def _features(name: str) -> BaseTransform | None:
    return DegreeFeatures() if name in _WITHOUT_NODE_LABELS else None


def _open_collection(name: str, root: Path) -> InMemoryDataset:
    raw = root / name / "raw"
    missing = [file for file in _needed_files(name) if not (raw / file).is_file()]
    if missing:  # PyG would download by itself, past the mirror
        raise InputError(f"{root / name} does not hold {name}: {raw / missing[0]} is missing. Delete it and try again")
    try:
        # PyG announces its processing on stderr; and without the allowed classes it would load with pickle.
        with redirect_stderr(io.StringIO()), torch.serialization.safe_globals(_GRAPH_CLASSES):
            return TUDataset(str(root), name, pre_transform=_features(name))
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise InputError(f"{root / name} does not hold {name}: {error}. Delete it and try again") from error


def _check_facts(name: str, dataset: InMemoryDataset, place: str, way_out: str) -> None:
    data, facts = dataset._data, TU_DATASETS[name]
    found = (len(dataset), data.num_nodes, data.num_edges, dataset.num_features, dataset.num_classes)
    expected = (facts.graphs, facts.nodes, facts.edges, facts.features, facts.classes)
    if found != expected:
        raise InputError(
            f"{place} is not the data set {name}: expected {expected} graphs, nodes, edges, features and classes; got "
            f"{found}. {way_out}"
        )

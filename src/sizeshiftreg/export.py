"""Export: coarsen a data set, write partitions and coarse graphs, and say what came of it."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from sizeshiftreg.coarsening import COARSENERS
from sizeshiftreg.coarsening.contract import Reduce, contract
from sizeshiftreg.coarsening.spectral import spectral_distance
from sizeshiftreg.coarsening.transform import Coarsen
from sizeshiftreg.errors import InputError

SUMMARY_FILE = "summary.json"
# The spectral distance takes all eigenvalues: it is measured on so many graphs, of at most so many nodes.
SAMPLE, SAMPLE_NODES = 100, 500


@dataclass(frozen=True)
class View:
    """What coarsening to one ratio came to.

    Attributes:
        ratio: The ratio.
        nodes: Number of coarse nodes over all graphs.
        edges: Number of (directed) coarse edges over all graphs.
        distance: Mean spectral distance over the sample; None where no graph is small enough.
    """

    ratio: float
    nodes: int
    edges: int
    distance: float | None


@dataclass(frozen=True)
class Summary:
    """What coarsening a data set came to.

    Attributes:
        graphs: Number of graphs.
        nodes: Number of nodes over all graphs.
        edges: Number of (directed) edges over all graphs.
        methods: How many graphs each method coarsened; several only with "auto".
        sparse: How many graphs took the sparse path of their method.
        directed: How many graphs have edges in one direction only, which counted in both.
        seconds: Time of coarsening, without loading, measuring and writing.
        reused: How many partitions came from the cache.
        sampled: On how many graphs the spectral distance was measured.
        views: One per ratio.
    """

    graphs: int
    nodes: int
    edges: int
    methods: dict[str, int]
    sparse: int
    directed: int
    seconds: float
    reused: int
    sampled: int
    views: list[View]


def warm_up(coarsen: Coarsen, graphs: Sequence[Data]) -> float:
    """Compile, or load from the disk, what coarsening these graphs needs; return the seconds it took."""
    start = time.perf_counter()
    sizes = {4}
    for graph in graphs:
        coarsener = COARSENERS.get(coarsen.chosen(graph.num_nodes))
        if coarsener is not None and 0 < coarsener.sparse_above < graph.num_nodes:
            sizes.add(coarsener.sparse_above + 1)
    without_cache = Coarsen(coarsen.method, ratios=coarsen.ratios, seed=coarsen.seed)
    for size in sizes:
        nodes = torch.arange(size)
        ring = Data(edge_index=torch.stack([nodes, nodes.roll(1)]), num_nodes=size)
        without_cache(ring)
    spectral_distance(torch.tensor([[0], [1]]), torch.tensor([0, 1]))
    return time.perf_counter() - start


def export(
    graphs: Sequence[Data],
    coarsen: Coarsen,
    folder: Path | None,
    *,
    jobs: int = 1,
    reduce: Reduce = "mean",
    told: Mapping[str, Any] | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Summary:
    """Coarsen graphs, and write them to a folder that `load_dataset` reads.

    `graphs.pt` holds the graphs with their `partitions` (a list of `Data`); `coarse-0.8/graphs.pt`, for every ratio,
    the coarse graphs with `edge_weight` and `cluster_size`, the number of nodes in each coarse node; and `summary.json`
    how they were made and what is returned. What an earlier call wrote there is replaced.

    Args:
        graphs: The graphs.
        coarsen: How to coarsen them.
        folder: Where to write; None writes nothing.
        jobs: Number of threads.
        reduce: How the features of a cluster become those of its coarse node.
        told: What else the summary file should tell of these graphs.
        advance: Called after every graph.

    Returns:
        Sizes, times and spectral distances.
    """
    if folder is not None:
        _make_ready(folder)
    before = coarsen.cache.hits if coarsen.cache else 0
    start = time.perf_counter()
    done = []
    for graph in coarsen.map(graphs, jobs=jobs):
        done.append(graph)
        advance()
    seconds = time.perf_counter() - start

    sample = _sample(done)
    views = []
    for column, ratio in enumerate(coarsen.ratios):
        coarse = [_coarse(graph, graph.partitions[:, column], reduce) for graph in done]
        distances = [spectral_distance(graph.edge_index, graph.partitions[:, column]) for graph in sample]
        nodes, edges = (sum(getattr(graph, name) for graph in coarse) for name in ("num_nodes", "num_edges"))
        views.append(View(ratio, nodes, edges, sum(distances) / len(distances) if distances else None))
        if folder is not None:
            _write(coarse, folder / f"coarse-{ratio}" / "graphs.pt")
    chosen = [coarsen.chosen(graph.num_nodes) for graph in done]
    summary = Summary(
        graphs=len(done),
        nodes=sum(graph.num_nodes for graph in done),
        edges=sum(graph.num_edges for graph in done),
        methods=dict(Counter(chosen)),
        sparse=sum(
            name in COARSENERS and graph.num_nodes > COARSENERS[name].sparse_above
            for name, graph in zip(chosen, done, strict=True)
        ),
        directed=sum(graph.is_directed() for graph in done),
        seconds=seconds,
        reused=(coarsen.cache.hits if coarsen.cache else 0) - before,
        sampled=len(sample),
        views=views,
    )
    if folder is not None:
        _write(done, folder / "graphs.pt")
        versions = {name: COARSENERS[name].version for name in summary.methods if name in COARSENERS}
        how = {"coarsen": repr(coarsen), "versions": versions, "features": reduce, **(told or {})}
        (folder / SUMMARY_FILE).write_text(json.dumps(how | asdict(summary), indent=1) + "\n")
    return summary


def _sample(graphs: Sequence[Data]) -> list[Data]:
    small = [graph for graph in graphs if graph.num_nodes <= SAMPLE_NODES]
    step = max(1, len(small) // SAMPLE)
    return small[::step][:SAMPLE]


def _coarse(graph: Data, labels: Tensor, reduce: Reduce) -> Data:
    coarse = contract(graph, labels, reduce=reduce, edge_weight=True)
    kept: dict[str, Any] = {name: coarse[name] for name in ("x", "y", "edge_index", "edge_weight") if name in coarse}
    if graph.x is None:
        kept["num_nodes"] = coarse.num_nodes
    return Data(cluster_size=torch.bincount(labels), **kept)


def _make_ready(folder: Path) -> None:
    """Make the folder and take away what an earlier call wrote; graphs of other origin are not touched."""
    earlier = folder / SUMMARY_FILE
    if folder.is_dir() and any(folder.glob("*.pt")) and not earlier.is_file():
        raise InputError(f"{folder} holds graphs that were not written by `coarsen`. Name another folder with --out")
    try:
        if earlier.is_file():
            for view in json.loads(earlier.read_text())["views"]:
                old = folder / f"coarse-{view['ratio']}"
                (old / "graphs.pt").unlink(missing_ok=True)
                if old.is_dir() and not any(old.iterdir()):
                    old.rmdir()
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write to the folder {folder}: {error}. Name another one with --out") from error


def _write(graphs: list[Data], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    torch.save(graphs, part)
    part.replace(file)

"""Experiment: one training as plain values, its id, and run(), which makes a row of it."""

import hashlib
import json
import math
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, asdict, dataclass, fields
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch_geometric.data import Data

from sizeshiftreg.coarsening import COARSENER_NAMES
from sizeshiftreg.coarsening.cache import CACHE_FILE
from sizeshiftreg.coarsening.contract import REDUCTIONS, Reduce
from sizeshiftreg.coarsening.threads import one_thread
from sizeshiftreg.coarsening.transform import Coarsen, check_ratios
from sizeshiftreg.datasets import check_classes, check_graphs, load_dataset
from sizeshiftreg.discrepancies import Bound, CentralMoments
from sizeshiftreg.encoders import GCN, GIN, PNA, PNADegrees, Stack, degree_histogram
from sizeshiftreg.errors import InputError, choice
from sizeshiftreg.models import READOUTS, GraphClassifier, Readout
from sizeshiftreg.regularizers import NoRegularizer, Regularizer, SizeShift, Views
from sizeshiftreg.splits import Split, size_split
from sizeshiftreg.store import GraphStore
from sizeshiftreg.training import DivergedError, evaluate, fit

Model = Literal["gin", "gcn", "pna"]
Method = Literal["plain", "size_shift"]
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that decides the outcome of one training, as plain values.

    Two experiments with equal fields have the same id and, on the CPU of one machine, the same result. The fields from
    `coarsener` on matter for the method `size_shift` alone.

    Attributes:
        dataset: Name of a data set, or the path of a folder (see `load_dataset`).
        model: Encoder.
        method: Training without (`plain`) or with (`size_shift`) the regulariser.
        seed: Seed of initialisation, dropout and the order of the graphs.
        split_seed: Seed of the draw of the validation graphs.
        epochs: Number of epochs; the weights of the best one on validation are tested.
        batch_size: Graphs in a step.
        lr: Learning rate of Adam.
        hidden_dim: Width of the encoder.
        num_layers: Number of graph convolutions.
        readout: Pooling of node embeddings.
        dropout: Dropout in the head.
        train_below: Quantile of the sizes up to which graphs train and validate.
        test_above: Quantile of the sizes from which on graphs test.
        pna_degrees: How PNA averages the log degree (see `PNA`).
        coarsener: Coarsening method.
        ratios: Coarsening ratios.
        coarse_seed: Seed of the coarsening.
        coarse_features: How the features of merged nodes are reduced.
        weight: Weight of the regulariser.
        moments: Number of moments in the discrepancy.
        bound: Activation that bounds the embeddings in the discrepancy.
        average: Average the discrepancies, as the published code does, or sum them.
        batch_norm: Whether the views move the batch-norm statistics ("all") or not ("original").
        views: Every step compares all views, or one that is drawn ("sampled").
        share: With sampled views, the share of the graphs that are compared in a step.

    Example:
        >>> Experiment(dataset="PROTEINS", model="gin", method="plain").id
        'c9f48dcd69034ee0'
    """

    dataset: str
    model: Model = "gin"
    method: Method = "plain"
    seed: int = 0
    split_seed: int = 0
    epochs: int = 1000
    batch_size: int = 128
    lr: float = 0.001
    hidden_dim: int = 32
    num_layers: int = 3
    readout: Readout = "sum"
    dropout: float = 0.3
    train_below: float = 0.5
    test_above: float = 0.9
    pna_degrees: PNADegrees = "nodes"
    coarsener: str = "sgc"
    ratios: tuple[float, ...] = (0.8, 0.9)
    coarse_seed: int = 0
    coarse_features: Reduce = "mean"
    weight: float = 0.1
    moments: int = 5
    bound: Bound | None = None
    average: bool = True
    batch_norm: Literal["all", "original"] = "all"
    views: Views = "all"
    share: float = 1.0

    def __post_init__(self) -> None:
        """Check every field, so that a mistake shows before anything is computed."""
        choice("model", self.model, get_args(Model))
        choice("method", self.method, get_args(Method))
        choice("readout", self.readout, READOUTS)
        choice("coarsener", self.coarsener, COARSENER_NAMES)
        choice("coarse_features", self.coarse_features, REDUCTIONS)
        choice("pna_degrees", self.pna_degrees, get_args(PNADegrees))
        choice("bound", self.bound, (*get_args(Bound), None))
        choice("batch_norm", self.batch_norm, ("all", "original"))
        choice("views", self.views, get_args(Views))
        for name in ("epochs", "hidden_dim", "num_layers", "moments"):
            _check_number(name, getattr(self, name), "an integer of at least 1", lambda v: v >= 1, int)
        for name in ("seed", "split_seed", "coarse_seed"):
            _check_number(name, getattr(self, name), "an integer of at least 0", lambda v: v >= 0, int)
        _check_number("batch_size", self.batch_size, "an integer of at least 2", lambda v: v >= 2, int)
        _check_number("lr", self.lr, "a finite number above 0", lambda v: v > 0)
        _check_number("weight", self.weight, "a finite number of at least 0", lambda v: v >= 0)
        for name in ("train_below", "test_above"):
            _check_number(name, getattr(self, name), "a quantile between 0 and 1", lambda v: 0 < v < 1)
        _check_number("dropout", self.dropout, "a share from 0 up to 1", lambda v: 0 <= v < 1)
        _check_number("share", self.share, "a share above 0 and at most 1", lambda v: 0 < v <= 1)
        if self.share < 1 and self.views == "all":
            raise InputError(f'share: expected 1 with views="all"; got {self.share}. Take views="sampled"')
        check_ratios(self.ratios)
        # One form for equal values, whoever wrote them (1 or 1.0, a list or a tuple): the id is made of them.
        object.__setattr__(self, "ratios", tuple(float(ratio) for ratio in self.ratios))
        for name in ("lr", "weight", "dropout", "train_below", "test_above", "share"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def id(self) -> str:
        """Return the hash of the fields that differ from their defaults.

        So a field that is added later, with a default that means what was done before, changes no id. Rows carry all
        fields, by which a store notices when a default has changed.
        """
        told = {field.name: getattr(self, field.name) for field in fields(self) if _differs(self, field)}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def run(experiment: Experiment, *, root: str | Path = "data", mirror: str | None = None, device: str = "cpu") -> Row:
    """Train and test as an experiment says, and return its row.

    The row holds the experiment's fields and id; `train_mcc`, `val_mcc` and `test_mcc` with the weights of
    `best_epoch`, and `last_test_mcc` with those of the last epoch; `seconds`, `device`, versions, `git`, and hashes of
    the data, of the split and of the coarse views; `status` is "ok", or "failed" with an `error` when the training
    diverged. One thread is used, so that the result does not depend on what else runs.

    Raises:
        InputError: The experiment cannot be run on these data.

    Example:
        >>> row = run(Experiment(dataset="toy_density", epochs=1))
        >>> row["status"], -1 <= row["test_mcc"] <= 1
        ('ok', True)
    """
    forked = [torch.device(device)] if torch.device(device).type == "cuda" else []
    with one_thread(), torch.random.fork_rng(devices=forked):
        graphs, data_hash = load_graphs(experiment.dataset, root, mirror)
        num_classes = check_classes(graphs)
        split = size_split(
            graphs,
            train_below=experiment.train_below,
            test_above=experiment.test_above,
            seed=experiment.split_seed,
        )
        row: Row = {"id": experiment.id, **asdict(experiment), "ratios": list(experiment.ratios)}
        train, regularizer, views_hash = _training_graphs(experiment, graphs, split, (str(root), mirror, data_hash))
        row |= {"data_hash": data_hash, "split_hash": _digest((split.train, split.val, split.test))}
        row |= {"views_hash": views_hash, "device": device, **_versions()}
        stores = {"train": GraphStore.from_graphs(train, device=device)}
        for name, index in {"val": split.val, "test": split.test}.items():
            stores[name] = GraphStore.from_graphs([graphs[i] for i in index.tolist()], device=device)

        torch.manual_seed(experiment.seed)
        encoder = make_encoder(experiment, stores["train"])
        model = GraphClassifier(
            encoder,
            embedding_dim=encoder.out_dim,
            num_classes=num_classes,
            readout=experiment.readout,
            dropout=experiment.dropout,
        ).to(device)
        start = time.perf_counter()
        try:
            result = fit(
                model,
                stores["train"],
                stores["val"],
                regularizer=regularizer,
                epochs=experiment.epochs,
                batch_size=experiment.batch_size,
                lr=experiment.lr,
                seed=experiment.seed,
            )
        except DivergedError as error:
            return row | {"status": "failed", "error": str(error), "seconds": time.perf_counter() - start}
        row |= {
            "status": "ok",
            "error": "",
            "seconds": time.perf_counter() - start,
            "best_epoch": result.best_epoch,
        }
        row |= {f"{part}_mcc": evaluate(model, store) for part, store in stores.items()}
        model.load_state_dict(result.last_state)
        return row | {"last_test_mcc": evaluate(model, stores["test"])}


def make_encoder(experiment: Experiment, train: GraphStore) -> Stack:
    """Build the encoder of an experiment; what it needs to know of the data comes from the training graphs."""
    sizes = {"hidden_dim": experiment.hidden_dim, "num_layers": experiment.num_layers}
    in_dim = train.all.num_features
    if experiment.model == "gin":
        return GIN(in_dim, **sizes)
    if experiment.model == "gcn":
        return GCN(in_dim, **sizes)
    degrees = degree_histogram(train.all.edge_index, train.all.num_nodes).cpu()
    return PNA(in_dim, degrees=degrees, average=experiment.pna_degrees, **sizes)


def _training_graphs(
    experiment: Experiment, graphs: list[Data], split: Split, source: tuple[str, str | None, str]
) -> tuple[list[Data], Regularizer, str]:
    """Return the training graphs (with partitions where needed), the regulariser, and a hash of the views."""
    if experiment.method == "plain":
        return [graphs[i] for i in split.train.tolist()], NoRegularizer(), ""
    pool, views_hash = _coarse_pool(
        experiment.dataset,
        *source,
        tuple(split.pool.tolist()),
        experiment.coarsener,
        experiment.ratios,
        experiment.coarse_seed,
    )

    regularizer = SizeShift(
        experiment.weight,
        reduce=experiment.coarse_features,
        discrepancy=CentralMoments(experiment.moments, experiment.bound),
        average=experiment.average,
        views=experiment.views,
        share=experiment.share,
        seed=experiment.seed,
        batch_norm=experiment.batch_norm,
    )
    return [pool[i] for i in split.train.tolist()], regularizer, views_hash


def load_graphs(name: str, root: str | Path, mirror: str | None) -> tuple[list[Data], str]:
    """Load and check a data set; return its graphs and a hash of their content."""
    return _graphs(name, str(root), mirror, _fingerprint(name))


def _fingerprint(name: str) -> tuple[tuple[str, int, int], ...]:
    """Tell the state of a folder of one's own, which may change while this process runs."""
    files = sorted(Path(name).glob("*.pt")) if Path(name).is_dir() else []
    return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)


# A worker runs many experiments on the same data: the last data set and its coarse graphs are kept.
@lru_cache(maxsize=1)
def _graphs(name: str, root: str, mirror: str | None, fingerprint: object) -> tuple[list[Data], str]:
    del fingerprint  # part of the key alone
    graphs = list(load_dataset(name, root=root, mirror=mirror))
    check_graphs(graphs)
    check_classes(graphs)
    return graphs, _digest(part for graph in graphs for part in (graph.x, graph.edge_index, graph.y))


@lru_cache(maxsize=2)
def _coarse_pool(
    name: str,
    root: str,
    mirror: str | None,
    data_hash: str,
    pool: tuple[int, ...],
    method: str,
    ratios: tuple[float, ...],
    seed: int,
) -> tuple[dict[int, Data], str]:
    """Coarsen the small graphs, by their index; the validation seed does not matter, so all splits share them.

    The hash of their partitions tells, in a row, whether two runs had the same views: a coarsening method may change.
    """
    del data_hash  # part of the key alone
    graphs, _ = load_graphs(name, root, mirror)
    coarsen = Coarsen(method, ratios=ratios, seed=seed, cache=Path(root) / CACHE_FILE)
    coarse = {i: coarsen(graphs[i]) for i in sorted(pool)}
    return coarse, _digest(graph.partitions for graph in coarse.values())


def _digest(parts: Iterable[torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _check_number(
    name: str, value: object, expected: str, holds: Callable[[Any], bool], kind: type[int] | None = None
) -> None:
    fits = isinstance(value, kind or (int, float)) and not isinstance(value, bool)
    if not (fits and math.isfinite(value) and holds(value)):  # type: ignore[arg-type]
        raise InputError(f"{name}: expected {expected}; got {value!r}")


def _differs(experiment: Experiment, field: Field[Any]) -> bool:
    return field.default is MISSING or bool(getattr(experiment, field.name) != field.default)


@lru_cache(maxsize=1)
def _versions() -> Row:
    packages = ("sizeshiftreg", "torch", "torch_geometric", "numpy", "numba")
    found = {f"{name}_version": version(name) for name in packages}
    return found | {"python_version": platform.python_version(), "git": _git_hash()}


def _git_hash() -> str:
    """Return the commit of this source, marked if files differ from it; empty outside a checkout."""
    here = Path(__file__).parent
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        result = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
        inside = subprocess.run(
            ["git", "ls-files", "--error-unmatch", __file__], cwd=here, capture_output=True, check=False
        )
    except FileNotFoundError:  # no git on this machine
        return ""
    return result.stdout.strip() if inside.returncode == 0 else ""

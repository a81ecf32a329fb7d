"""Training and prediction: the loop, read top to bottom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from sizeshiftreg.errors import InputError
from sizeshiftreg.kernels import Segments
from sizeshiftreg.metrics import confusion, mcc
from sizeshiftreg.models import GraphClassifier, embed
from sizeshiftreg.regularizers import Draw, NoRegularizer, Regularizer, Sets
from sizeshiftreg.store import GraphStore

Graphs = GraphStore | Sequence[Data]


class DivergedError(RuntimeError):
    """The loss became infinite or not a number."""


@dataclass(frozen=True)
class FitResult:
    """What `fit` found: the model now has the weights of `best_epoch`.

    Attributes:
        best_epoch: The first epoch with the best validation score, counted from 1.
        best_val_mcc: That score.
        last_state: The weights of the last epoch, to compare with.
    """

    best_epoch: int
    best_val_mcc: float
    last_state: dict[str, Tensor]


def fit(
    model: GraphClassifier,
    train: Graphs,
    val: Graphs,
    *,
    regularizer: Regularizer | None = None,
    epochs: int = 1000,
    batch_size: int = 128,
    lr: float = 0.001,
    balance_classes: bool = True,
    seed: int = 0,
) -> FitResult:
    """Train with Adam and keep the weights of the epoch with the best validation score (MCC).

    Args:
        model: The classifier, trained where its parameters are.
        train: Training graphs; they need `partitions` (see `Coarsen`) when the regulariser does.
        val: Validation graphs.
        regularizer: Penalty added to the loss, such as `SizeShift()`; None for none.
        epochs: Number of passes over the training graphs.
        batch_size: Number of graphs in a step.
        lr: Learning rate.
        balance_classes: Weight the classes by their inverse frequency in the training graphs.
        seed: Seed of the order of the graphs. Initialisation and dropout draw from torch's global generator.

    Returns:
        The best epoch and its score.

    Example:
        >>> from sizeshiftreg import Coarsen, SizeShift, load_dataset, size_split
        >>> from sizeshiftreg.encoders import GIN
        >>> graphs = [Coarsen()(graph) for graph in load_dataset("toy_density")[::10]]
        >>> split = size_split(graphs)
        >>> train, val = [graphs[i] for i in split.train], [graphs[i] for i in split.val]
        >>> model = GraphClassifier(GIN(graphs[0].num_features, hidden_dim=8), embedding_dim=8, num_classes=2)
        >>> fit(model, train, val, regularizer=SizeShift(0.1), epochs=2).best_epoch in (1, 2)
        True
    """
    if epochs < 1 or batch_size < 2:
        raise InputError(f"fit: expected epochs >= 1 and batch_size >= 2; got epochs={epochs}, batch_size={batch_size}")
    parameter = next(model.parameters())
    train_store, val_store = _store(train, parameter), _store(val, parameter)
    _check_classes(train_store.all.y, val_store.all.y, model.num_classes)
    class_weight = _class_weight(train_store.all.y).to(parameter) if balance_classes else None
    if regularizer is None:
        regularizer = NoRegularizer()
    together = getattr(model.encoder, "takes_segments", False)
    feed: _Feed = (_Together if together else _OneByOne)(model, train_store, regularizer)
    optimizer = _FlatAdam(model, lr)
    generator = torch.Generator().manual_seed(seed)
    best_epoch, best_mcc, best_state = 0, -2.0, model.state_dict()

    try:
        for epoch in range(1, epochs + 1):
            model.train()
            total_loss = torch.zeros((), device=parameter.device)
            for index in _batches(torch.randperm(len(train_store), generator=generator), batch_size):
                logits, y, penalty = feed(index)
                loss = F.cross_entropy(logits, y, weight=class_weight) + penalty
                loss.backward()
                optimizer.step()
                total_loss += loss.detach()
            if not torch.isfinite(total_loss):
                raise DivergedError(f"the loss is not finite in epoch {epoch}; lower the learning rate ({lr})")

            val_mcc = evaluate(model, val_store)
            if val_mcc > best_mcc:
                best_epoch, best_mcc, best_state = epoch, val_mcc, _state(model)
    finally:
        optimizer.release()

    last_state = _state(model)
    model.load_state_dict(best_state)
    return FitResult(best_epoch, best_mcc, last_state)


@torch.no_grad()
def predict(model: GraphClassifier, graphs: Graphs, *, batch_size: int = 512) -> Tensor:
    """Return the logits of every graph, [num_graphs, num_classes]; `.argmax(-1)` is the class.

    Args:
        model: The classifier; it is evaluated where its parameters are, and its mode is put back.
        graphs: The graphs; they need no labels.
        batch_size: Number of graphs in a step.

    Example:
        >>> from sizeshiftreg import GIN, load_dataset
        >>> model = GraphClassifier(GIN(1, hidden_dim=8), embedding_dim=8, num_classes=2)
        >>> predict(model, load_dataset("toy_density")[:5]).shape
        torch.Size([5, 2])
    """
    store = _store(graphs, next(model.parameters()), labels=False)
    was_training = model.training
    model.eval()
    if len(store) <= batch_size:
        logits: Tensor = model(store.all)
    else:
        logits = torch.cat([model(store[index]) for index in torch.arange(len(store)).split(batch_size)])
    model.train(was_training)
    return logits


def evaluate(model: GraphClassifier, graphs: Graphs) -> float:
    """Return the Matthews correlation of a model's predictions on labelled graphs."""
    store = _store(graphs, next(model.parameters()))
    logits = predict(model, store)
    return mcc(confusion(logits.argmax(-1), store.all.y, logits.size(-1)).cpu())


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


class _FlatAdam:
    """Adam on all parameters as one vector: a step over thirty small tensors costs more in calls than in numbers."""

    def __init__(self, model: nn.Module, lr: float) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        kinds = {(parameter.dtype, parameter.device) for parameter in self._parameters}
        if len(kinds) > 1:
            raise InputError(f"fit: expected parameters of one type on one device; got {sorted(map(str, kinds))}")
        for parameter in self._parameters:
            parameter.grad = None
        self._flat = torch.cat([parameter.detach().flatten() for parameter in self._parameters])
        for parameter, values in zip(self._parameters, self._split(), strict=True):
            parameter.data = values
        self._adam = torch.optim.Adam([self._flat], lr=lr, fused=True)

    def step(self) -> None:
        """Move the parameters along their gradients, and forget these."""
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        self._flat.grad = torch.cat([gradient.flatten() for gradient in found])
        for parameter in self._parameters:
            parameter.grad = None
        self._adam.step()

    def release(self) -> None:
        """Give every parameter memory of its own again."""
        for parameter in self._parameters:
            parameter.data = parameter.detach().clone()

    def _split(self) -> list[Tensor]:
        sizes = [parameter.numel() for parameter in self._parameters]
        return [v.view_as(p) for v, p in zip(self._flat.split(sizes), self._parameters, strict=True)]


class _Feed(Protocol):
    """Passes a batch and its views through the model: index -> logits, classes and penalty."""

    def __call__(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...


class _OneByOne:
    """The batch, then one view after the other, for any encoder."""

    def __init__(self, model: GraphClassifier, train: GraphStore, regularizer: Regularizer) -> None:
        self._model, self._train, self._regularizer = model, train, regularizer
        self._views = [GraphStore(view) for view in regularizer.views(train.all)]

    def __call__(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, draw = self._train[index], self._regularizer.draw(len(self._views), len(index))
        views = [self._views[view][_drawn(index, draw)] for view in draw.views]
        embeddings = embed(self._model.encoder, batch)
        penalty = self._regularizer(self._model.encoder, batch, embeddings, views, draw)
        return self._model.classify(embeddings, batch), batch.y, penalty


class _Together:
    """The batch and its views in one pass, for encoders that normalise each of them by itself: the same, and faster."""

    def __init__(self, model: GraphClassifier, train: GraphStore, regularizer: Regularizer) -> None:
        views = regularizer.views(train.all)
        self._model, self._regularizer, self._num_views = model, regularizer, len(views)
        self._num_graphs = len(train)
        self._store = GraphStore.joined([train.all, *views]) if views else train

    def __call__(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        draw = self._regularizer.draw(self._num_views, len(index))
        drawn = _drawn(index, draw)
        parts = [index, *(drawn + self._num_graphs * (view + 1) for view in draw.views)]
        batch = self._store.take(torch.cat(parts))
        sizes = tuple(self._store.num_nodes(part) for part in parts)
        moving = len(sizes) if self._regularizer.batch_norm == "all" else 1
        embeddings = self._model.encoder(batch.x, None, batch.layout, Segments(sizes, moving))
        logits = self._model.read(embeddings[: sizes[0]], batch.batch[: sizes[0]], len(index))
        sets = Sets(embeddings, batch.batch, sizes, tuple(map(len, parts)))
        return logits, batch.y[: len(index)], self._regularizer.compare(sets, draw)  # type: ignore[index]


def _drawn(index: Tensor, draw: Draw) -> Tensor:
    return index if draw.graphs is None else index[draw.graphs]


def _store(graphs: Graphs, like: Tensor, *, labels: bool = True) -> GraphStore:
    if isinstance(graphs, GraphStore):
        return graphs
    return GraphStore.from_graphs(graphs, labels=labels, device=like.device, dtype=like.dtype)


def _batches(order: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Cut the order into batches; one left-over graph joins the batch before, for batch norm needs two nodes."""
    batches = list(order.split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return iter(batches)


def _check_classes(train: Tensor, val: Tensor, num_classes: int) -> None:
    counts = torch.bincount(train, minlength=num_classes)
    if counts.numel() > num_classes or not bool((counts > 0).all()):
        raise InputError(
            f"fit: expected training graphs of every class 0 to {num_classes - 1}; got {counts.tolist()} graphs per "
            "class. Split differently, or renumber the classes"
        )
    if int(val.max()) >= num_classes:
        raise InputError(f"fit: expected validation graphs of the classes 0 to {num_classes - 1}; got {int(val.max())}")


def _class_weight(y: Tensor) -> Tensor:
    counts = torch.bincount(y)
    return counts.sum() / counts

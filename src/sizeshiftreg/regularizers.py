"""The regulariser: embeddings of a graph and of its coarse views should be distributed alike."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from sizeshiftreg.coarsening.contract import REDUCTIONS, Reduce, contract, graph_of_node, pick
from sizeshiftreg.discrepancies import DISCREPANCIES, Discrepancy, Summarizing
from sizeshiftreg.errors import InputError, choice
from sizeshiftreg.models import embed

Encoder = Callable[..., Tensor]
Views = Literal["all", "sampled"]
BatchNorm = Literal["all", "original"]


@dataclass(frozen=True)
class Sets:
    """Node embeddings of a batch and, after them, of its views.

    Attributes:
        embeddings: All rows, [num_rows, dim].
        graph_of: Graph of every row; the graphs of a view are numbered after those before it.
        rows: Number of rows of the batch, and of every view.
        graphs: Number of graphs of the batch, and of every view.
    """

    embeddings: Tensor
    graph_of: Tensor
    rows: tuple[int, ...]
    graphs: tuple[int, ...]


@dataclass(frozen=True)
class Draw:
    """What a step looks at.

    Attributes:
        views: Numbers of the views, in the order of the ratios.
        of: Number of views that they were drawn from.
        graphs: Positions of the graphs in the batch, sorted, on the CPU; None for all.
    """

    views: tuple[int, ...]
    of: int
    graphs: Tensor | None = None


class Regularizer(Protocol):
    """What a regulariser is: a penalty on an encoder, and the views that it compares with.

    Attributes:
        batch_norm: Whether the views move the statistics of batch normalisation ("all") or not ("original").
    """

    batch_norm: BatchNorm

    def views(self, batch: Batch) -> list[Batch]:
        """Return all views of a batch, from which steps draw."""
        ...

    def draw(self, num_views: int, num_graphs: int) -> Draw:
        """Return which views of which graphs the next step looks at."""
        ...

    def compare(self, sets: Sets, draw: Draw) -> Tensor:
        """Return the penalty of embeddings that are there already; the views are those of `draw`."""
        ...

    def __call__(
        self,
        encoder: Encoder,
        batch: Batch,
        embeddings: Tensor | None = None,
        views: Sequence[Batch] | None = None,
        draw: Draw | None = None,
    ) -> Tensor:
        """Return the penalty, a scalar."""
        ...


class NoRegularizer:
    """The null object: no views, penalty zero."""

    batch_norm: BatchNorm = "original"

    def views(self, batch: Batch) -> list[Batch]:
        """Return no views."""
        del batch
        return []

    def draw(self, num_views: int, num_graphs: int) -> Draw:
        """Return nothing to look at."""
        del num_views, num_graphs
        return Draw((), 0)

    def compare(self, sets: Sets, draw: Draw) -> Tensor:
        """Return zero."""
        del draw
        return sets.embeddings.new_zeros(())

    def __call__(
        self,
        encoder: Encoder,
        batch: Batch,
        embeddings: Tensor | None = None,
        views: Sequence[Batch] | None = None,
        draw: Draw | None = None,
    ) -> Tensor:
        """Return zero."""
        del encoder, embeddings, views, draw
        return _zero(batch)


class SizeShift:
    """Size-shift regularisation: add it to the loss of any graph classifier.

    For every graph and every coarse view, the discrepancy between the node embeddings of the graph and those of the
    view; averaged over graphs and views, times `weight`. The views come from the `partitions` that `Coarsen` wrote.

    Args:
        weight: Weight of the penalty (lambda in the paper). With 0 nothing is computed and nothing changes.
        reduce: How the features of merged nodes become those of their coarse node.
        edge_reduce: How edge attributes of merged edges become those of their coarse edge.
        node_attributes: Further node attributes of the batch that the encoder needs, such as `{"pos": "mean"}`, and
            how they are reduced.
        inputs: Names of what the encoder is given besides `x` and `edge_index`, by keyword, such as `("edge_attr",)`,
            `("edge_weight",)` or `("batch",)`.
        discrepancy: Name of a discrepancy, or a function of the same form.
        average: Average over graphs and views, as the published code does; otherwise sum, as the paper's formula.
        views: "all", or "sampled": in each call one view drawn at random, weighted so that the penalty is the full one
            on average (batch normalisation apart, which sees fewer views).
        share: With sampled views, the share of the graphs, drawn at random, that are compared in a call.
        batch_norm: Which graphs move the running statistics of batch normalisation, used at test time: "all", also
            the views, as in the published code; or "original", the training graphs alone.
        seed: Seed of the sampling.

    Example:
        >>> from torch_geometric.data import Batch, Data
        >>> from torch_geometric.nn import GIN
        >>> from sizeshiftreg import Coarsen
        >>> path = Data(x=torch.rand(5, 3), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
        >>> batch = Batch.from_data_list([Coarsen()(path), Coarsen()(path)])
        >>> encoder = GIN(in_channels=3, hidden_channels=8, num_layers=2)
        >>> penalty = SizeShift(weight=0.1)(encoder, batch)
        >>> penalty.shape, penalty.requires_grad
        (torch.Size([]), True)
    """

    def __init__(
        self,
        weight: float = 0.1,
        *,
        reduce: Reduce = "mean",
        edge_reduce: Reduce = "mean",
        node_attributes: Mapping[str, Reduce] | None = None,
        inputs: Sequence[str] = (),
        discrepancy: str | Discrepancy = "cmd",
        average: bool = True,
        views: Views = "all",
        share: float = 1.0,
        batch_norm: BatchNorm = "all",
        seed: int = 0,
    ) -> None:
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"SizeShift: expected a finite weight of at least 0; got {weight}")
        for name, reduction in {"reduce": reduce, "edge_reduce": edge_reduce, **(node_attributes or {})}.items():
            choice(name, reduction, REDUCTIONS)
        choice("batch_norm", batch_norm, ("all", "original"))
        choice("views", views, get_args(Views))
        if not 0 < share <= 1 or (share < 1 and views == "all"):
            raise InputError(
                f'SizeShift: expected a share above 0 and at most 1, and below 1 only with views="sampled"; got {share}'
            )
        if isinstance(discrepancy, str):
            choice("discrepancy", discrepancy, DISCREPANCIES)
            discrepancy = DISCREPANCIES[discrepancy]
        self.weight = weight
        self.reduce: Reduce = reduce
        self.edge_reduce: Reduce = edge_reduce
        self.node_attributes = dict(node_attributes or {})
        self.inputs = tuple(inputs)
        self.discrepancy = discrepancy
        self.average = average
        self.sampled = views == "sampled"
        self.share = share
        self.batch_norm: BatchNorm = batch_norm
        self._generator = torch.Generator().manual_seed(seed)

    def views(self, batch: Batch) -> list[Batch]:
        """Return the coarse views of a batch, one batch per ratio; none when the weight is 0."""
        if self.weight == 0:
            return []
        return [self._view(batch, column) for column in range(_partitions(batch).size(1))]

    def draw(self, num_views: int, num_graphs: int) -> Draw:
        """Return which views of which graphs the next step looks at."""
        if not self.sampled or num_views == 0:
            return Draw(tuple(range(num_views)), num_views)
        column = int(torch.randint(num_views, (), generator=self._generator))
        if self.share == 1:
            return Draw((column,), num_views)
        count = max(1, round(self.share * num_graphs))
        return Draw((column,), num_views, torch.randperm(num_graphs, generator=self._generator)[:count].sort().values)

    def __call__(
        self,
        encoder: Encoder,
        batch: Batch,
        embeddings: Tensor | None = None,
        views: Sequence[Batch] | None = None,
        draw: Draw | None = None,
    ) -> Tensor:
        """Return the weighted penalty of a batch, a scalar with a gradient to the encoder.

        Args:
            encoder: The part of the model that makes node embeddings, called `(x, edge_index)`, with `inputs` besides.
            batch: The batch, with `partitions` unless `views` are given.
            embeddings: The encoder's output for this batch, if it is there already, [num_nodes, dim].
            views: The coarse views of this batch that this call looks at, if they are there already.
            draw: What `draw` returned, if these views are not all views of all graphs.
        """
        if self.weight == 0:
            return _zero(batch)
        graph_of, num_graphs = graph_of_node(batch)
        if views is None:
            draw = self.draw(_partitions(batch).size(1), num_graphs)
            part = batch if draw.graphs is None else pick(batch, draw.graphs)
            views = [self._view(part, column) for column in draw.views]
        elif draw is None:
            draw = Draw(tuple(range(len(views))), len(views))
        if embeddings is None:
            embeddings = embed(encoder, batch, self.inputs)
        if embeddings.dim() != 2 or embeddings.size(0) != graph_of.size(0):
            raise InputError(
                f"SizeShift: expected one embedding per node, {graph_of.size(0)} rows; got {list(embeddings.shape)}. "
                "The encoder must return node embeddings, before the readout"
            )
        expected = num_graphs if draw.graphs is None else len(draw.graphs)
        if not views or any(view.num_graphs != expected for view in views):
            raise InputError(
                f"SizeShift: expected one or more views of the same {expected} graphs as the batch; got views of "
                f"{[view.num_graphs for view in views]} graphs"
            )
        with self._statistics(encoder):
            coarse = [embed(encoder, view, self.inputs) for view in views]
        return self.compare(_put_together(embeddings, graph_of, num_graphs, coarse, views), draw)

    def compare(self, sets: Sets, draw: Draw) -> Tensor:
        """Return the weighted penalty of embeddings that are there already; the views are those of `draw`."""
        if self.weight == 0:
            return sets.embeddings.new_zeros(())
        chosen = None if draw.graphs is None else draw.graphs.to(sets.embeddings.device, non_blocking=True)
        terms = []
        if isinstance(self.discrepancy, Summarizing):
            summaries = self.discrepancy.summarize(sets.embeddings, sets.graph_of, sum(sets.graphs))
            original, *views = summaries.split(sets.graphs)
            original = _rows(original, chosen)
            terms = [self.discrepancy.compare(original, view) for view in views]
        else:
            (x, *ys), (x_batch, *y_batches) = sets.embeddings.split(sets.rows), sets.graph_of.split(sets.rows)
            first = sets.graphs[0]
            for y, y_batch, count in zip(ys, y_batches, sets.graphs[1:], strict=True):
                graph_of = y_batch - first
                graph_of = graph_of if chosen is None else chosen[graph_of]
                terms.append(_rows(self.discrepancy(x, y, x_batch, graph_of, sets.graphs[0]), chosen))
                first += count
        mean = torch.stack(terms).mean()
        # A sampled mean estimates the mean over all graphs and views, so the sum is that many times it.
        return self.weight * (mean if self.average else mean * (sets.graphs[0] * draw.of))

    def _view(self, batch: Batch, column: int) -> Batch:
        return contract(
            batch,
            _partitions(batch)[:, column],
            reduce=self.reduce,
            edge_reduce=self.edge_reduce,
            node_attributes=self.node_attributes,
            edge_weight="edge_weight" in self.inputs,
        )

    def _statistics(self, encoder: Encoder) -> AbstractContextManager[None]:
        return nullcontext() if self.batch_norm == "all" else _frozen_statistics(encoder)


def _partitions(batch: Batch) -> Tensor:
    partitions: Tensor | None = getattr(batch, "partitions", None)
    if partitions is None:
        raise InputError(
            "SizeShift: expected `partitions` in the batch, which Coarsen writes; there are none. Load the data "
            "set with pre_transform=Coarsen(ratios=(0.8, 0.9)), or call Coarsen() on every training graph. PyG "
            "keeps the old form of a data set that it stored without them: use another folder or force_reload=True"
        )
    return partitions


def _put_together(
    embeddings: Tensor, graph_of: Tensor, num_graphs: int, coarse: Sequence[Tensor], views: Sequence[Batch]
) -> Sets:
    graphs_of, graphs = [graph_of], [num_graphs]
    for view in views:
        graphs_of.append(view.batch + sum(graphs))
        graphs.append(view.num_graphs)
    rows = tuple(len(part) for part in graphs_of)
    return Sets(torch.cat([embeddings, *coarse]), torch.cat(graphs_of), rows, tuple(graphs))


def _rows(values: Tensor, chosen: Tensor | None) -> Tensor:
    return values if chosen is None else values.index_select(0, chosen)


def _zero(batch: Batch) -> Tensor:
    zero: Tensor = torch.zeros((), device=batch.edge_index.device)
    return zero


@contextmanager
def _frozen_statistics(encoder: Encoder) -> Iterator[None]:
    """Let batch normalisation normalise as in training, but not move its running statistics."""
    modules = getattr(encoder, "modules", None)
    if modules is None:
        raise InputError(
            'SizeShift: batch_norm="original" needs an encoder with modules(), such as a torch.nn.Module, to find its '
            f"batch normalisation; got {type(encoder).__name__}"
        )
    norms = [
        module
        for module in modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats and module.training
    ]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True

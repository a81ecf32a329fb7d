"""The regulariser: embeddings of a graph and of its coarse views should be distributed alike."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, Protocol

from torch import Tensor, nn
from torch_geometric.data import Batch

from sizeshiftreg.coarsening.contract import REDUCTIONS, Reduce, contract, graph_of_node
from sizeshiftreg.discrepancies import DISCREPANCIES, Discrepancy
from sizeshiftreg.errors import InputError, choice

Encoder = Callable[[Tensor, Tensor], Tensor]


class Regularizer(Protocol):
    """What a regulariser is: a penalty on an encoder, and the views that it compares with."""

    def views(self, batch: Batch) -> list[Batch]:
        """Return the views of a batch that the penalty will pass through the encoder."""
        ...

    def __call__(
        self,
        encoder: Encoder,
        batch: Batch,
        embeddings: Tensor | None = None,
        views: Sequence[Batch] | None = None,
    ) -> Tensor:
        """Return the penalty, a scalar."""
        ...


class NoRegularizer:
    """The null object: no views, penalty zero."""

    def views(self, batch: Batch) -> list[Batch]:
        """Return no views."""
        del batch
        return []

    def __call__(
        self,
        encoder: Encoder,
        batch: Batch,
        embeddings: Tensor | None = None,
        views: Sequence[Batch] | None = None,
    ) -> Tensor:
        """Return zero."""
        del encoder, embeddings, views
        return _zero(batch)


class SizeShift:
    """Size-shift regularisation: add it to the loss of any graph classifier.

    For every graph and every coarse view, the discrepancy between the node embeddings of the graph and those of the
    view; averaged over graphs and views, times `weight`. The views come from the `partitions` that `Coarsen` wrote.

    Args:
        weight: Weight of the penalty (lambda in the paper). With 0 nothing is computed and nothing changes.
        reduce: How the features of merged nodes become those of their coarse node.
        discrepancy: Name of a discrepancy, or a function of the same form.
        average: Average over graphs and views, as the published code does; otherwise sum, as the paper's formula.
        batch_norm: Which graphs move the running statistics of batch normalisation, used at test time: "all", also
            the views, as in the published code; or "original", the training graphs alone.

    Example:
        >>> import torch
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
        discrepancy: str | Discrepancy = "cmd",
        average: bool = True,
        batch_norm: Literal["all", "original"] = "all",
    ) -> None:
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"SizeShift: expected a finite weight of at least 0; got {weight}")
        choice("reduce", reduce, REDUCTIONS)
        choice("batch_norm", batch_norm, ("all", "original"))
        if isinstance(discrepancy, str):
            choice("discrepancy", discrepancy, DISCREPANCIES)
            discrepancy = DISCREPANCIES[discrepancy]
        self.weight = weight
        self.reduce: Reduce = reduce
        self.discrepancy = discrepancy
        self.average = average
        self.batch_norm = batch_norm

    def views(self, batch: Batch) -> list[Batch]:
        """Return the coarse views of a batch, one batch per ratio; none when the weight is 0."""
        if self.weight == 0:
            return []
        partitions = getattr(batch, "partitions", None)
        if partitions is None:
            raise InputError(
                "SizeShift: expected `partitions` in the batch, which Coarsen writes; there are none. Load the data "
                "set with pre_transform=Coarsen(ratios=(0.8, 0.9)), or call Coarsen() on every training graph. PyG "
                "keeps the old form of a data set that it stored without them: use another folder or force_reload=True"
            )
        return [contract(batch, labels, reduce=self.reduce) for labels in partitions.unbind(dim=1)]

    def __call__(
        self,
        encoder: Encoder,
        batch: Batch,
        embeddings: Tensor | None = None,
        views: Sequence[Batch] | None = None,
    ) -> Tensor:
        """Return the weighted penalty of a batch, a scalar with a gradient to the encoder.

        Args:
            encoder: The part of the model that makes node embeddings, called `(x, edge_index)`.
            batch: The batch, with `partitions` unless `views` are given.
            embeddings: The encoder's output for this batch, if it is there already, [num_nodes, dim].
            views: The coarse views of this batch, if they are there already.
        """
        if self.weight == 0:
            return _zero(batch)
        if views is None:
            views = self.views(batch)
        if embeddings is None:
            embeddings = encoder(batch.x, batch.edge_index)
        if embeddings.size(0) != batch.x.size(0):
            raise InputError(
                f"SizeShift: expected one embedding per node, {batch.x.size(0)} rows; got {embeddings.size(0)}. The "
                "encoder must return node embeddings, before the readout"
            )
        graph_of, num_graphs = graph_of_node(batch)
        if not views or any(view.num_graphs != num_graphs for view in views):
            raise InputError(
                f"SizeShift: expected one or more views of the same {num_graphs} graphs as the batch; got views of "
                f"{[view.num_graphs for view in views]} graphs"
            )
        penalty = embeddings.new_zeros(())
        with self._statistics(encoder):
            for view in views:
                coarse = encoder(view.x, view.edge_index)
                penalty = penalty + self.discrepancy(embeddings, coarse, graph_of, view.batch, num_graphs).sum()
        if self.average:
            penalty = penalty / (num_graphs * len(views))
        return self.weight * penalty

    def _statistics(self, encoder: Encoder) -> AbstractContextManager[None]:
        return nullcontext() if self.batch_norm == "all" else _frozen_statistics(encoder)


def _zero(batch: Batch) -> Tensor:
    zero: Tensor = batch.x.new_zeros(())
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

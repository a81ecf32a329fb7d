"""Discrepancies: how far apart are two sets of node embeddings, for every graph of a batch at once."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from sizeshiftreg.errors import InputError, choice
from sizeshiftreg.kernels import segment_moments

Bound = Literal["tanh", "sigmoid"]
_INTERVAL_LENGTH: dict[str, float] = {"tanh": 2.0, "sigmoid": 1.0}


class Discrepancy(Protocol):
    """What a discrepancy is: two ragged sets of embeddings -> one value per graph."""

    def __call__(self, x: Tensor, y: Tensor, x_batch: Tensor, y_batch: Tensor, num_graphs: int) -> Tensor:
        """Return one value per graph, [num_graphs]."""
        ...


@runtime_checkable
class Summarizing(Protocol):
    """A discrepancy that compares summaries: that of the original serves for all views."""

    def summarize(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return a summary of every graph, [num_graphs, ...]."""
        ...

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        """Return how far apart two summaries are, for every graph, [num_graphs]."""
        ...


@dataclass(frozen=True)
class CentralMoments:
    """Central moment discrepancy as an object; see `cmd`.

    Attributes:
        moments: The highest moment that is compared.
        bound: Activation that bounds the embeddings, or None.
    """

    moments: int = 5
    bound: Bound | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.moments < 1:
            raise InputError(f"cmd: expected at least one moment; got moments={self.moments}")
        if self.bound is not None:
            choice("bound", self.bound, _INTERVAL_LENGTH)

    def __call__(self, x: Tensor, y: Tensor, x_batch: Tensor, y_batch: Tensor, num_graphs: int) -> Tensor:
        """Return the discrepancy of every graph, [num_graphs]."""
        return self.compare(self.summarize(x, x_batch, num_graphs), self.summarize(y, y_batch, num_graphs))

    def summarize(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return mean and central moments of every graph, [num_graphs, moments, dim]."""
        x = _enough_digits(x)
        if self.bound is not None:
            x = torch.tanh(x) if self.bound == "tanh" else torch.sigmoid(x)
        return segment_moments(x, batch, num_graphs, self.moments)

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the sum of the distances of the moments, each in its scale, [num_graphs]."""
        # The norm's gradient at zero is zero (not nan), so two equal sets do no harm.
        norms: Tensor = torch.linalg.vector_norm(a - b, dim=-1)  # [num_graphs, moments]
        if self.bound is None:
            return norms.sum(-1)
        order = torch.arange(1, self.moments + 1, dtype=norms.dtype, device=norms.device)
        return (norms * _INTERVAL_LENGTH[self.bound] ** -order).sum(-1)


def cmd(
    x: Tensor,
    y: Tensor,
    x_batch: Tensor,
    y_batch: Tensor,
    num_graphs: int,
    *,
    moments: int = 5,
    bound: Bound | None = None,
) -> Tensor:
    """Central moment discrepancy (Zellinger et al. 2019), graph by graph.

    The distance of the means plus the distances of the central moments 2 to `moments`, each the Euclidean norm over
    the embedding's coordinates. With `bound` the embeddings first pass through that activation, and the k-th term is
    divided by |b - a|^k, the length of its interval; without it there is neither, as in the published code.

    Args:
        x: Embeddings of the first set, [num_x, dim].
        y: Embeddings of the second set, [num_y, dim].
        x_batch: Graph of every row of `x`, in any order, [num_x].
        y_batch: Graph of every row of `y`, in any order, [num_y].
        num_graphs: Number of graphs.
        moments: The highest moment that is compared.
        bound: Activation that bounds the embeddings, or None.

    Returns:
        The discrepancy of every graph, [num_graphs].

    Example:
        >>> x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0]])
        >>> cmd(x, y, torch.tensor([0, 0]), torch.tensor([0]), 1, moments=3)  # means 1 and 1, variances 1 and 0
        tensor([1.])
    """
    return CentralMoments(moments, bound)(x, y, x_batch, y_batch, num_graphs)


def _enough_digits(x: Tensor) -> Tensor:
    """Under mixed precision, fifth powers and counts need more digits."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


DISCREPANCIES: dict[str, Discrepancy] = {"cmd": CentralMoments()}

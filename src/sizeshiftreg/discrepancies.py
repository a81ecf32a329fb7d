"""Discrepancies: how far apart are two sets of node embeddings, for every graph of a batch at once."""

from typing import Literal, Protocol

import torch
from torch import Tensor

from sizeshiftreg.errors import InputError, choice

Bound = Literal["tanh", "sigmoid"]
_INTERVAL_LENGTH: dict[str, float] = {"tanh": 2.0, "sigmoid": 1.0}


class Discrepancy(Protocol):
    """What a discrepancy is: two ragged sets of embeddings -> one value per graph."""

    def __call__(self, x: Tensor, y: Tensor, x_batch: Tensor, y_batch: Tensor, num_graphs: int) -> Tensor:
        """Return one value per graph, [num_graphs]."""
        ...


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
    if moments < 1:
        raise InputError(f"cmd: expected at least one moment; got moments={moments}")
    if x.dtype in (torch.float16, torch.bfloat16):  # under mixed precision: fifth powers and counts need more digits
        x, y = x.float(), y.float()
    length = 1.0
    if bound is not None:
        choice("bound", bound, _INTERVAL_LENGTH)
        length = _INTERVAL_LENGTH[bound]
        activation = torch.tanh if bound == "tanh" else torch.sigmoid
        x, y = activation(x), activation(y)
    difference = _moments(x, x_batch, num_graphs, moments) - _moments(y, y_batch, num_graphs, moments)
    # The norm's gradient at zero is zero (not nan), so two equal sets do no harm.
    norms = torch.linalg.vector_norm(difference.view(num_graphs, moments, -1), dim=-1)  # [num_graphs, moments]
    order = torch.arange(1, moments + 1, dtype=norms.dtype, device=norms.device)
    total: Tensor = (norms * length**-order).sum(-1)
    return total


def _moments(x: Tensor, batch: Tensor, num_graphs: int, moments: int) -> Tensor:
    """Return the mean and the central moments of every graph side by side, [num_graphs, moments * dim]."""
    count = batch.new_zeros(num_graphs).index_add(0, batch, torch.ones_like(batch))
    count = count.clamp(min=1).to(x.dtype).unsqueeze(-1)

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros(num_graphs, values.size(1)).index_add(0, batch, values) / count

    first = mean(x)
    if moments == 1:
        return first
    centred = x - first.index_select(0, batch)
    powers = [centred * centred]
    while len(powers) < moments - 1:
        powers.append(powers[-1] * centred)
    return torch.cat([first, mean(torch.cat(powers, dim=1))], dim=1)


DISCREPANCIES: dict[str, Discrepancy] = {"cmd": cmd}

"""Discrepancies: how far apart are two sets of node embeddings, for every graph of a batch at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch_geometric.utils import to_dense_batch

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


@dataclass(frozen=True)
class Coral:
    """Correlation alignment as an object; see `coral`."""

    def __call__(self, x: Tensor, y: Tensor, x_batch: Tensor, y_batch: Tensor, num_graphs: int) -> Tensor:
        """Return the discrepancy of every graph, [num_graphs]."""
        return self.compare(self.summarize(x, x_batch, num_graphs), self.summarize(y, y_batch, num_graphs))

    def summarize(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return the covariance of every graph, [num_graphs, dim, dim]; 0 for a single row."""
        x = _enough_digits(x)
        count = x.new_zeros(num_graphs).index_add(0, batch, torch.ones_like(batch, dtype=x.dtype)).view(-1, 1, 1)
        mean = x.new_zeros(num_graphs, x.size(1)).index_add(0, batch, x) / count.clamp(min=1).squeeze(-1)
        centred = x - mean.index_select(0, batch)
        products = centred.unsqueeze(2) * centred.unsqueeze(1)
        sums = products.new_zeros(num_graphs, *products.shape[1:]).index_add(0, batch, products)
        return sums / (count - 1).clamp(min=1)

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the squared Frobenius distance over 4 dim^2, [num_graphs]."""
        return (a - b).square().sum((1, 2)) / (4 * a.size(-1) ** 2)


def coral(x: Tensor, y: Tensor, x_batch: Tensor, y_batch: Tensor, num_graphs: int) -> Tensor:
    """Correlation alignment (Sun and Saenko 2016), graph by graph: the distance of the covariances.

    The squared Frobenius norm of the difference of both covariance matrices (with n - 1), over 4 dim^2.

    Example:
        >>> x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [1.0]])
        >>> coral(x, y, torch.tensor([0, 0]), torch.tensor([0, 0]), 1)  # variances 2 and 0
        tensor([1.])
    """
    return Coral()(x, y, x_batch, y_batch, num_graphs)


def mmd(
    x: Tensor,
    y: Tensor,
    x_batch: Tensor,
    y_batch: Tensor,
    num_graphs: int,
    *,
    bandwidths: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
) -> Tensor:
    """Squared maximum mean discrepancy (Gretton et al. 2012) with Gaussian kernels, graph by graph.

    The kernel is the mean of exp(-d^2 / (bandwidth * s)) over the bandwidths, where s is the mean squared distance over
    all pairs of both sets, taken as a constant. All pairs count, also those of a row with itself, so that a set has
    discrepancy 0 with itself. Time and memory grow with the square of the largest graph.

    Example:
        >>> x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([[2.0], [0.0]])
        >>> mmd(x, y, torch.tensor([0, 0]), torch.tensor([0, 0]), 1).abs() < 1e-6
        tensor([True])
    """
    both = torch.cat([_enough_digits(x), _enough_digits(y)])
    batch = torch.cat([x_batch, y_batch])
    sign = torch.cat([torch.ones_like(x_batch), -torch.ones_like(y_batch)]).to(both.dtype)
    batch, order = batch.sort(stable=True)
    rows, inside = to_dense_batch(both[order], batch, batch_size=num_graphs)  # [num_graphs, most, dim]
    signs, _ = to_dense_batch(sign[order], batch, batch_size=num_graphs)
    counts = [(signs * side > 0).sum(1, keepdim=True).clamp(min=1) for side in (1, -1)]
    weights = signs / torch.where(signs > 0, *counts)
    squared = (rows.unsqueeze(2) - rows.unsqueeze(1)).square().sum(-1)
    pairs = inside.unsqueeze(2) & inside.unsqueeze(1)
    scale = (squared.detach() * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale)).view(-1, 1, 1)
    kernel = torch.stack([(-squared / (bandwidth * scale)).exp() for bandwidth in bandwidths]).mean(0)
    return torch.einsum("gi,gij,gj->g", weights, kernel, weights)


def sliced_wasserstein(
    x: Tensor,
    y: Tensor,
    x_batch: Tensor,
    y_batch: Tensor,
    num_graphs: int,
    *,
    directions: int = 32,
    seed: int = 0,
) -> Tensor:
    """Sliced Wasserstein-1 distance (Bonneel et al. 2015), graph by graph.

    The mean, over random directions that stay the same, of the exact distance between the projections of both sets.

    Example:
        >>> x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0]])
        >>> sliced_wasserstein(x, y, torch.tensor([0, 0]), torch.tensor([0]), 1)  # every half moves by 1
        tensor([1.])
    """
    x, y = _enough_digits(x), _enough_digits(y)
    towards = _directions(x.size(1), directions, seed, x.dtype, x.device)
    (x_values, x_count), (y_values, y_count) = (
        _sorted_projections(rows @ towards, batch, num_graphs) for rows, batch in ((x, x_batch), (y, y_batch))
    )
    # Both quantile functions are steps; between all their jumps, at i / n and j / m, the distance is constant.
    jumps = torch.cat([_jumps(x_values, x_count), _jumps(y_values, y_count)], dim=1).sort(dim=1).values
    width = torch.diff(jumps, dim=1, prepend=torch.zeros_like(jumps[:, :1]))
    middle = jumps - width / 2
    apart = (_at(x_values, x_count, middle) - _at(y_values, y_count, middle)).abs().mean(-1)
    return (apart * width).sum(1)


@lru_cache(maxsize=8)
def _directions(dim: int, count: int, seed: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return random unit vectors, made once, [dim, count]."""
    draw = torch.randn(dim, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    unit: Tensor = draw / draw.norm(dim=0)
    return unit.to(device, dtype)


def _sorted_projections(values: Tensor, batch: Tensor, num_graphs: int) -> tuple[Tensor, Tensor]:
    """Return every graph's projections in ascending order, [num_graphs, most, directions], and how many they are."""
    batch, order = batch.sort(stable=True)
    rows, inside = to_dense_batch(values[order], batch, batch_size=num_graphs, fill_value=float("inf"))
    rows = rows.sort(dim=1).values
    return rows.masked_fill(~inside.unsqueeze(-1), 0.0), inside.sum(1)


def _jumps(values: Tensor, count: Tensor) -> Tensor:
    """Return where a quantile function of `count` values jumps: 1 / count to 1, and 1 again, [num_graphs, most]."""
    steps = torch.arange(1, values.size(1) + 1, device=values.device, dtype=values.dtype)
    return (steps / count.clamp(min=1).unsqueeze(1)).clamp(max=1)


def _at(values: Tensor, count: Tensor, level: Tensor) -> Tensor:
    """Return the quantile functions at some levels, [num_graphs, num_levels, directions]."""
    place = (level * count.unsqueeze(1)).long().clamp(min=0)
    place = torch.minimum(place, (count - 1).clamp(min=0).unsqueeze(1))
    return values.gather(1, place.unsqueeze(-1).expand(-1, -1, values.size(2)))


def _enough_digits(x: Tensor) -> Tensor:
    """Under mixed precision, fifth powers and counts need more digits."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


DISCREPANCIES: dict[str, Discrepancy] = {
    "cmd": CentralMoments(),
    "coral": Coral(),
    "mmd": mmd,
    "sliced_wasserstein": sliced_wasserstein,
}

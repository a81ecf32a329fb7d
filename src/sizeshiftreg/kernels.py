"""Kernels: sums over neighbours and over graphs, compiled on the CPU, in torch's operations on other devices.

Each is an autograd function, checked against the torch operations, which are also what runs on a GPU.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

# Variances below are none, as in PyG's StdAggregation.
LEAST_VARIANCE = 1e-5


# Weight [out, in] and bias of a linear layer, and the batch normalisation after it.
Block = tuple[Tensor, Tensor, nn.BatchNorm1d]


@dataclass(frozen=True)
class Layout:
    """The edges of a batch by target and by source, so that sums over neighbours need no scatter.

    Attributes:
        start: Where the edges into every node begin, [num_nodes + 1].
        source: Sources of the edges, sorted by target, [num_edges].
        start_out: Where the edges out of every node begin, [num_nodes + 1].
        target: Targets of the edges, sorted by source, [num_edges].
    """

    start: Tensor
    source: Tensor
    start_out: Tensor
    target: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Self:
        """Lay out edges in any order.

        Example:
            >>> Layout.of(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3).source.tolist()
            [2, 0, 1]
        """
        source, target = edge_index
        into, out = torch.argsort(target, stable=True), torch.argsort(source, stable=True)
        return cls(_starts(target, num_nodes), source[into], _starts(source, num_nodes), target[out])

    @cached_property
    def loops(self) -> Tensor:
        """Return how many edges lead from every node to itself, [num_nodes]."""
        nodes = torch.repeat_interleave(self.degree(), output_size=self.source.numel())
        return torch.zeros_like(self.start[1:]).index_add_(0, nodes, (nodes == self.source).long())

    def degree(self) -> Tensor:
        """Return how many edges lead into every node, [num_nodes]."""
        return self.start.diff()


@dataclass(frozen=True)
class Segments:
    """Consecutive rows of a batch that are normalised each by themselves, as if they passed one after the other.

    Attributes:
        sizes: Number of rows of each.
        moving: So many of them, the first, move the running statistics.
    """

    sizes: tuple[int, ...]
    moving: int


def graph_layer(
    x: Tensor,
    layout: Layout,
    own: Tensor,
    scale: Tensor | None,
    blocks: Sequence[Block],
    segments: Segments | None = None,
) -> Tensor:
    """Propagate along the edges, then pass every block of linear layer, batch normalisation and ReLU.

    Args:
        x: Node features, [num_nodes, dim].
        layout: The edges.
        own: Weight of a node itself beside its neighbours, [1] with a gradient, or constants [num_nodes].
        scale: A constant that multiplies a node's features before and after the sum, [num_nodes]; None for 1.
        blocks: Linear layers and their batch normalisations.
        segments: Rows that are normalised by themselves; None for all together.

    Returns:
        The embeddings, [num_nodes, width of the last block].
    """
    norms = [norm for _, _, norm in blocks]
    segments = segments or Segments((x.size(0),), 1)
    if not (_compiled(x) and min(segments.sizes) > 1 and all(norm.training and norm.affine for norm in norms)):
        return _layer_in_torch(x, layout, own, scale, blocks, segments)
    parameters = [p for weight, bias, norm in blocks for p in (weight, bias, norm.weight, norm.bias)]
    out: Tensor = _GraphLayer.apply(x, layout, own, scale, segments, norms, *parameters)  # type: ignore[no-untyped-call]
    return out


def norm_relu(x: Tensor, norm: nn.BatchNorm1d, segments: Segments | None = None) -> Tensor:
    """Return `norm(x).relu()`, every segment by itself."""
    if segments is None or len(segments.sizes) == 1 or not norm.training:
        return norm(x).relu_()  # type: ignore[no-any-return]
    parts = []
    track = norm.track_running_stats
    try:
        for number, rows in enumerate(x.split(segments.sizes)):
            norm.track_running_stats = track and number < segments.moving
            parts.append(norm(rows))
    finally:
        norm.track_running_stats = track
    return torch.cat(parts).relu_()


def _layer_in_torch(
    x: Tensor,
    layout: Layout,
    own: Tensor,
    scale: Tensor | None,
    blocks: Sequence[Block],
    segments: Segments,
) -> Tensor:
    column = None if scale is None else scale.unsqueeze(-1)
    x = x if column is None else x * column
    own = own if column is None else own.unsqueeze(-1)
    nodes = torch.repeat_interleave(layout.degree(), output_size=layout.source.numel())
    x = own * x + torch.zeros_like(x).index_add(0, nodes, x.index_select(0, layout.source))
    x = x if column is None else x * column
    for weight, bias, norm in blocks:
        x = norm_relu(nn.functional.linear(x, weight, bias), norm, segments)
    return x


def gather_graphs(
    index: Tensor,
    nodes: Tensor,
    edges: Tensor,
    x: Tensor,
    ends: tuple[Tensor, ...],
    degrees: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor]] | None:
    """Gather graphs on the CPU, in one pass over what they hold; None elsewhere.

    Args:
        index: The graphs, [count].
        nodes: Where the nodes of every graph begin, [num_graphs + 1].
        edges: Where the edges of every graph begin, [num_graphs + 1].
        x: Features of all nodes.
        ends: Ends of all edges, numbered within their graph.
        degrees: Degrees of all nodes.

    Returns:
        Features, graph of every node, where every graph begins, the ends of the edges, and for every kind of degree
        where the edges of every node begin.
    """
    if not _compiled(x):
        return None
    first = _from_zero(nodes.diff()[index])
    first_edge = _from_zero(edges.diff()[index])
    rows = x.new_empty(int(first[-1]), x.size(1))
    graph_of = index.new_empty(len(rows))
    _gather_nodes(*map(_array, (index, nodes, first, x, rows, graph_of)))
    found_ends = [index.new_empty(int(first_edge[-1])) for _ in ends]
    for source, target in zip(ends, found_ends, strict=True):
        _gather_ends(*map(_array, (index, edges, first_edge, first, source, target)))
    starts = [index.new_empty(len(rows) + 1) for _ in degrees]
    for degree, start in zip(degrees, starts, strict=True):
        _gather_starts(*map(_array, (index, nodes, degree, start)))
    return rows, graph_of, first, found_ends, starts


def _from_zero(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def neighbour_statistics(x: Tensor, layout: Layout) -> Tensor:
    """Return mean, minimum, maximum and standard deviation over the sources of every node's edges, [num_nodes, 4, dim].

    As in PyG: zeros without edges, a standard deviation of 0 where the variance is below 1e-5, and the gradient of a
    minimum or maximum goes to equal values in equal shares.
    """
    if _compiled(x):
        found: Tensor = _NeighbourStatistics.apply(x, layout)  # type: ignore[no-untyped-call]
        return found
    return _statistics_in_torch(x, layout)


def segment_moments(x: Tensor, batch: Tensor, num_graphs: int, moments: int) -> Tensor:
    """Return mean and central moments of the rows of every graph, [num_graphs, moments, dim]; rows in any order."""
    found: Tensor = _SegmentMoments.apply(x, batch, num_graphs, moments)  # type: ignore[no-untyped-call]
    return found


def _running(norm: nn.BatchNorm1d, segments: Segments) -> tuple[Floats, Floats, Floats]:
    """Return the running mean and variance to move, and by how much for each segment (0 for not at all)."""
    if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
        nothing = np.empty(0, np.float32)
        return nothing, nothing, np.zeros(len(segments.sizes))
    steps = np.zeros(len(segments.sizes))
    if norm.momentum is not None:
        steps[: segments.moving] = norm.momentum
    else:  # a plain average over all batches
        steps[: segments.moving] = 1.0 / (int(norm.num_batches_tracked) + np.arange(1, segments.moving + 1))  # type: ignore[arg-type]
    norm.num_batches_tracked.add_(segments.moving)  # type: ignore[union-attr]
    return norm.running_mean.numpy(), norm.running_var.numpy(), steps


def _compiled(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")


def _starts(index: Tensor, num_nodes: int) -> Tensor:
    counts = torch.bincount(index, minlength=num_nodes)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _array(x: Tensor) -> NDArray[Any]:
    return x.detach().contiguous().numpy()


class _GraphLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        layout: Layout,
        own: Tensor,
        scale: Tensor | None,
        segments: Segments,
        norms: list[nn.BatchNorm1d],
        *parameters: Tensor,
    ) -> Tensor:
        ends = np.cumsum((0, *segments.sizes))
        inputs = _propagate(x, layout.start, layout.source, own, scale)
        saved = [inputs]
        for norm, (weight, bias, gain, shift) in zip(norms, _per_block(parameters), strict=True):
            rows = nn.functional.linear(inputs, weight, bias)
            inputs = torch.empty_like(rows)
            statistics = rows.new_empty(2, len(segments.sizes), rows.size(1))
            arrays = map(_array, (rows, gain, shift, statistics, inputs))
            _normalise(*arrays, ends, norm.eps, *_running(norm, segments))
            saved += [rows, statistics, inputs]
        ctx.layout, ctx.ends = layout, ends
        ctx.save_for_backward(x, own, scale, *parameters, *saved)
        return inputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, own, scale, *rest = ctx.saved_tensors
        blocks = (len(rest) - 1) // 7  # four parameters and three results each
        parameters, saved = rest[: 4 * blocks], rest[4 * blocks :]
        found: list[Tensor] = []
        for number in reversed(range(blocks)):
            weight, _, gain, _ = parameters[4 * number : 4 * number + 4]
            inputs, rows, statistics, out = saved[3 * number : 3 * number + 4]
            to_rows = torch.empty_like(rows)
            to_gain, to_shift = rows.new_zeros(2, rows.size(1))
            arrays = map(_array, (rows, gain, statistics, out, gradient, to_rows, to_gain, to_shift))
            _normalise_backward(*arrays, ctx.ends)
            found = [to_rows.t() @ inputs, to_rows.sum(0), to_gain, to_shift, *found]
            if number or ctx.needs_input_grad[0] or ctx.needs_input_grad[2]:
                gradient = to_rows @ weight
        to_own = torch.dot(gradient.flatten(), x.flatten()).view(1) if ctx.needs_input_grad[2] else None
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = _propagate(gradient, ctx.layout.start_out, ctx.layout.target, own, scale)
        return to_x, None, to_own, None, None, None, *found


def _per_block(parameters: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Cut the parameters into those of each block."""
    return zip(*[iter(parameters)] * 4, strict=True)


def _propagate(x: Tensor, start: Tensor, other: Tensor, own: Tensor, scale: Tensor | None) -> Tensor:
    total = torch.empty_like(x, memory_format=torch.contiguous_format)
    arrays = _array(x), start.numpy(), other.numpy()
    if scale is None:
        _add_neighbours(*arrays, _array(own), total.numpy())
    else:
        _add_scaled_neighbours(*arrays, _array(own), _array(scale), total.numpy())
    return total


class _NeighbourStatistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: Layout) -> Tensor:
        found = x.new_empty(x.size(0), 4, x.size(1))
        _statistics(_array(x), layout.start.numpy(), layout.source.numpy(), found.numpy())
        ctx.layout = layout
        ctx.save_for_backward(x, found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x, found = ctx.saved_tensors
        total = torch.zeros_like(x, memory_format=torch.contiguous_format)
        start, source = ctx.layout.start.numpy(), ctx.layout.source.numpy()
        _statistics_backward(_array(x), start, source, _array(found), _array(gradient), total.numpy())
        return total, None


def _statistics_in_torch(x: Tensor, layout: Layout) -> Tensor:
    nodes = torch.repeat_interleave(layout.degree(), output_size=layout.source.numel())
    values = x.index_select(0, layout.source)
    count = layout.degree().clamp(min=1).to(x.dtype).unsqueeze(-1)
    mean = torch.zeros_like(x).index_add(0, nodes, values) / count
    square = torch.zeros_like(x).index_add(0, nodes, values * values) / count
    deviation = (square - mean * mean).clamp(min=LEAST_VARIANCE).sqrt()
    deviation = deviation.masked_fill(deviation <= LEAST_VARIANCE**0.5, 0.0)
    index = nodes.unsqueeze(-1).expand_as(values)
    low, high = (torch.zeros_like(x).scatter_reduce(0, index, values, r, include_self=False) for r in ("amin", "amax"))
    return torch.stack([mean, low, high, deviation], dim=1)


class _SegmentMoments(torch.autograd.Function):
    # Of m_k = mean((x - m_1)^k), the derivative by x_i is k / n * ((x_i - m_1)^(k-1) - m_(k-1)), with 0 in the place of
    # m_1 for k = 2; so every graph has a polynomial, evaluated at its centred rows.

    @staticmethod
    def forward(ctx: Any, x: Tensor, batch: Tensor, num_graphs: int, moments: int) -> Tensor:
        ones = torch.ones_like(batch, dtype=x.dtype)
        count = x.new_zeros(num_graphs).index_add_(0, batch, ones).clamp_(min=1).view(-1, 1, 1)
        result = x.new_zeros(num_graphs, moments, x.size(1))
        if _compiled(x):
            _add_moments(_array(x), batch.numpy(), count.view(-1).numpy(), result.numpy())
        else:
            result[:, 0] = x.new_zeros(num_graphs, x.size(1)).index_add_(0, batch, x) / count.squeeze(-1)
            centred = x - result[:, 0].index_select(0, batch)
            power = centred
            for k in range(1, moments):
                power = power * centred
                result[:, k].index_add_(0, batch, power)
            result[:, 1:] /= count
        ctx.save_for_backward(x, batch, count, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        x, batch, count, result = ctx.saved_tensors
        moments = result.size(1)
        order = torch.arange(1, moments + 1, dtype=gradient.dtype, device=gradient.device).view(1, -1, 1)
        coefficients = gradient * order / count
        if moments > 2:
            coefficients[:, 0] -= (coefficients[:, 2:] * result[:, 1:-1]).sum(1)
        if _compiled(x):
            total = torch.empty_like(x, memory_format=torch.contiguous_format)
            _polynomials(_array(x), batch.numpy(), _array(result[:, 0]), _array(coefficients), total.numpy())
            return total, None, None, None
        centred = x - result[:, 0].index_select(0, batch)
        at_rows = coefficients.index_select(0, batch)
        total = at_rows[:, moments - 1]
        for k in range(moments - 2, -1, -1):
            total = torch.addcmul(at_rows[:, k], total, centred)
        return total, None, None, None


# Constants have the type of the data below: a float64 among float32 keeps the compiler from using vectors.


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _gather_nodes(index: Ints, nodes: Ints, first: Ints, x: Floats, rows: Floats, graph_of: Ints) -> None:
    dim = x.shape[1]
    for position in range(len(index)):
        shift = nodes[index[position]] - first[position]
        for node in range(first[position], first[position + 1]):
            row, target = x[node + shift], rows[node]
            for f in range(dim):
                target[f] = row[f]
            graph_of[node] = position


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _gather_ends(index: Ints, edges: Ints, first: Ints, first_node: Ints, ends: Ints, found: Ints) -> None:
    for position in range(len(index)):
        shift = edges[index[position]] - first[position]
        for edge in range(first[position], first[position + 1]):
            found[edge] = ends[edge + shift] + first_node[position]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _gather_starts(index: Ints, nodes: Ints, degree: Ints, start: Ints) -> None:
    total, node = 0, 0
    for graph in index:
        for source in range(nodes[graph], nodes[graph + 1]):
            start[node] = total
            total += degree[source]
            node += 1
    start[node] = total


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_neighbours(x: Floats, start: Ints, other: Ints, own: Floats, total: Floats) -> None:
    dim = x.shape[1]
    weight = own[0]
    for i in range(len(total)):
        row, result = x[i], total[i]
        for f in range(dim):
            result[f] = weight * row[f]
        for p in range(start[i], start[i + 1]):
            row = x[other[p]]
            for f in range(dim):
                result[f] += row[f]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_scaled_neighbours(x: Floats, start: Ints, other: Ints, own: Floats, scale: Floats, total: Floats) -> None:
    dim = x.shape[1]
    for i in range(len(total)):
        row, result = x[i], total[i]
        weight = own[i] * scale[i]
        for f in range(dim):
            result[f] = weight * row[f]
        for p in range(start[i], start[i + 1]):
            row, weight = x[other[p]], scale[other[p]]
            for f in range(dim):
                result[f] += weight * row[f]
        weight = scale[i]
        for f in range(dim):
            result[f] *= weight


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _statistics(x: Floats, start: Ints, source: Ints, found: Floats) -> None:
    dim = x.shape[1]
    zero, one, least = x.dtype.type(0), x.dtype.type(1), x.dtype.type(LEAST_VARIANCE)
    for i in range(len(found)):
        if start[i] == start[i + 1]:
            found[i] = zero
            continue
        row = x[source[start[i]]]
        for f in range(dim):
            found[i, 0, f] = found[i, 1, f] = found[i, 2, f] = row[f]
            found[i, 3, f] = row[f] * row[f]
        for p in range(start[i] + 1, start[i + 1]):
            row = x[source[p]]
            for f in range(dim):
                value = row[f]
                found[i, 0, f] += value
                found[i, 1, f] = min(value, found[i, 1, f])
                found[i, 2, f] = max(value, found[i, 2, f])
                found[i, 3, f] += value * value
        share = one / x.dtype.type(start[i + 1] - start[i])
        for f in range(dim):
            mean = found[i, 0, f] * share
            variance = found[i, 3, f] * share - mean * mean
            found[i, 0, f] = mean
            found[i, 3, f] = np.sqrt(variance) if variance > least else zero


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _statistics_backward(x: Floats, start: Ints, source: Ints, found: Floats, gradient: Floats, total: Floats) -> None:
    dim = x.shape[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    constant, slope = np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    to_low, to_high = np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    for i in range(len(found)):
        count = x.dtype.type(start[i + 1] - start[i])
        for f in range(dim):
            to_low[f] = to_high[f] = zero
        for p in range(start[i], start[i + 1]):
            row = x[source[p]]
            for f in range(dim):
                to_low[f] += one if row[f] == found[i, 1, f] else zero
                to_high[f] += one if row[f] == found[i, 2, f] else zero
        for f in range(dim):
            # d deviation / d x_j = (x_j - mean) / (count * deviation)
            deviation = found[i, 3, f]
            slope[f] = gradient[i, 3, f] / (count * deviation) if deviation > zero else zero
            constant[f] = gradient[i, 0, f] / count - slope[f] * found[i, 0, f]
            to_low[f] = gradient[i, 1, f] / max(to_low[f], one)
            to_high[f] = gradient[i, 2, f] / max(to_high[f], one)
        for p in range(start[i], start[i + 1]):
            row, change = x[source[p]], total[source[p]]
            for f in range(dim):
                value = row[f]
                change[f] += (
                    constant[f]
                    + slope[f] * value
                    + (to_low[f] if value == found[i, 1, f] else zero)
                    + (to_high[f] if value == found[i, 2, f] else zero)
                )


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_moments(x: Floats, batch: Ints, count: Floats, result: Floats) -> None:
    moments, dim = result.shape[1], result.shape[2]
    centred, power = np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    for i in range(len(x)):
        mean, row = result[batch[i], 0], x[i]
        for f in range(dim):
            mean[f] += row[f]
    for g in range(len(result)):
        result[g, 0] /= count[g]
    for i in range(len(x)):
        of_graph, row = result[batch[i]], x[i]
        for f in range(dim):
            centred[f] = power[f] = row[f] - of_graph[0, f]
        for k in range(1, moments):
            for f in range(dim):
                power[f] *= centred[f]
                of_graph[k, f] += power[f]
    for g in range(len(result)):
        result[g, 1:] /= count[g]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _polynomials(x: Floats, batch: Ints, mean: Floats, coefficients: Floats, total: Floats) -> None:
    moments, dim = coefficients.shape[1], coefficients.shape[2]
    centred, value = np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    for i in range(len(x)):
        of_graph, centre, row = coefficients[batch[i]], mean[batch[i]], x[i]
        highest = of_graph[moments - 1]
        for f in range(dim):
            centred[f] = row[f] - centre[f]
            value[f] = highest[f]
        for k in range(moments - 2, -1, -1):
            lower = of_graph[k]
            for f in range(dim):
                value[f] = value[f] * centred[f] + lower[f]
        out = total[i]
        for f in range(dim):
            out[f] = value[f]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _normalise(
    x: Floats,
    gain: Floats,
    shift: Floats,
    statistics: Floats,
    out: Floats,
    ends: Ints,
    eps: float,
    running_mean: Floats,
    running_variance: Floats,
    steps: Floats,
) -> None:
    dim = x.shape[1]
    zero = x.dtype.type(0)
    total, square = np.empty(dim), np.empty(dim)
    slope, constant = np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    for segment in range(len(ends) - 1):
        start, stop = ends[segment], ends[segment + 1]
        count = stop - start
        mean, inverse = statistics[0, segment], statistics[1, segment]
        step = steps[segment]
        # Sums of the differences to the first row, in float64: they lose no digits to a large mean.
        first = x[start]
        total[:] = 0.0
        square[:] = 0.0
        for i in range(start, stop):
            row = x[i]
            for f in range(dim):
                total[f] += row[f] - first[f]
            for f in range(dim):
                square[f] += (row[f] - first[f]) * (row[f] - first[f])
        for f in range(dim):
            apart = total[f] / count
            mean[f] = first[f] + apart
            variance = max(square[f] / count - apart * apart, 0.0)
            inverse[f] = 1.0 / np.sqrt(variance + eps)
            if step > 0.0:
                running_mean[f] += step * (first[f] + apart - running_mean[f])
                running_variance[f] += step * (variance * count / (count - 1) - running_variance[f])
            slope[f] = gain[f] * inverse[f]
            constant[f] = shift[f] - mean[f] * slope[f]
        for i in range(start, stop):
            row, result = x[i], out[i]
            for f in range(dim):
                result[f] = max(row[f] * slope[f] + constant[f], zero)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _normalise_backward(
    x: Floats,
    gain: Floats,
    statistics: Floats,
    out: Floats,
    gradient: Floats,
    to_x: Floats,
    to_gain: Floats,
    to_shift: Floats,
    ends: Ints,
) -> None:
    dim = x.shape[1]
    zero = x.dtype.type(0)
    of_gain, of_shift = np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    slope, of_row, constant = np.empty(dim, x.dtype), np.empty(dim, x.dtype), np.empty(dim, x.dtype)
    for segment in range(len(ends) - 1):
        start, stop = ends[segment], ends[segment + 1]
        count = x.dtype.type(stop - start)
        mean, inverse = statistics[0, segment], statistics[1, segment]
        of_gain[:] = zero
        of_shift[:] = zero
        for i in range(start, stop):
            row, result, change = x[i], out[i], gradient[i]
            for f in range(dim):
                passed = change[f] if result[f] > zero else zero
                of_shift[f] += passed
                of_gain[f] += passed * (row[f] - mean[f])
        for f in range(dim):
            of_gain[f] *= inverse[f]
            slope[f] = gain[f] * inverse[f]
            of_row[f] = slope[f] * inverse[f] * of_gain[f] / count
            constant[f] = of_row[f] * mean[f] - slope[f] * of_shift[f] / count
            to_gain[f] += of_gain[f]
            to_shift[f] += of_shift[f]
        for i in range(start, stop):
            row, result, change, target = x[i], out[i], gradient[i], to_x[i]
            for f in range(dim):
                passed = change[f] if result[f] > zero else zero
                target[f] = slope[f] * passed - of_row[f] * row[f] + constant[f]

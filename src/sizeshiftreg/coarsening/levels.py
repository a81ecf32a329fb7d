"""Large graphs: many merges at once, then another look at the smaller graph, in memory that grows with the edges."""

from collections.abc import Callable
from functools import partial

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import Floats, Labels
from sizeshiftreg.coarsening.agglomeration import by_first_appearance

# Of a column with more entries than this, a row looks only at those beside it; else one hub would cost n^2.
WINDOW = 64
# At most every so many-th node is merged away in a round, so that later merges see what earlier ones made.
_PER_ROUND = 8
# A matching that takes less than one node in so many is stuck at hubs.
_FEW = 20

# (matrix, cluster sizes, at most so many merges) -> the node that every node goes into
Finder = Callable[[sp.csr_array, Floats, int], Labels]


def merge_in_levels(matrix: sp.csr_array, num_clusters: int, find: Finder, *, columns: bool = True) -> Tensor:
    """Merge what `find` says, again and again, until `num_clusters` are left; return labels by first appearance.

    Args:
        matrix: What is known of the nodes, a row each; merged rows are summed.
        num_clusters: Number of clusters to stop at.
        find: Tells which nodes to merge. Where it finds none, the smallest clusters are merged.
        columns: Sum the columns of merged nodes, too, as in the adjacency matrix of the smaller graph.
    """
    labels: Labels = np.arange(matrix.shape[0])
    size = np.ones(len(labels))
    while (surplus := len(size) - num_clusters) > 0:
        into = find(matrix, size, surplus)
        if (into == np.arange(len(into))).all():
            into = _pair_the_smallest(size, surplus)
        kept, groups = np.unique(into, return_inverse=True)
        matrix = _merge(matrix, groups, len(kept), columns=columns)
        size = np.bincount(groups, weights=size).astype(np.float64)
        labels = groups[labels]
    return torch.from_numpy(by_first_appearance(labels, num_clusters))


def merge_alike(rows: sp.csr_array, num_clusters: int) -> Tensor:
    """Cluster sparse rows by Ward's rule, in rounds; return labels by first appearance."""
    return merge_in_levels(rows, num_clusters, partial(pair_alike, l1=False), columns=False)


def pair_alike(rows: sp.csr_array, size: Floats, at_most: int, *, l1: bool) -> Labels:
    """Pair the rows that are cheapest to merge, of those that share a column; every row is in one pair at most.

    Args:
        rows: The rows, [num_rows, num_columns].
        size: How many nodes are summed in every row, [num_rows].
        at_most: At most so many pairs.
        l1: Measure a merge by the L1 distance of the rows as they are; otherwise by Ward's rule, from their means.
    """
    norm = np.asarray(rows.sum(axis=1)).ravel() if l1 else np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    across = sp.csr_array(rows.T)
    partner, cost = _nearest_rows(
        rows.indptr, rows.indices, rows.data, across.indptr, across.indices, across.data, norm, size, l1
    )
    empty = np.flatnonzero(np.diff(rows.indptr) == 0)  # rows of isolated nodes are equal
    partner[empty[1:]], cost[empty[1:]] = empty[:-1], 0.0
    one = np.flatnonzero(partner >= 0)
    order = one[np.argsort(cost[one], kind="stable")]
    at_most = min(at_most, max(1, len(size) // _PER_ROUND))
    into: Labels = match(order, partner[order], len(size), at_most)
    return _pair_left_over(into, one, partner[one], at_most)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def match(first: Labels, second: Labels, num_nodes: int, at_most: int) -> Labels:
    """Take the pairs in their order, each unless one of its nodes is taken; return what every node goes into."""
    into = np.arange(num_nodes)
    free = np.ones(num_nodes, dtype=np.bool_)
    taken = 0
    for a, b in zip(first, second):  # noqa: B905 (numba knows no strict)
        if taken == at_most:
            break
        if free[a] and free[b] and a != b:
            free[a] = free[b] = False
            into[max(a, b)] = min(a, b)
            taken += 1
    return into


def match_edges(matrix: sp.csr_array, first: Labels, second: Labels, at_most: int) -> Labels:
    """Match along edges in their order; where most nodes hang on few, also nodes that hang on the same one."""
    num_nodes = matrix.shape[0]
    into: Labels = match(first, second, num_nodes, at_most)
    if not _stuck(into, at_most):
        return into
    entries = matrix.tocoo()
    apart = entries.row != entries.col
    row, column, weight = entries.row[apart], entries.col[apart], entries.data[apart]
    order = np.lexsort((column, -weight, row))
    nodes, heaviest = np.unique(row[order], return_index=True)
    return _pair_left_over(into, nodes, column[order][heaviest], at_most)


def _stuck(into: Labels, at_most: int) -> bool:
    merged = np.count_nonzero(into != np.arange(len(into)))
    return 0 < int(merged) < min(at_most, len(into) // _FEW)


def _pair_left_over(into: Labels, nodes: Labels, hub: Labels, at_most: int) -> Labels:
    """Where a matching is stuck, pair nodes that want the same partner.

    Around a hub one pair at most is matched in a round, so a star would take as many rounds as it has leaves. METIS
    pairs what hangs on the same node for this reason (LaSalle et al. 2015).
    """
    if not _stuck(into, at_most):
        return into
    merged = np.flatnonzero(into != np.arange(len(into)))
    free = np.ones(len(into), dtype=np.bool_)
    free[merged] = free[into[merged]] = False
    nodes, hub = nodes[free[nodes]], hub[free[nodes]]
    order = np.argsort(hub, kind="stable")
    nodes, hub = nodes[order], hub[order]
    # Of the nodes at one hub, the first and second are a pair, the third and fourth, and so on.
    rank = np.arange(len(hub)) - np.searchsorted(hub, hub)
    pairs = np.flatnonzero((rank[:-1] % 2 == 0) & (hub[:-1] == hub[1:]))[: at_most - len(merged)]
    into[nodes[pairs + 1]] = nodes[pairs]
    return into


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _nearest_rows(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    data: Floats,
    column_indptr: NDArray[np.int32],
    column_indices: NDArray[np.int32],
    column_data: Floats,
    norm: Floats,
    size: Floats,
    l1: bool,
) -> tuple[Labels, Floats]:
    """Return for every row the row that is cheapest to merge with it, and the cost; -1 where none shares a column."""
    num_rows = len(size)
    shared = np.zeros(num_rows)
    seen = np.full(num_rows, -1)
    touched = np.empty(num_rows, dtype=np.int64)
    partner = np.full(num_rows, -1)
    cost = np.full(num_rows, np.inf)
    for i in range(num_rows):
        count = 0
        for p in range(indptr[i], indptr[i + 1]):
            start, stop = _window(column_indptr, column_indices, indices[p], i)
            for q in range(start, stop):
                j = column_indices[q]
                if j == i:
                    continue
                if seen[j] != i:
                    seen[j] = i
                    shared[j] = 0.0
                    touched[count] = j
                    count += 1
                if l1:
                    shared[j] += min(data[p], column_data[q])
                else:
                    shared[j] += data[p] * column_data[q]
        for t in range(count):
            j = touched[t]
            found = norm[i] + norm[j] - 2.0 * shared[j] if l1 else _ward(norm, size, i, j, shared[j])
            if found < cost[i]:
                partner[i], cost[i] = j, found
    return partner, cost


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _window(indptr: NDArray[np.int32], indices: NDArray[np.int32], column: int, row: int) -> tuple[int, int]:
    """Return where a column's entries begin and end, of a long column those beside a row."""
    start, stop = indptr[column], indptr[column + 1]
    if stop - start > WINDOW:
        here = start + np.searchsorted(indices[start:stop], row)
        start = max(start, min(here - WINDOW // 2, stop - WINDOW))
        stop = start + WINDOW
    return start, stop


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _ward(norm: Floats, size: Floats, a: int, b: int, shared: float) -> float:
    """Return by how much the k-means objective grows when two rows, sums over `size` nodes, become one cluster."""
    apart = norm[a] / size[a] ** 2 + norm[b] / size[b] ** 2 - 2.0 * shared / (size[a] * size[b])
    return apart * size[a] * size[b] / (size[a] + size[b])  # type: ignore[no-any-return]


def _pair_the_smallest(size: Floats, at_most: int) -> Labels:
    """Pair the smallest clusters in their order: for what has nothing in common, such as the parts of a graph."""
    order = np.argsort(size, kind="stable")
    pairs = min(at_most, len(size) // 2)
    into: Labels = match(order[: 2 * pairs : 2], order[1 : 2 * pairs : 2], len(size), pairs)
    return into


def _merge(matrix: sp.csr_array, groups: Labels, num_groups: int, *, columns: bool) -> sp.csr_array:
    entries = matrix.tocoo()
    row, column = groups[entries.row], groups[entries.col] if columns else entries.col
    shape = (num_groups, num_groups if columns else matrix.shape[1])
    merged = sp.csr_array(sp.coo_array((entries.data, (row, column)), shape=shape))
    merged.sum_duplicates()
    return merged

"""MLGC: merge, again and again, the two nodes with the most alike neighbourhoods (Jin, Loukas, JaJa 2020)."""

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import DENSE_LIMIT, Floats, Labels, check_task, dense_adjacency, sparse_adjacency
from sizeshiftreg.coarsening.agglomeration import TIE, cheapest
from sizeshiftreg.coarsening.levels import merge_in_levels, pair_alike


def mlgc(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by multilevel graph coarsening.

    Two nodes are as far apart as their rows of the adjacency matrix, each divided by its sum, in the L1 norm. The
    nearest two become one, whose row is the sum of theirs (with edge weights and self-loops), until `num_clusters` are
    left. Among equals the pair with the earliest nodes is merged, where a merged node counts as the latest. Directed
    edges count in both directions. Beyond `DENSE_LIMIT` nodes many pairs are merged at once, the nearest first, before
    distances are looked at anew.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Not used: MLGC draws nothing.

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> mlgc(star, 4, 2, generator=torch.Generator()).tolist()  # leaves together, hub apart
        [0, 1, 1, 1]
    """
    del generator
    check_task(edge_index, num_nodes, num_clusters)
    if num_nodes > DENSE_LIMIT:
        return merge_in_levels(sparse_adjacency(edge_index, num_nodes), num_clusters, _nearest)
    return torch.from_numpy(_merge_alike(dense_adjacency(edge_index, num_nodes), num_clusters))


def _nearest(adjacency: sp.csr_array, size: Floats, at_most: int) -> Labels:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    rows = sp.csr_array(sp.diags_array(1.0 / np.where(degree > 0, degree, 1.0)) @ adjacency)
    return pair_alike(rows, size, at_most, l1=True)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge_alike(adjacency: Floats, num_clusters: int) -> Labels:
    """Merge the nearest pair until `num_clusters` are left; return the labels.

    Merged nodes get new numbers, num_nodes on. Every node remembers its nearest later node; a merge changes only rows
    that touch the merged node, so only distances from or to those are looked at again.
    """
    num_nodes = len(adjacency)
    total = 2 * num_nodes - num_clusters
    weights = np.zeros((total, total))
    weights[:num_nodes, :num_nodes] = adjacency
    rows = np.zeros((total, total))  # the weights, every row divided by its sum
    mass = np.zeros(total)  # the sums of the rows: 1, or 0 where there is no edge
    alive = np.zeros(total, dtype=np.bool_)
    alive[:num_nodes] = True
    into = np.full(total, -1)
    partner = np.full(total, -1)
    cost = np.full(total, np.inf)
    changed = alive.copy()
    for new in range(num_nodes, total + 1):
        _look_again(weights, rows, mass, alive, changed, partner, cost)
        if new == total:
            break
        a = cheapest(cost, alive)
        b = partner[a]
        for c in range(total):
            weights[new, c] = weights[c, new] = weights[a, c] + weights[b, c]
        weights[new, new] = weights[a, a] + 2.0 * weights[a, b] + weights[b, b]
        for old in (a, b):
            weights[old] = 0.0
            weights[:, old] = 0.0
            alive[old] = False
            into[old] = new
        alive[new] = True
        changed = (weights[new] > 0.0) & alive
        changed[new] = True
    labels: Labels = _labels(into, num_nodes)
    return labels


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _look_again(
    weights: Floats,
    rows: Floats,
    mass: Floats,
    alive: NDArray[np.bool_],
    changed: NDArray[np.bool_],
    partner: Labels,
    cost: Floats,
) -> None:
    """Renew the changed rows, and every node's nearest later node where that may have changed."""
    total = len(weights)
    for c in range(total):
        if changed[c]:
            degree = weights[c].sum()
            mass[c] = 1.0 if degree > 0.0 else 0.0
            rows[c] = weights[c] / degree if degree > 0.0 else weights[c]
    afresh = np.zeros(total, dtype=np.bool_)
    for c in range(total):
        lost = partner[c] >= 0 and (changed[partner[c]] or not alive[partner[c]])
        if alive[c] and (changed[c] or lost):
            afresh[c] = True
            partner[c], cost[c] = -1, np.inf
    for d in range(total):
        if alive[d] and (changed[d] or afresh[d]):
            # A distance is found from the entries of the row that changed: sum |a - b| is the sum of both rows less
            # twice what they share.
            entries = np.flatnonzero(rows[d] * alive)
            first = 0 if changed[d] else d + 1
            last = total if afresh[d] else d
            for c in range(first, last):
                if c == d or not alive[c] or (c < d and afresh[c]):
                    continue
                distance = mass[d] + mass[c] - 2.0 * _shared(rows, d, c, entries)
                _offer(min(c, d), max(c, d), distance, partner, cost)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _shared(rows: Floats, a: int, b: int, entries: Labels) -> float:
    """Return what two rows share, the sum of the smaller of both; `entries` are those of row a."""
    shared = 0.0
    for k in entries:
        shared += min(rows[a, k], rows[b, k])
    return shared


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _offer(node: int, other: int, distance: float, partner: Labels, cost: Floats) -> None:
    """Make a later node the nearest one if it is nearer, or as near and earlier."""
    earlier = distance < cost[node] + TIE and other < partner[node]
    if distance < cost[node] - TIE or earlier:
        partner[node], cost[node] = other, distance


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _labels(into: Labels, num_nodes: int) -> Labels:
    """Follow every node to the last it was merged into; number those in order of first appearance."""
    number = np.full(len(into), -1)
    labels = np.empty(num_nodes, dtype=np.int64)
    count = 0
    for node in range(num_nodes):
        last = node
        while into[last] >= 0:
            last = into[last]
        if number[last] < 0:
            number[last] = count
            count += 1
        labels[node] = number[last]
    return labels

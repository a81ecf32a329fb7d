"""MLGC: merge, again and again, the two nodes with the most alike neighbourhoods (Jin, Loukas, JaJa 2020)."""

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sizeshiftreg.coarsening.dense import TIE, Floats, Labels, cheapest, dense_adjacency


def mlgc(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by multilevel graph coarsening.

    Two nodes are as far apart as their rows of the adjacency matrix, each divided by its sum, in the L1 norm. The
    nearest two become one, whose row is the sum of theirs (with edge weights and self-loops), until `num_clusters` are
    left. Among equals the pair with the earliest nodes is merged, where a merged node counts as the latest. Directed
    edges count in both directions.

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
    return torch.from_numpy(_merge_alike(dense_adjacency(edge_index, num_nodes), num_clusters))


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
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
    alive = np.zeros(total, dtype=np.bool_)
    alive[:num_nodes] = True
    into = np.full(total, -1)
    partner = np.full(total, -1)
    cost = np.full(total, np.inf)
    changed = alive.copy()
    for new in range(num_nodes, total + 1):
        _look_again(weights, rows, alive, changed, partner, cost)
        if new == total:
            break
        a = cheapest(cost, alive)
        b = partner[a]
        weights[new] = weights[a] + weights[b]
        weights[:, new] = weights[:, a] + weights[:, b]
        weights[new, new] = weights[new, a] + weights[new, b]
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


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _look_again(
    weights: Floats,
    rows: Floats,
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
            rows[c] = weights[c] / degree if degree > 0.0 else weights[c]
    for c in range(total):
        if not alive[c]:
            continue
        afresh = changed[c] or (partner[c] >= 0 and (changed[partner[c]] or not alive[partner[c]]))
        if afresh:
            partner[c], cost[c] = -1, np.inf
        for d in range(c + 1, total):
            if alive[d] and (afresh or changed[d]):
                distance = np.abs(rows[c] - rows[d]).sum()
                earlier = distance < cost[c] + TIE and d < partner[c]
                if distance < cost[c] - TIE or earlier:
                    partner[c], cost[c] = d, distance


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
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

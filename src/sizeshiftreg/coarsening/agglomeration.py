"""K-means on a Gram matrix without random starts: Ward's agglomeration, and moves of single points."""

import numba
import numpy as np
from numpy.typing import NDArray

from sizeshiftreg.coarsening.adjacency import Floats, Labels

# Costs that differ by less are ties and go to the first pair, so that rounding does not choose.
TIE = 1e-10


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def cluster(gram: Floats, num_clusters: int) -> Labels:
    """Agglomerate, then move single points as long as a move lowers the k-means objective (Hartigan and Wong 1979).

    Args:
        gram: Inner products of the points, [num_points, num_points].
        num_clusters: Number of clusters.

    Returns:
        Labels in order of first appearance, [num_points].
    """
    num_points = len(gram)
    labels = agglomerate(gram.copy(), num_clusters)
    size = np.zeros(num_clusters)
    within = np.zeros(num_clusters)  # inner product of a cluster's sum with itself
    to_sum = np.zeros((num_points, num_clusters))  # of a point with a cluster's sum
    for a in range(num_points):
        size[labels[a]] += 1.0
        for b in range(num_points):
            to_sum[a, labels[b]] += gram[a, b]
    for a in range(num_points):
        within[labels[a]] += to_sum[a, labels[a]]

    moved = True
    while moved:
        moved = False
        for point in range(num_points):
            old, itself = labels[point], gram[point, point]
            new = _best_home(old, itself, size, within, to_sum[point])
            if new == old:
                continue
            moved = True
            within[new] += 2.0 * to_sum[point, new] + itself
            within[old] -= 2.0 * to_sum[point, old] - itself
            size[old] -= 1.0
            size[new] += 1.0
            labels[point] = new
            for a in range(num_points):
                to_sum[a, old] -= gram[a, point]
                to_sum[a, new] += gram[a, point]
    return by_first_appearance(labels, num_clusters)  # type: ignore[no-any-return]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _best_home(old: int, itself: float, size: Floats, within: Floats, to_sum: Floats) -> int:
    """Return the cluster that a point of cluster `old` should move to; `old` if no move lowers the objective."""
    if size[old] == 1.0:
        return old
    left = within[old] - 2.0 * to_sum[old] + itself
    loss = within[old] / size[old] - left / (size[old] - 1.0)
    new, most = old, TIE
    for c in range(len(size)):
        joined = within[c] + 2.0 * to_sum[c] + itself
        gain = joined / (size[c] + 1.0) - within[c] / size[c] - loss
        if c != old and gain > most:
            new, most = c, gain
    return new


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def by_first_appearance(labels: Labels, num_clusters: int) -> Labels:
    """Number the clusters in the order in which they appear."""
    number = np.full(num_clusters, -1)
    count = 0
    renumbered = np.empty(len(labels), dtype=np.int64)
    for a in range(len(labels)):
        if number[labels[a]] < 0:
            number[labels[a]] = count
            count += 1
        renumbered[a] = number[labels[a]]
    return renumbered


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def agglomerate(gram: Floats, num_clusters: int) -> Labels:
    """Merge the pair that raises the k-means objective least, again and again; `gram` is overwritten.

    Args:
        gram: Inner products of the points, [num_points, num_points]; a multiple of the identity may be missing, for
            every merge costs as much more of it.
        num_clusters: Number of clusters to stop at.

    Returns:
        Labels in order of first appearance, [num_points].
    """
    # gram[a, b] becomes the inner product of the sums over clusters a and b. Every cluster remembers its cheapest later
    # partner, so that a merge looks again only at the clusters whose partner it touched.
    num_points = len(gram)
    size = np.ones(num_points)
    alive = np.ones(num_points, dtype=np.bool_)
    into = np.arange(num_points)
    partner = np.full(num_points, -1)
    cost = np.full(num_points, np.inf)
    for c in range(num_points):
        partner[c], cost[c] = _nearest(gram, size, c, alive)

    for _ in range(num_points - num_clusters):
        a = cheapest(cost, alive)
        b = partner[a]
        alive[b] = False
        into[b] = a
        for c in range(num_points):
            gram[a, c] += gram[b, c]
        for c in range(num_points):
            gram[c, a] += gram[c, b]
        size[a] += size[b]
        for c in range(num_points):
            if not alive[c]:
                continue
            if c == a or partner[c] == a or partner[c] == b:
                partner[c], cost[c] = _nearest(gram, size, c, alive)
            elif c < a:
                to_a = _merge_cost(gram, size, c, a)
                if to_a < cost[c] - TIE:
                    partner[c], cost[c] = a, to_a
    labels: Labels = _number_clusters(alive, into)
    return labels


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def cheapest(cost: Floats, alive: NDArray[np.bool_]) -> int:
    """Return the living cluster whose merge with its partner is cheapest, the first among ties."""
    best, best_cost = -1, np.inf
    for c in range(len(cost)):
        if alive[c] and cost[c] < best_cost - TIE:
            best, best_cost = c, cost[c]
    return best


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge_cost(gram: Floats, size: Floats, a: int, b: int) -> float:
    """Return by how much the k-means objective grows when clusters a and b become one."""
    together = (gram[a, a] + 2.0 * gram[a, b] + gram[b, b]) / (size[a] + size[b])
    return gram[a, a] / size[a] + gram[b, b] / size[b] - together  # type: ignore[no-any-return]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _nearest(gram: Floats, size: Floats, a: int, alive: NDArray[np.bool_]) -> tuple[int, float]:
    """Return the later cluster that is cheapest to merge with a, and the cost."""
    best, best_cost = -1, np.inf
    for b in range(a + 1, len(size)):
        if alive[b]:
            cost = _merge_cost(gram, size, a, b)
            if cost < best_cost - TIE:
                best, best_cost = b, cost
    return best, best_cost


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _number_clusters(alive: NDArray[np.bool_], into: Labels) -> Labels:
    """Number the clusters by their first point; a merged cluster always went into an earlier one."""
    labels = np.empty(len(into), dtype=np.int64)
    count = 0
    for c in range(len(into)):
        if alive[c]:
            labels[c] = count
            count += 1
        else:
            labels[c] = labels[into[c]]
    return labels

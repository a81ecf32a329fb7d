"""SGC: the partition that keeps both ends of the normalised Laplacian's spectrum (Jin, Loukas, JaJa 2020).

With n nodes and n' clusters, SGC keeps n' eigenvectors, the k + 1 lowest and the n' - k - 1 highest, and drops the
m = n - n' in between. The nodes are clustered by their kept coordinates. All eigenvectors together are orthonormal, so
that k-means objective equals the sum over clusters of ||sum of dropped coordinates||² / size: all that is needed of a
graph is the Gram matrix of the few dropped eigenvectors. Clusters are merged greedily on it (Ward's rule), which draws
nothing: the same graph gives the same partition.
"""

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sizeshiftreg.coarsening.dense import TIE, Floats, Labels, cheapest, dense_adjacency
from sizeshiftreg.coarsening.threads import one_blas_thread

# How many numbers the coarse matrices that are decomposed in one call may hold.
_STACK = 2**24


def sgc(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by spectral graph coarsening.

    For every admissible k (the kept low eigenvalues at most 1, the kept high ones at least 1) the nodes are
    clustered; the partition with the smallest spectral distance wins. Directed edges count in both directions.
    An isolated node has eigenvalue 1, as in the published code.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Not used: SGC draws nothing.

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> sgc(star, 4, 2, generator=torch.Generator()).tolist()  # leaves together, hub apart
        [0, 1, 1, 1]
    """
    del generator
    if num_clusters >= num_nodes:
        return torch.arange(num_nodes)
    if num_clusters == 1:
        return torch.zeros(num_nodes, dtype=torch.long)
    adjacency = dense_adjacency(edge_index, num_nodes)
    with one_blas_thread():
        eigenvalues, vectors = np.linalg.eigh(_normalised_laplacian(adjacency[None])[0])
        ks = _admissible(eigenvalues, num_clusters)
        candidates = np.unique(_cluster_all(vectors, ks, num_clusters), axis=0)
        at_once = max(1, _STACK // num_clusters**2)
        stacks = [candidates[i : i + at_once] for i in range(0, len(candidates), at_once)]
        distances = [_distances(adjacency, eigenvalues, stack, num_clusters, ks) for stack in stacks]
    return torch.from_numpy(candidates[np.concatenate(distances).argmin()])


def spectral_distance(edge_index: Tensor, partition: Tensor) -> float:
    """Measure what a partition does to the spectrum: the objective of SGC, lower is better.

    The sum of the differences between the kept eigenvalues of the graph and those of the coarse graph (with edge
    weights and self-loops), for the admissible k where it is smallest.

    Example:
        >>> square = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
        >>> round(spectral_distance(square, torch.tensor([0, 1, 0, 1])), 6)  # opposite corners are twins
        0.0
    """
    num_nodes, num_clusters = partition.numel(), int(partition.max()) + 1
    adjacency = dense_adjacency(edge_index, num_nodes)
    with one_blas_thread():
        eigenvalues = np.linalg.eigvalsh(_normalised_laplacian(adjacency[None])[0])
        ks = _admissible(eigenvalues, num_clusters)
        return float(_distances(adjacency, eigenvalues, partition.numpy()[None], num_clusters, ks)[0])


def _normalised_laplacian(weights: Floats) -> Floats:
    """Return I - D^-1/2 W D^-1/2 for a stack of weight matrices, [..., n, n]."""
    degree = weights.sum(-1)
    scale = np.where(degree > 0, 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)
    laplacian = -weights * scale[..., :, None] * scale[..., None, :]
    diagonal = np.arange(weights.shape[-1])
    laplacian[..., diagonal, diagonal] += 1.0
    return laplacian


def _admissible(eigenvalues: Floats, num_clusters: int) -> Labels:
    """Return every k for which the k + 1 lowest eigenvalues are <= 1 and the num_clusters - k - 1 highest >= 1."""
    dropped = len(eigenvalues) - num_clusters
    # Eigenvalues that are 1 come out as 1 +- rounding; both sides of 1 must take them.
    low_fits = eigenvalues[:num_clusters] <= 1 + 1e-9
    high_fits = np.append(eigenvalues[dropped + 1 :] >= 1 - 1e-9, True)
    return np.flatnonzero(low_fits & high_fits)


def _distances(adjacency: Floats, eigenvalues: Floats, partitions: Labels, num_clusters: int, ks: Labels) -> Floats:
    """Return the spectral distance of every partition, [num_partitions]: the smallest over all admissible k."""
    coarse = np.linalg.eigvalsh(_normalised_laplacian(_contract_dense(adjacency, partitions, num_clusters)))
    low = np.abs(coarse - eigenvalues[:num_clusters])  # [num_partitions, num_clusters]
    high = np.abs(coarse - eigenvalues[len(eigenvalues) - num_clusters :])
    high_from = high[:, ::-1].cumsum(1)[:, ::-1]
    distances = low.cumsum(1) + np.pad(high_from[:, 1:], ((0, 0), (0, 1)))
    return np.asarray(distances[:, ks].min(1))


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _contract_dense(adjacency: Floats, partitions: Labels, num_clusters: int) -> Floats:
    """Return QᵀAQ for every partition, [num_partitions, num_clusters, num_clusters]."""
    num_partitions, num_nodes = partitions.shape
    coarse = np.zeros((num_partitions, num_clusters, num_clusters))
    for i in range(num_nodes):
        for j in range(num_nodes):
            if adjacency[i, j] != 0.0:
                for p in range(num_partitions):
                    coarse[p, partitions[p, i], partitions[p, j]] += adjacency[i, j]
    return coarse


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _cluster_all(vectors: Floats, ks: Labels, num_clusters: int) -> Labels:
    """Return the partition for every k, [len(ks), num_nodes]."""
    num_nodes = vectors.shape[0]
    num_dropped = num_nodes - num_clusters
    partitions = np.empty((len(ks), num_nodes), dtype=np.int64)
    for index in range(len(ks)):
        first = ks[index] + 1
        dropped = np.ascontiguousarray(vectors[:, first : first + num_dropped])
        partitions[index] = _agglomerate(dropped @ dropped.T, num_clusters)
    return partitions


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _merge_cost(gram: Floats, size: Floats, a: int, b: int) -> float:
    """Return by how much the objective grows when clusters a and b become one."""
    together = (gram[a, a] + 2.0 * gram[a, b] + gram[b, b]) / (size[a] + size[b])
    return together - gram[a, a] / size[a] - gram[b, b] / size[b]  # type: ignore[no-any-return]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _nearest(gram: Floats, size: Floats, a: int, alive: NDArray[np.bool_]) -> tuple[int, float]:
    """Return the later cluster that is cheapest to merge with a, and the cost."""
    best, best_cost = -1, np.inf
    for b in range(a + 1, len(size)):
        if alive[b]:
            cost = _merge_cost(gram, size, a, b)
            if cost < best_cost - TIE:
                best, best_cost = b, cost
    return best, best_cost


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _agglomerate(gram: Floats, num_clusters: int) -> Labels:
    """Merge the cheapest pair again and again until `num_clusters` are left; gram is overwritten.

    gram[a, b] is the inner product of the clusters' summed coordinates. Every cluster remembers its cheapest later
    partner, so that a merge looks again only at the clusters whose partner it touched.
    """
    num_nodes = len(gram)
    size = np.ones(num_nodes)
    alive = np.ones(num_nodes, dtype=np.bool_)
    into = np.arange(num_nodes)
    partner = np.empty(num_nodes, dtype=np.int64)
    cost = np.empty(num_nodes)
    for c in range(num_nodes):
        partner[c], cost[c] = _nearest(gram, size, c, alive)

    for _ in range(num_nodes - num_clusters):
        a = cheapest(cost, alive)
        b = partner[a]
        alive[b] = False
        into[b] = a
        gram[a] += gram[b]
        gram[:, a] += gram[:, b]
        size[a] += size[b]
        for c in range(num_nodes):
            if not alive[c]:
                continue
            if c == a or partner[c] in (a, b):
                partner[c], cost[c] = _nearest(gram, size, c, alive)
            elif c < a:
                to_a = _merge_cost(gram, size, c, a)
                if to_a < cost[c] - TIE:
                    partner[c], cost[c] = a, to_a
    labels: Labels = _number_clusters(alive, into)
    return labels


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _number_clusters(alive: NDArray[np.bool_], into: Labels) -> Labels:
    """Number the clusters by their first node; a merged cluster always went into an earlier one."""
    labels = np.empty(len(into), dtype=np.int64)
    count = 0
    for c in range(len(into)):
        if alive[c]:
            labels[c] = count
            count += 1
        else:
            labels[c] = labels[into[c]]
    return labels

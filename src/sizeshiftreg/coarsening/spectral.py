"""SGC: the partition that keeps both ends of the normalised Laplacian's spectrum (Jin, Loukas, JaJa 2020).

With n nodes and n' clusters, SGC keeps n' eigenvectors, the k + 1 lowest and the n' - k - 1 highest, drops the n - n'
in between, and clusters the nodes by their kept coordinates. All eigenvectors together are orthonormal, so the Gram
matrix of the kept coordinates follows from the few dropped ones. The k-means step is Ward's agglomeration, which draws
nothing: the same graph gives the same partition.

Beside these cuts, eigenvectors may count by how far their eigenvalue is from 1, instead of all or nothing: with weights
(eigenvalue - 1)^2 and ^4 the nodes are clustered by the rows of the normalised adjacency and of its square. Whichever
partition has the smallest spectral distance wins. Large graphs are clustered by the sparse rows alone.
"""

import numba
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import Floats, Labels, check_task, dense_adjacency, sparse_adjacency
from sizeshiftreg.coarsening.agglomeration import TIE, agglomerate
from sizeshiftreg.coarsening.levels import merge_alike
from sizeshiftreg.coarsening.threads import one_blas_thread

# Beyond this many nodes, where the exact way takes seconds, SGC takes the sparse path.
SGC_DENSE_LIMIT = 500
# More cuts than this, which at a ratio of 0.8 only graphs of over 80 nodes have, are thinned out evenly: there the
# smooth weights win, and every cut costs an eigendecomposition.
_MOST_CUTS = 16
# Eigenvalues that are 1 come out as 1 +- rounding; both sides of 1 must take them.
_ROUNDING = 1e-9


def sgc(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by spectral graph coarsening.

    For every admissible k (the kept low eigenvalues at most 1, the kept high ones at least 1; where there are more than
    16, for some of them), and for two ways to weigh all eigenvectors smoothly, the nodes are clustered; the partition
    with the smallest spectral distance wins.
    Directed edges count in both directions. An isolated node has eigenvalue 1, as in the published code. Beyond
    `SGC_DENSE_LIMIT` nodes no eigenvector is computed: the sparse rows of the normalised adjacency are clustered alone.

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
    check_task(edge_index, num_nodes, num_clusters)
    if num_clusters >= num_nodes:
        return torch.arange(num_nodes)
    if num_clusters == 1:
        return torch.zeros(num_nodes, dtype=torch.long)
    if num_nodes > SGC_DENSE_LIMIT:
        return merge_alike(scale_by_degree(sparse_adjacency(edge_index, num_nodes)), num_clusters)
    with one_blas_thread():
        return torch.from_numpy(_best_partition(dense_adjacency(edge_index, num_nodes), num_clusters))


def spectral_distance(edge_index: Tensor, partition: Tensor) -> float:
    """Measure what a partition does to the spectrum: the objective of SGC, lower is better.

    The sum of the differences between the kept eigenvalues of the graph and those of the coarse graph (with edge
    weights and self-loops), for the admissible k where it is smallest. It takes all eigenvalues of both graphs.

    Example:
        >>> square = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
        >>> round(spectral_distance(square, torch.tensor([0, 1, 0, 1])), 6)  # opposite corners are twins
        0.0
    """
    num_nodes, num_clusters = partition.numel(), int(partition.max()) + 1
    with one_blas_thread():
        return float(_distance_of(dense_adjacency(edge_index, num_nodes), partition.numpy(), num_clusters))


def scale_by_degree(adjacency: sp.csr_array) -> sp.csr_array:
    """Return D^-1/2 A D^-1/2."""
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0))
    rows = np.repeat(scale, np.diff(adjacency.indptr))
    data = adjacency.data * rows * scale[adjacency.indices]
    return sp.csr_array((data, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def normalised_laplacian(weights: Floats) -> Floats:
    """Return I - D^-1/2 W D^-1/2."""
    num_nodes = len(weights)
    scale = np.empty(num_nodes)
    for a in range(num_nodes):
        degree = weights[a].sum()
        scale[a] = 1.0 / np.sqrt(degree) if degree > 0.0 else 0.0
    laplacian = np.empty((num_nodes, num_nodes))
    for a in range(num_nodes):
        for b in range(num_nodes):
            laplacian[a, b] = -weights[a, b] * scale[a] * scale[b]
        laplacian[a, a] += 1.0
    return laplacian


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _best_partition(adjacency: Floats, num_clusters: int) -> Labels:
    """Return the candidate with the smallest spectral distance, the first among equals."""
    eigenvalues, vectors = np.linalg.eigh(normalised_laplacian(adjacency))
    candidates = _candidates(eigenvalues, vectors, num_clusters)
    best, best_distance = 0, np.inf
    for number in range(len(candidates)):
        if _seen_before(candidates, number):
            continue
        distance = _distance(adjacency, eigenvalues, candidates[number], num_clusters)
        if distance < best_distance - TIE:
            best, best_distance = number, distance
    return candidates[best]  # type: ignore[no-any-return]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _distance_of(adjacency: Floats, partition: Labels, num_clusters: int) -> float:
    eigenvalues = np.linalg.eigvalsh(normalised_laplacian(adjacency))
    return _distance(adjacency, eigenvalues, partition, num_clusters)  # type: ignore[no-any-return]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _admissible(eigenvalues: Floats, num_clusters: int) -> tuple[int, int]:
    """Return the first and last k for which the k + 1 lowest are <= 1 and the num_clusters - k - 1 highest >= 1."""
    dropped = len(eigenvalues) - num_clusters
    below = np.searchsorted(eigenvalues, 1.0 - _ROUNDING)  # so many are below 1
    not_above = np.searchsorted(eigenvalues, 1.0 + _ROUNDING, side="right")  # so many are at most 1
    return max(0, int(below) - dropped - 1), min(num_clusters, int(not_above)) - 1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _candidates(eigenvalues: Floats, vectors: Floats, num_clusters: int) -> Labels:
    """Return a partition for some cuts and for both smooth weights, [num_candidates, num_nodes]."""
    num_nodes = len(eigenvalues)
    num_dropped = num_nodes - num_clusters
    first, last = _admissible(eigenvalues, num_clusters)
    step = 1 + (last - first) // _MOST_CUTS
    ks = np.arange(first, last + 1, step)
    candidates = np.empty((len(ks) + 2, num_nodes), dtype=np.int64)
    for index in range(len(ks)):
        start = ks[index] + 1
        dropped = np.ascontiguousarray(vectors[:, start : start + num_dropped])
        # Kept coordinates have the Gram matrix I - dropped @ dropped.T; the identity may be missing.
        candidates[index] = agglomerate(-(dropped @ dropped.T), num_clusters)
    rows = np.ascontiguousarray(vectors * np.abs(eigenvalues - 1.0))
    gram = rows @ rows.T
    candidates[-2] = agglomerate(gram.copy(), num_clusters)
    candidates[-1] = agglomerate(gram @ gram, num_clusters)
    return candidates


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _seen_before(candidates: Labels, number: int) -> bool:
    for earlier in range(number):  # noqa: SIM110 (numba compiles no generators)
        if (candidates[earlier] == candidates[number]).all():
            return True
    return False


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _distance(adjacency: Floats, eigenvalues: Floats, partition: Labels, num_clusters: int) -> float:
    """Return the spectral distance of a partition: the smallest over all admissible k."""
    num_nodes = len(partition)
    weights = np.zeros((num_clusters, num_clusters))
    for a in range(num_nodes):
        for b in range(num_nodes):
            weights[partition[a], partition[b]] += adjacency[a, b]
    coarse = np.linalg.eigvalsh(normalised_laplacian(weights))
    first, last = _admissible(eigenvalues, num_clusters)
    dropped = num_nodes - num_clusters
    distance = 0.0
    for i in range(num_clusters):
        distance += np.abs(coarse[i] - eigenvalues[i if i <= first else i + dropped])
    best = distance
    for k in range(first + 1, last + 1):  # the k-th eigenvalue moves from the high end to the low one
        distance += np.abs(coarse[k] - eigenvalues[k]) - np.abs(coarse[k] - eigenvalues[k + dropped])
        best = min(best, distance)
    return best

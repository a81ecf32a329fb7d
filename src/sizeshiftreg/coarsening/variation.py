"""Local variation: contract where the smoothest signals of a graph vary least (Loukas 2019)."""

import heapq
import re
import warnings

import numba
import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, lobpcg
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import DENSE_LIMIT, Floats, Labels, check_task, sparse_adjacency
from sizeshiftreg.coarsening.levels import match_edges, merge_in_levels
from sizeshiftreg.coarsening.matching import edges_once
from sizeshiftreg.coarsening.threads import one_blas_thread

# So many of the lowest eigenvectors of the Laplacian, without those of eigenvalue 0, are the signals.
_SIGNALS = 10
# Beyond DENSE_LIMIT the signals need not be exact to tell where they vary.
_LOBPCG_STEPS = 30
# It warns here when it has not converged, which it need not. Not where it is called: that is no matter for threads.
warnings.filterwarnings("ignore", "Exited ", UserWarning, module=re.escape(__name__))
_ZERO = 1e-9
# Costs that are equal to so many digits of the highest are ties, and go to the first edge.
_DIGITS = 9


def variation_edges(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by local variation, contracting edges.

    The ten lowest eigenvectors of the Laplacian (without those of eigenvalue 0) are to be kept. An edge costs what its
    contraction can change of them; on every level the cheapest edges without a common end are contracted. Beyond
    `DENSE_LIMIT` nodes the eigenvectors come from LOBPCG. Directed edges count in both directions.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Source of LOBPCG's start.

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> variation_edges(path, 6, 3, generator=torch.Generator()).tolist()
        [0, 0, 1, 1, 2, 2]
    """
    check_task(edge_index, num_nodes, num_clusters)
    adjacency = sparse_adjacency(edge_index, num_nodes)
    return merge_in_levels(adjacency, num_clusters, _Edges(adjacency, generator))


def variation_neighbourhoods(
    edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator
) -> Tensor:
    """Partition by local variation, contracting neighbourhoods: a node and all its neighbours.

    As `variation_edges`, but what is contracted is a node with those of its neighbours that are not taken, the cheapest
    first, where the cost is divided by the number of nodes that it saves.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Source of LOBPCG's start.

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> two_triangles = torch.tensor([[0, 1, 2, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5, 3]])
        >>> variation_neighbourhoods(two_triangles, 6, 2, generator=torch.Generator()).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    check_task(edge_index, num_nodes, num_clusters)
    adjacency = sparse_adjacency(edge_index, num_nodes)
    return merge_in_levels(adjacency, num_clusters, _Neighbourhoods(adjacency, generator))


class _Edges:
    """Finds the edges to contract on a level, and carries the signals on to the next."""

    def __init__(self, adjacency: sp.csr_array, generator: torch.Generator) -> None:
        laplacian = _laplacian(adjacency)
        self._signals = _lowest(laplacian, generator) if laplacian.nnz else None

    def __call__(self, adjacency: sp.csr_array, size: Floats, at_most: int) -> Labels:
        del size
        laplacian = _laplacian(adjacency)
        if self._signals is None or not laplacian.nnz:
            return np.arange(adjacency.shape[0])
        into = self._contract(adjacency, _whiten(self._signals, laplacian), at_most)
        _, groups, counts = np.unique(into, return_inverse=True, return_counts=True)
        means = np.zeros((len(counts), self._signals.shape[1]))
        np.add.at(means, groups, self._signals)
        self._signals = means / counts[:, None]
        return into

    def _contract(self, adjacency: sp.csr_array, signals: Floats, at_most: int) -> Labels:
        first, second, _, degree = edges_once(adjacency)
        # For a pair, the general cost comes down to this.
        cost = ((signals[first] - signals[second]) ** 2).sum(1) * (degree[first] + degree[second])
        order = np.argsort(np.round(cost / max(cost.max(), _ZERO), _DIGITS), kind="stable")
        return match_edges(adjacency, first[order], second[order], at_most)


class _Neighbourhoods(_Edges):
    """Finds the neighbourhoods to contract."""

    def _contract(self, adjacency: sp.csr_array, signals: Floats, at_most: int) -> Labels:
        links = sp.csr_array(adjacency - sp.diags_array(adjacency.diagonal()))
        links.eliminate_zeros()
        into: Labels = _contract_neighbourhoods(links.indptr, links.indices, links.data, signals, at_most)
        return into


def _laplacian(adjacency: sp.csr_array) -> sp.csr_array:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    laplacian = sp.csr_array(sp.diags_array(degree) - adjacency)
    laplacian.eliminate_zeros()
    return laplacian


def _lowest(laplacian: sp.csr_array, generator: torch.Generator) -> Floats:
    """Return the eigenvectors of the lowest eigenvalues above 0, [num_nodes, at most _SIGNALS]."""
    num_nodes = laplacian.shape[0]
    parts, part_of = sp.csgraph.connected_components(laplacian, directed=False)
    wanted = min(_SIGNALS, num_nodes - parts)
    with one_blas_thread():
        if num_nodes <= DENSE_LIMIT:
            _, vectors = scipy.linalg.eigh(laplacian.toarray(), subset_by_index=[parts, parts + wanted - 1])
            return np.ascontiguousarray(vectors)
        counts = np.bincount(part_of)
        lift = 2.0 * laplacian.diagonal().max()

        def lifted(x: Floats) -> Floats:
            """Multiply with the Laplacian, whose zeros are lifted above its other eigenvalues."""
            x = x.reshape(num_nodes, -1)
            sums = np.stack([np.bincount(part_of, weights=column) for column in x.T], axis=1)
            return np.asarray(laplacian @ x + lift * (sums / counts[:, None])[part_of])

        scale = 1.0 / np.maximum(laplacian.diagonal(), 1.0)
        enough = 1e-3 * laplacian.diagonal().mean()
        start = torch.randn(num_nodes, wanted, generator=generator, dtype=torch.float64).numpy()
        operator = LinearOperator((num_nodes, num_nodes), matvec=lifted, matmat=lifted, dtype=np.float64)
        _, vectors = lobpcg(operator, start, M=sp.diags_array(scale), largest=False, maxiter=_LOBPCG_STEPS, tol=enough)
        return np.ascontiguousarray(vectors)


def _whiten(signals: Floats, laplacian: sp.csr_array) -> Floats:
    """Return combinations of the signals that vary alike over the whole graph: A with A.T @ laplacian @ A = I."""
    with one_blas_thread():
        variation, basis = np.linalg.eigh(signals.T @ (laplacian @ signals))
        scale = np.where(variation > _ZERO, 1.0 / np.sqrt(np.maximum(variation, _ZERO)), 0.0)
        return np.ascontiguousarray(signals @ (basis * scale))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _contract_neighbourhoods(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], weights: Floats, signals: Floats, at_most: int
) -> Labels:
    """Take the cheapest neighbourhoods; one that has lost nodes to another is weighed again without them."""
    num_nodes = len(indptr) - 1
    degree = np.zeros(num_nodes)
    for a in range(num_nodes):
        degree[a] = weights[indptr[a] : indptr[a + 1]].sum()
    into = np.arange(num_nodes)
    free = np.ones(num_nodes, dtype=np.bool_)
    inside = np.zeros(num_nodes, dtype=np.bool_)
    weighed = np.empty(num_nodes, dtype=np.int64)  # how many nodes it had when it was weighed
    heap = [(0.0, 0)]
    heap.pop()
    for centre in range(num_nodes):
        nodes = _free_neighbourhood(indptr, indices, free, centre)
        weighed[centre] = len(nodes)
        if len(nodes) > 1:
            heap.append((_cost(indptr, indices, weights, degree, signals, nodes, inside), centre))
    heapq.heapify(heap)
    while len(heap) > 0 and at_most > 0:
        _, centre = heapq.heappop(heap)
        nodes = _free_neighbourhood(indptr, indices, free, centre)
        if len(nodes) < 2:
            continue
        if len(nodes) < weighed[centre]:
            weighed[centre] = len(nodes)
            cost = _cost(indptr, indices, weights, degree, signals, nodes, inside)
            heapq.heappush(heap, (cost, centre))
            continue
        nodes = nodes[: at_most + 1]
        at_most -= len(nodes) - 1
        first = nodes.min()
        for node in nodes:
            free[node] = False
            into[node] = first
    return into


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _free_neighbourhood(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], free: NDArray[np.bool_], centre: int
) -> Labels:
    """Return the centre and its free neighbours; nothing when the centre is taken."""
    nodes = np.empty(indptr[centre + 1] - indptr[centre] + 1, dtype=np.int64)
    if not free[centre]:
        return nodes[:0]
    nodes[0] = centre
    count = 1
    for p in range(indptr[centre], indptr[centre + 1]):
        if free[indices[p]]:
            nodes[count] = indices[p]
            count += 1
    return nodes[:count]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _cost(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weights: Floats,
    degree: Floats,
    signals: Floats,
    nodes: Labels,
    inside: NDArray[np.bool_],
) -> float:
    """Return the variation of the signals that contracting the nodes would flatten, for every node that it saves.

    Edges inside the set count once and edges that leave it twice, as in the published definition.
    """
    width = signals.shape[1]
    mean = np.zeros(width)
    for node in nodes:
        inside[node] = True
        mean += signals[node]
    mean /= len(nodes)
    total = 0.0
    for a in nodes:
        within = 0.0
        for p in _edges_within(indptr, indices, a, nodes, inside):
            b = indices[p]
            within += weights[p]
            if a < b:
                total += weights[p] * _apart(signals[a], signals[b])
        total += 2.0 * (degree[a] - within) * _apart(signals[a], mean)
    for node in nodes:
        inside[node] = False
    return total / (len(nodes) - 1)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _apart(a: Floats, b: Floats) -> float:
    """Return the squared distance; a loop makes no arrays."""
    total = 0.0
    for s in range(len(a)):
        total += (a[s] - b[s]) ** 2
    return total


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _edges_within(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], node: int, nodes: Labels, inside: NDArray[np.bool_]
) -> Labels:
    """Return the positions of a node's edges that stay within the set."""
    start, stop = indptr[node], indptr[node + 1]
    found = np.empty(min(len(nodes), stop - start), dtype=np.int64)
    count = 0
    if len(nodes) * 16 < stop - start:  # a hub in a small set: look for the set's nodes among its neighbours
        for other in nodes:
            p = start + np.searchsorted(indices[start:stop], other)
            if p < stop and indices[p] == other:
                found[count] = p
                count += 1
    else:
        for p in range(start, stop):
            if inside[indices[p]]:
                found[count] = p
                count += 1
    return found[:count]

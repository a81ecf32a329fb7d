"""Clustering the rows of a matrix: spectral clustering, k-means on the adjacency, and the random control."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import DENSE_LIMIT, Floats, check_task, dense_adjacency, sparse_adjacency
from sizeshiftreg.coarsening.agglomeration import cluster
from sizeshiftreg.coarsening.levels import merge_alike
from sizeshiftreg.coarsening.spectral import normalised_laplacian, scale_by_degree
from sizeshiftreg.coarsening.threads import one_blas_thread


def spectral_clustering(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by spectral clustering, with the adjacency matrix as affinity (Ng, Jordan, Weiss 2001; scikit-learn's).

    The nodes are clustered by their coordinates in the `num_clusters` lowest eigenvectors of the normalised Laplacian,
    each divided by the root of its degree. An isolated node is a component of its own, of eigenvalue 0. Beyond
    `DENSE_LIMIT` nodes no eigenvector is computed: the rows of I + D^-1/2 A D^-1/2, where every eigenvector counts by 2
    minus its eigenvalue, are clustered in its place. Directed edges count in both directions.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Not used: the k-means step draws nothing (see `agglomeration.cluster`).

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> two_triangles = torch.tensor([[0, 1, 2, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5, 3]])
        >>> spectral_clustering(two_triangles, 6, 2, generator=torch.Generator()).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    del generator
    check_task(edge_index, num_nodes, num_clusters)
    if num_nodes > DENSE_LIMIT:
        adjacency = sparse_adjacency(edge_index, num_nodes)
        degree = np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1.0)
        rows = sp.csr_array(scale_by_degree(adjacency) + sp.eye_array(num_nodes, format="csr"))
        return merge_alike(sp.csr_array(sp.diags_array(degree**-0.5) @ rows), num_clusters)
    adjacency = dense_adjacency(edge_index, num_nodes)
    degree = adjacency.sum(1)
    laplacian = normalised_laplacian(adjacency)
    alone = np.flatnonzero(degree == 0)
    laplacian[alone, alone] = 0.0
    with one_blas_thread():
        _, vectors = np.linalg.eigh(laplacian)
        points = vectors[:, :num_clusters] / np.sqrt(np.maximum(degree, 1.0))[:, None]
        return torch.from_numpy(cluster(_gram(points), num_clusters))


def kmeans(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by k-means on the rows of the adjacency matrix: nodes with common neighbours fall together.

    Beyond `DENSE_LIMIT` nodes the rows stay sparse. Directed edges count in both directions.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Not used: in the place of random starts the nodes are agglomerated (see `agglomeration.cluster`).

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> kmeans(star, 4, 2, generator=torch.Generator()).tolist()  # the leaves have the same neighbour
        [0, 1, 1, 1]
    """
    del generator
    check_task(edge_index, num_nodes, num_clusters)
    if num_nodes > DENSE_LIMIT:
        return merge_alike(sparse_adjacency(edge_index, num_nodes), num_clusters)
    with one_blas_thread():
        return torch.from_numpy(cluster(_gram(dense_adjacency(edge_index, num_nodes)), num_clusters))


def random(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Draw a partition at random: the control that every coarsening has to beat.

    Args:
        edge_index: Does not matter.
        num_nodes: Number of nodes.
        num_clusters: Number of clusters, each of which gets at least one node.
        generator: Source of the draw.

    Returns:
        The label of every node, [num_nodes].

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> random(path, 5, 3, generator=torch.Generator().manual_seed(0)).unique().tolist()
        [0, 1, 2]
    """
    check_task(edge_index, num_nodes, num_clusters)
    labels = torch.randint(num_clusters, (num_nodes,), generator=generator)
    first = torch.randperm(num_nodes, generator=generator)[:num_clusters]
    labels[first] = torch.arange(num_clusters)
    return labels


def _gram(points: Floats) -> Floats:
    return np.ascontiguousarray(points @ points.T)

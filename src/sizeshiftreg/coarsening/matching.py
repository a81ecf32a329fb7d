"""Heavy-edge matching: merge along the edges that carry most of what their ends have (Loukas 2019, section 5)."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import Floats, Labels, check_task, sparse_adjacency
from sizeshiftreg.coarsening.levels import match_edges, merge_in_levels


def heavy_edge(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Partition by heavy-edge matching, level by level.

    An edge is as heavy as its weight divided by the larger degree of its ends. On every level the heaviest edges
    without a common end are contracted, and the weights of what falls together are added; around hubs, nodes that hang
    on the same one are merged too. It is sparse for graphs of any size. Directed edges count in both directions.

    Args:
        edge_index: The edges, [2, num_edges].
        num_nodes: Number of nodes.
        num_clusters: Number of clusters.
        generator: Not used: among equal edges the first is taken.

    Returns:
        The label of every node, [num_nodes]; labels in order of first appearance.

    Example:
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> heavy_edge(path, 4, 2, generator=torch.Generator()).tolist()
        [0, 0, 1, 1]
    """
    del generator
    check_task(edge_index, num_nodes, num_clusters)
    return merge_in_levels(sparse_adjacency(edge_index, num_nodes), num_clusters, _heaviest)


def _heaviest(adjacency: sp.csr_array, size: Floats, at_most: int) -> Labels:
    del size
    first, second, weight, degree = edges_once(adjacency)
    heaviness = weight / np.maximum(degree[first], degree[second])
    order = np.argsort(-heaviness, kind="stable")
    return match_edges(adjacency, first[order], second[order], at_most)


def edges_once(adjacency: sp.csr_array) -> tuple[Labels, Labels, Floats, Floats]:
    """Return the ends and weights of all edges but self-loops, each once, and the degrees without self-loops."""
    entries = sp.triu(adjacency, k=1, format="coo")
    degree = np.asarray(adjacency.sum(axis=1)).ravel() - adjacency.diagonal()
    return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data, degree

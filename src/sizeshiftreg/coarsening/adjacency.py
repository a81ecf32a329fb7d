"""The adjacency matrix as the coarsening methods see it: undirected, parallel edges once, dense or sparse."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

from sizeshiftreg.errors import InputError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

# Methods that need an n x n matrix take a sparse path for graphs with more nodes than this.
DENSE_LIMIT = 1000


def check_task(edge_index: Tensor, num_nodes: int, num_clusters: int) -> None:
    """Raise unless there are edges between the nodes, and from one to as many clusters as nodes."""
    if not 1 <= num_clusters <= num_nodes:
        raise InputError(f"coarsening: expected 1 to {num_nodes} clusters, the number of nodes; got {num_clusters}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.is_floating_point():
        raise InputError(
            f"coarsening: expected `edge_index` of shape [2, num_edges] and integers; got {edge_index.dtype} of shape "
            f"{list(edge_index.shape)}"
        )
    if edge_index.numel() and not (int(edge_index.min()) >= 0 and int(edge_index.max()) < num_nodes):
        raise InputError(
            f"coarsening: expected edges between the nodes 0 to {num_nodes - 1}; got ends from "
            f"{int(edge_index.min())} to {int(edge_index.max())}"
        )


def dense_adjacency(edge_index: Tensor, num_nodes: int) -> Floats:
    """Return the symmetric 0/1 adjacency matrix, [num_nodes, num_nodes].

    Example:
        >>> import torch
        >>> dense_adjacency(torch.tensor([[0, 0], [1, 1]]), 2).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    adjacency = np.zeros((num_nodes, num_nodes))
    source, target = edge_index.numpy()
    adjacency[source, target] = 1.0
    adjacency[target, source] = 1.0
    return adjacency


def sparse_adjacency(edge_index: Tensor, num_nodes: int) -> sp.csr_array:
    """Return the symmetric 0/1 adjacency matrix with sorted rows, in memory that grows with the number of edges.

    Example:
        >>> import torch
        >>> sparse_adjacency(torch.tensor([[0, 0], [1, 1]]), 2).toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    source, target = edge_index.numpy()
    adjacency = sp.csr_array((np.ones(len(source), dtype=np.float32), (source, target)), shape=(num_nodes, num_nodes))
    adjacency = sp.csr_array(adjacency + adjacency.T)
    adjacency.sort_indices()
    return sp.csr_array((np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), shape=adjacency.shape)

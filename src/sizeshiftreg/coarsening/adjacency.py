"""The adjacency matrix as the coarsening methods see it: undirected, parallel edges once, dense or sparse."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

# Methods that need an n x n matrix take a sparse path for graphs with more nodes than this.
DENSE_LIMIT = 1000


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

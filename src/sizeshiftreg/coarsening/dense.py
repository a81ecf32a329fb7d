"""What the methods for small graphs share: the dense adjacency matrix, and the choice of the next merge."""

import numba
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

# Costs that differ by less are ties and go to the first pair, so that rounding does not choose.
TIE = 1e-10


def dense_adjacency(edge_index: Tensor, num_nodes: int) -> Floats:
    """Return the symmetric 0/1 adjacency matrix, [num_nodes, num_nodes]."""
    adjacency = np.zeros((num_nodes, num_nodes))
    source, target = edge_index.cpu().numpy()
    adjacency[source, target] = 1.0
    return np.maximum(adjacency, adjacency.T)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def cheapest(cost: Floats, alive: NDArray[np.bool_]) -> int:
    """Return the living cluster whose merge with its partner is cheapest, the first among ties."""
    best, best_cost = -1, np.inf
    for c in range(len(cost)):
        if alive[c] and cost[c] < best_cost - TIE:
            best, best_cost = c, cost[c]
    return best

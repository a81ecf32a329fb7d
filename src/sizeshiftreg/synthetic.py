"""Two small data sets made on the spot, whose large graphs differ from the small ones in their degrees.

In both, half of the graphs are small (15 to 30 nodes), two fifths are of middle size, and a tenth is large (120 to
180). The tasks follow what is known to break: a fixed edge probability, by which degrees grow with size (Bevilacqua et
al. 2021), and local structure that is different around the nodes of larger graphs (Yehudai et al. 2021).
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.data import Data


def toy_votes(seed: int = 0) -> list[Data]:
    """Networks that grow by preferential attachment, whose members vote for 0 or 1; the class tells the majority.

    A newcomer befriends two members, popular ones more often, and votes for 1 with probability 0.4 (class 0) or 0.6
    (class 1). Friendships say nothing of the class; but the larger the network, the larger its hubs, and no training
    graph has a member with so many friends.

    Example:
        >>> toy_votes()[0]
        Data(x=[28, 2], edge_index=[2, 106], y=[1])
    """
    rng = np.random.default_rng(seed)
    graphs = []
    for size in _sizes(rng, 1500):
        label = int(rng.integers(2))
        targets = _attachment(rng, size)
        votes = torch.from_numpy(rng.random(size) < (0.4, 0.6)[label]).long()
        source = np.repeat(np.arange(size), 2)
        graphs.append(_graph(source[1:], targets.ravel()[1:], F.one_hot(votes, 2).float(), label))
    return graphs


def toy_density(seed: int = 0) -> list[Data]:
    """Random graphs with edge probability 0.2 (class 0) or 0.4 (class 1), and nothing known of the nodes.

    A density is told apart by the degrees, and the same density means other degrees in a larger graph.

    Example:
        >>> toy_density()[0].x.unique().tolist()
        [1.0]
    """
    rng = np.random.default_rng(seed)
    graphs = []
    for size in _sizes(rng, 600):
        label = int(rng.integers(2))
        joined = np.triu(rng.random((size, size)) < (0.2, 0.4)[label], k=1)
        source, target = np.nonzero(joined)
        graphs.append(_graph(source, target, torch.ones(size, 1), label))
    return graphs


SYNTHETIC: dict[str, Callable[[], list[Data]]] = {"toy_votes": toy_votes, "toy_density": toy_density}


def _sizes(rng: np.random.Generator, num_graphs: int) -> list[int]:
    small, middle, large = num_graphs // 2, 2 * num_graphs // 5, num_graphs // 10
    sizes = [rng.integers(15, 31, small), rng.integers(40, 61, middle), rng.integers(120, 181, large)]
    return [int(size) for size in np.concatenate(sizes)]


def _attachment(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return the two friends that every node chose when it came, [size, 2]; node 0 has none (itself).

    The end of a random earlier edge is a node with probability proportional to its degree.
    """
    targets = np.zeros((size, 2), dtype=np.int64)
    ends = [0]
    pick = rng.random((size, 2))
    for node in range(1, size):
        targets[node] = [ends[int(p * len(ends))] for p in pick[node]]
        ends += [node, node, *targets[node].tolist()]
    return targets


def _graph(source: np.ndarray, target: np.ndarray, x: torch.Tensor, label: int) -> Data:
    """Build an undirected graph without self-loops and repeated edges."""
    joined = np.zeros((len(x), len(x)), dtype=bool)
    joined[source, target] = joined[target, source] = True
    np.fill_diagonal(joined, val=False)
    edge_index = torch.from_numpy(np.stack(np.nonzero(joined)))
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))

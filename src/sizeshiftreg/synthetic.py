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


def toy_friends(seed: int = 0) -> list[Data]:
    """Circles of people with one of two opinions: do close friends agree?

    A newcomer finds one close friend among the last six to come and adopts that friend's opinion with probability 0.3
    (class 0) or 0.8 (class 1); otherwise a coin decides. Any two people are also acquainted with probability 1/30,
    which says nothing, but a large circle has many more acquaintances per person than a small one.

    Example:
        >>> toy_friends()[0]
        Data(x=[28, 2], edge_index=[2, 74], y=[1])
    """
    rng = np.random.default_rng(seed)
    graphs = []
    for size in _sizes(rng, 600):
        label = int(rng.integers(2))
        newcomers = np.arange(1, size)
        friends = newcomers - 1 - rng.integers(np.minimum(newcomers, 6))
        opinion = rng.integers(2, size=size)
        adopts = rng.random(size) < (0.3, 0.8)[label]
        for newcomer, friend in zip(newcomers, friends, strict=True):
            if adopts[newcomer]:
                opinion[newcomer] = opinion[friend]
        one, other = np.nonzero(np.triu(rng.random((size, size)) < 1 / 30, k=1))
        source, target = np.concatenate([newcomers, one]), np.concatenate([friends, other])
        graphs.append(_graph(source, target, F.one_hot(torch.from_numpy(opinion), 2).float(), label))
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


SYNTHETIC: dict[str, Callable[[], list[Data]]] = {"toy_friends": toy_friends, "toy_density": toy_density}


def _sizes(rng: np.random.Generator, num_graphs: int) -> list[int]:
    small, middle, large = num_graphs // 2, 2 * num_graphs // 5, num_graphs // 10
    sizes = [rng.integers(15, 31, small), rng.integers(40, 61, middle), rng.integers(120, 181, large)]
    return [int(size) for size in np.concatenate(sizes)]


def _graph(source: np.ndarray, target: np.ndarray, x: torch.Tensor, label: int) -> Data:
    """Build an undirected graph without self-loops and repeated edges."""
    joined = np.zeros((len(x), len(x)), dtype=bool)
    joined[source, target] = joined[target, source] = True
    np.fill_diagonal(joined, val=False)
    edge_index = torch.from_numpy(np.stack(np.nonzero(joined)))
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))

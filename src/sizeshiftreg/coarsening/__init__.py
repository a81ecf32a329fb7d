"""Coarsening: partition the nodes, reduce their features, connect the clusters."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sizeshiftreg.coarsening.adjacency import DENSE_LIMIT
from sizeshiftreg.coarsening.clustering import kmeans, random, spectral_clustering
from sizeshiftreg.coarsening.matching import heavy_edge
from sizeshiftreg.coarsening.multilevel import mlgc
from sizeshiftreg.coarsening.spectral import SGC_DENSE_LIMIT, sgc
from sizeshiftreg.coarsening.variation import variation_edges, variation_neighbourhoods


class Partitioner(Protocol):
    """What a coarsening method is: a function from a graph to one label per node.

    The labels are 0 to `num_clusters - 1` and none is empty. A method that draws, draws from `generator` alone.
    """

    def __call__(self, edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
        """Return the label of every node, [num_nodes]."""
        ...


@dataclass(frozen=True)
class Coarsener:
    """A coarsening method of this package.

    Attributes:
        partition: The function.
        version: Raised whenever the same graph gets another partition than before, so that no cache mixes the two.
        sparse_above: Graphs with more nodes are partitioned without any n x n matrix; 0 where none is ever made.
    """

    partition: Partitioner
    version: int
    sparse_above: int


COARSENERS: dict[str, Coarsener] = {
    "sgc": Coarsener(sgc, 2, SGC_DENSE_LIMIT),
    "mlgc": Coarsener(mlgc, 1, DENSE_LIMIT),
    "spectral_clustering": Coarsener(spectral_clustering, 1, DENSE_LIMIT),
    "kmeans": Coarsener(kmeans, 1, DENSE_LIMIT),
    "variation_neighbourhoods": Coarsener(variation_neighbourhoods, 1, DENSE_LIMIT),
    "variation_edges": Coarsener(variation_edges, 1, DENSE_LIMIT),
    "heavy_edge": Coarsener(heavy_edge, 1, 0),
    "random": Coarsener(random, 1, 0),
}
AUTO = "auto"
COARSENER_NAMES = (*COARSENERS, AUTO)

# Up to here the sparse path of SGC takes seconds; beyond, time and memory speak for the lightest method.
_AUTO_SGC_LIMIT = 1_000_000


def choose(method: str, num_nodes: int) -> str:
    """Return the name of the method for a graph: what was asked for, or, of "auto", what fits its size.

    Example:
        >>> choose("auto", 30), choose("auto", 5_000_000), choose("mlgc", 30)
        ('sgc', 'heavy_edge', 'mlgc')
    """
    if method != AUTO:
        return method
    return "sgc" if num_nodes <= _AUTO_SGC_LIMIT else "heavy_edge"


__all__ = ["AUTO", "COARSENERS", "COARSENER_NAMES", "Coarsener", "Partitioner", "choose"]

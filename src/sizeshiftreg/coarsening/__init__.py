"""Coarsening: partition the nodes, reduce their features, connect the clusters."""

from typing import Protocol

import torch
from torch import Tensor

from sizeshiftreg.coarsening.clustering import kmeans, random, spectral_clustering
from sizeshiftreg.coarsening.matching import heavy_edge
from sizeshiftreg.coarsening.multilevel import mlgc
from sizeshiftreg.coarsening.spectral import sgc
from sizeshiftreg.coarsening.variation import variation_edges, variation_neighbourhoods


class Partitioner(Protocol):
    """What a coarsening method is: a function from a graph to one label per node.

    The labels are 0 to `num_clusters - 1` and none is empty. A method that draws, draws from `generator` alone.
    """

    def __call__(self, edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
        """Return the label of every node, [num_nodes]."""
        ...


PARTITIONERS: dict[str, Partitioner] = {
    "sgc": sgc,
    "mlgc": mlgc,
    "spectral_clustering": spectral_clustering,
    "kmeans": kmeans,
    "variation_neighbourhoods": variation_neighbourhoods,
    "variation_edges": variation_edges,
    "heavy_edge": heavy_edge,
    "random": random,
}

__all__ = ["PARTITIONERS", "Partitioner"]

"""A coarsening method of your own: any function from a graph to one label per node."""

import torch
from torch import Tensor
from torch_geometric.utils import degree

from sizeshiftreg import Coarsen, contract, load_dataset


def by_degree(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Put nodes of like degree into one cluster, ties in random order: `num_clusters` clusters, none empty."""
    shuffled = torch.randperm(num_nodes, generator=generator)  # draws from the generator it is given, and no other
    order = shuffled[degree(edge_index[0], num_nodes)[shuffled].argsort(stable=True)]
    labels = torch.empty(num_nodes, dtype=torch.long)
    labels[order] = torch.arange(num_nodes) * num_clusters // num_nodes
    return labels


graph = load_dataset("toy_friends")[0]
for method in (by_degree, "sgc"):
    coarse = Coarsen(method, ratios=(0.5,))(graph)
    small = contract(coarse, coarse.partitions[:, 0])
    print(f"{Coarsen(method).chosen(graph.num_nodes):<10} {graph.num_nodes} -> {small.num_nodes} nodes,", end=" ")
    print(f"{graph.num_edges} -> {small.num_edges} edges")

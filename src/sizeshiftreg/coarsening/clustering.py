"""Partitions that look at no more than the number of nodes: the control."""

import torch
from torch import Tensor


def random(edge_index: Tensor, num_nodes: int, num_clusters: int, *, generator: torch.Generator) -> Tensor:
    """Draw a partition at random: the control that every coarsening has to beat.

    Args:
        edge_index: Not looked at.
        num_nodes: Number of nodes.
        num_clusters: Number of clusters, each of which gets at least one node.
        generator: Source of the draw.

    Returns:
        The label of every node, [num_nodes].

    Example:
        >>> random(torch.empty(2, 0), 5, 3, generator=torch.Generator().manual_seed(0)).unique().tolist()
        [0, 1, 2]
    """
    del edge_index
    labels = torch.randint(num_clusters, (num_nodes,), generator=generator)
    first = torch.randperm(num_nodes, generator=generator)[:num_clusters]
    labels[first] = torch.arange(num_clusters)
    return labels

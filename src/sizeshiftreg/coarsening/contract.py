"""Contract: a batch and a partition of its nodes -> the batch of coarse graphs."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import coalesce, scatter

from sizeshiftreg.errors import InputError, choice

Reduce = Literal["mean", "sum", "max"]
REDUCTIONS: tuple[Reduce, ...] = ("mean", "sum", "max")


def contract(
    batch: Data,
    partition: Tensor,
    *,
    reduce: Reduce = "mean",
    edge_reduce: Reduce = "mean",
    node_attributes: Mapping[str, Reduce] | None = None,
    edge_weight: bool = False,
) -> Batch:
    """Merge the nodes that share a label, graph by graph, for a whole batch at once.

    The coarse nodes of a graph stand in the order of their labels. Two coarse nodes are joined when some node of
    one touches some node of the other; a cluster with an inner edge has a self-loop. Features are reduced over the
    nodes of a cluster, edge attributes over the merged edges, graph labels `y` are kept. Labels need not be
    consecutive, nor the batch vector sorted. Without node features only edges are contracted.

    Args:
        batch: A batch of graphs, or one graph, with `x` [num_nodes, num_features] if they have features.
        partition: The label of every node within its own graph, [num_nodes].
        reduce: How the features of a cluster become those of its coarse node.
        edge_reduce: How `edge_attr` of merged edges become those of their coarse edge.
        node_attributes: Further node attributes to carry over, such as positions, each with its reduction; attributes
            of integers can only be summed or maximised.
        edge_weight: Also return `edge_weight` [num_coarse_edges]: the sum of the merged edges' weights, or their number
            where they have none (QᵀAQ).

    Returns:
        The coarse graphs, with the number and order of graphs unchanged and a sorted batch vector. It cannot be taken
        apart again with `to_data_list`.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = Data(x=torch.tensor([[1.], [3.], [5.]]), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> coarse = contract(path, torch.tensor([0, 0, 1]))
        >>> coarse.x.tolist(), coarse.edge_index.tolist()
        ([[2.0], [5.0]], [[0, 0, 1], [0, 1, 0]])
    """
    choice("reduce", reduce, REDUCTIONS)
    num_nodes = int(batch.num_nodes or 0)
    if partition.shape != (num_nodes,) or partition.is_floating_point():
        raise InputError(
            f"contract: expected a partition with one integer label per node, shape [{num_nodes}]; got "
            f"{partition.dtype} of shape {list(partition.shape)}. It belongs to another graph, or nodes were added or "
            "removed after coarsening; coarsen last"
        )
    if partition.numel() and partition.min() < 0:
        raise InputError(f"contract: expected labels from 0 on; got {int(partition.min())}")
    partition = partition.long()
    graph_of, num_graphs = graph_of_node(batch)

    # One key per (graph, label); `unique` sorts, so coarse nodes are grouped by graph and ordered by label.
    span = partition.max() + 1 if partition.numel() else 1
    keys, cluster = torch.unique(graph_of * span + partition, return_inverse=True)  # [num_coarse], [num_nodes]
    coarse_graph_of = torch.div(keys, span, rounding_mode="floor")

    edge_index = cluster[batch.edge_index]
    coarse = Batch(batch=coarse_graph_of)
    if batch.x is not None:
        coarse.x = scatter(batch.x, cluster, dim=0, dim_size=keys.size(0), reduce=reduce)
    else:
        coarse.num_nodes = keys.size(0)
    if edge_weight:
        ones = torch.ones(edge_index.size(1), device=edge_index.device)
        weights = batch.get("edge_weight", ones if batch.x is None else ones.to(batch.x.dtype))
        _, coarse.edge_weight = coalesce(edge_index, weights, num_nodes=keys.size(0), reduce="sum")
    for name, how in (node_attributes or {}).items():
        coarse[name] = _reduce_attribute(batch, name, cluster, keys.size(0), how)
    if batch.edge_attr is not None:
        coarse.edge_index, coarse.edge_attr = coalesce(
            edge_index, batch.edge_attr, num_nodes=keys.size(0), reduce=edge_reduce
        )
    else:
        coarse.edge_index = coalesce(edge_index, num_nodes=keys.size(0))
    counts = torch.bincount(coarse_graph_of, minlength=num_graphs)
    coarse.ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    if batch.y is not None:
        coarse.y = batch.y
    return coarse


def graph_of_node(batch: Data) -> tuple[Tensor, int]:
    """Return the batch vector and the number of graphs; a single graph is a batch of one."""
    graph_of = getattr(batch, "batch", None)
    if graph_of is None:
        return torch.zeros(batch.num_nodes, dtype=torch.long, device=batch.edge_index.device), 1
    if isinstance(batch, Batch):
        return graph_of, batch.num_graphs
    return graph_of, int(graph_of.max()) + 1


def pick(batch: Data, graphs: Tensor) -> Batch:
    """Return the batch of some graphs of a batch, in the order of their positions `graphs`, which are sorted."""
    graph_of, num_graphs = graph_of_node(batch)
    graphs = graphs.to(graph_of.device)
    position = graph_of.new_full((num_graphs,), -1).index_copy(0, graphs, torch.arange(len(graphs)).to(graph_of))
    inside = position[graph_of] >= 0
    edges_inside = inside[batch.edge_index[0]]
    number = inside.cumsum(0) - 1
    part = Batch(batch=position[graph_of[inside]], edge_index=number[batch.edge_index[:, edges_inside]])
    counts = torch.bincount(part.batch, minlength=len(graphs))
    part.ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    for name, value in batch.to_dict().items():
        if name in ("batch", "ptr", "edge_index") or not isinstance(value, Tensor):
            continue
        if batch.is_node_attr(name):
            part[name] = value[inside]
        elif batch.is_edge_attr(name):
            part[name] = value[edges_inside]
        elif value.dim() and value.size(0) == num_graphs:
            part[name] = value[graphs]
    return part


def _reduce_attribute(batch: Data, name: str, cluster: Tensor, num_clusters: int, how: Reduce) -> Tensor:
    value = getattr(batch, name, None)
    if value is None or value.size(0) != cluster.size(0):
        got = "none" if value is None else f"shape {list(value.shape)}"
        raise InputError(
            f"contract: expected the node attribute {name!r} with {cluster.size(0)} rows, one per node; got {got}"
        )
    reduced: Tensor = scatter(value, cluster, dim=0, dim_size=num_clusters, reduce=how)
    return reduced

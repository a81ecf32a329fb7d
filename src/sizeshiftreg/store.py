"""GraphStore: many graphs as flat tensors on one device; any subset of them is one gather."""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from sizeshiftreg.datasets import check_graphs
from sizeshiftreg.errors import InputError


class GraphStore:
    """Graphs laid end to end, from which a batch is gathered without touching a graph in Python.

    Args:
        batch: All graphs as one batch, sorted by graph, with `x`, `edge_index` and, if there are, `y` and
            `partitions`. `GraphStore.from_graphs` makes it from a list.

    Example:
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> graphs = [Data(x=torch.full((2, 1), float(i)), edge_index=edges, y=torch.tensor([i])) for i in range(3)]
        >>> batch = GraphStore.from_graphs(graphs)[torch.tensor([2, 0])]
        >>> batch.x.flatten().tolist(), batch.edge_index.tolist(), batch.y.tolist()
        ([2.0, 2.0, 0.0, 0.0], [[0, 1, 2, 3], [1, 0, 3, 2]], [2, 0])
    """

    def __init__(self, batch: Batch) -> None:
        self.all = batch
        self.num_graphs: int = batch.num_graphs
        node_counts = torch.bincount(batch.batch, minlength=self.num_graphs)
        graph_of_edge = batch.batch[batch.edge_index[0]]
        if bool((batch.batch.diff() < 0).any()) or bool((graph_of_edge.diff() < 0).any()):
            raise InputError("GraphStore: expected nodes and edges in the order of their graphs")
        edge_counts = torch.bincount(graph_of_edge, minlength=self.num_graphs)
        self._nodes = _Segments(node_counts)
        self._edges = _Segments(edge_counts)
        self._local_edges = batch.edge_index - self._nodes.start[graph_of_edge]

    @classmethod
    def from_graphs(
        cls,
        graphs: Sequence[Data],
        *,
        labels: bool = True,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Check the graphs and lay them out on a device.

        Args:
            graphs: The graphs.
            labels: Whether to require and keep the classes.
            device: Where the tensors are put.
            dtype: Type of the features; None keeps it.
        """
        check_graphs(graphs, labels=labels)
        lean = []
        for graph in graphs:
            item = Data(x=graph.x.to(dtype or graph.x.dtype), edge_index=graph.edge_index)
            if labels:
                item.y = graph.y.view(1).long()
            if "partitions" in graph:
                item.partitions = graph.partitions
            lean.append(item)
        return cls(Batch.from_data_list(lean).to(device))

    def __len__(self) -> int:
        return self.num_graphs

    def __getitem__(self, index: Tensor) -> Batch:
        """Gather a batch; the index is on the CPU, so that the sizes are known without asking the device."""
        nodes, graph_of_node, first_node = self._nodes.gather(index)
        edges, graph_of_edge, _ = self._edges.gather(index)
        batch = Batch(
            x=self.all.x.index_select(0, nodes),
            edge_index=self._local_edges.index_select(1, edges) + first_node[graph_of_edge],
            batch=graph_of_node,
            ptr=first_node,
        )
        if self.all.y is not None:
            batch.y = self.all.y.index_select(0, index.to(nodes.device))
        return batch


class _Segments:
    """Consecutive segments of rows, one per graph; a subset of segments becomes an index of rows."""

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # [num_graphs], on the device
        self.host_counts = counts.cpu()
        self.start = counts.cumsum(0) - counts

    def gather(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of the chosen segments, the position of each row's segment in `index`, and where each starts.

        Shapes: [num_rows], [num_rows], [len(index) + 1].
        """
        total = int(self.host_counts[index].sum())
        device = self.counts.device
        chosen = index.to(device, non_blocking=True)
        counts = self.counts.index_select(0, chosen)
        first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        position = torch.repeat_interleave(torch.arange(len(index), device=device), counts, output_size=total)
        shift = self.start.index_select(0, chosen) - first[:-1]
        return torch.arange(total, device=device) + shift.index_select(0, position), position, first

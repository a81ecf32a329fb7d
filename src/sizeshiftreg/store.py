"""GraphStore: many graphs as flat tensors on one device; any subset of them is one gather."""

import copy
from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from sizeshiftreg.datasets import check_graphs
from sizeshiftreg.errors import InputError
from sizeshiftreg.kernels import Layout, gather_graphs


class Taken(NamedTuple):
    """A gathered batch as bare tensors."""

    x: Tensor
    batch: Tensor
    ptr: Tensor
    layout: Layout
    y: Tensor | None

    def edge_index(self) -> Tensor:
        """Return the edges, sorted by target and then source, [2, num_edges]."""
        target = torch.repeat_interleave(self.layout.degree(), output_size=self.layout.source.numel())
        return torch.stack([self.layout.source, target])


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
        ([2.0, 2.0, 0.0, 0.0], [[1, 0, 3, 2], [0, 1, 2, 3]], [2, 0])
    """

    def __init__(self, batch: Batch) -> None:
        self.all = batch = copy.copy(batch)
        self.num_graphs: int = batch.num_graphs
        node_counts = torch.bincount(batch.batch, minlength=self.num_graphs)
        graph_of_edge = batch.batch[batch.edge_index[0]]
        if bool((batch.batch.diff() < 0).any()) or bool((graph_of_edge.diff() < 0).any()):
            raise InputError("GraphStore: expected nodes and edges in the order of their graphs")
        self._nodes = _Segments(node_counts)
        self._edges = _Segments(torch.bincount(graph_of_edge, minlength=self.num_graphs))
        # Edges sorted by target and then source, so that a batch's layout is gathered, not sorted; where all edges go
        # both ways, the transposed layout is the same.
        source, target = batch.edge_index
        order = torch.argsort(target * batch.num_nodes + source, stable=True)
        batch.edge_index = batch.edge_index[:, order]
        batch.layout = Layout.of(batch.edge_index, batch.num_nodes)
        self._symmetric = torch.equal(batch.layout.source, batch.layout.target)
        first_node = self._nodes.start[graph_of_edge]
        self._local_sources = batch.layout.source - first_node
        self._in_degree = batch.layout.degree()
        self._local_targets = self._local_sources if self._symmetric else batch.layout.target - first_node
        self._out_degree = self._in_degree if self._symmetric else batch.layout.start_out.diff()

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

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Self:
        """Put the graphs of several batches into one store, one batch after the other."""
        nodes = graphs = 0
        edge_index, graph_of = [], []
        for batch in batches:
            edge_index.append(batch.edge_index + nodes)
            graph_of.append(batch.batch + graphs)
            nodes, graphs = nodes + batch.num_nodes, graphs + batch.num_graphs
        whole = Batch(
            x=torch.cat([batch.x for batch in batches]),
            edge_index=torch.cat(edge_index, dim=1),
            batch=torch.cat(graph_of),
        )
        whole.ptr = _starts(torch.bincount(whole.batch, minlength=graphs))
        if all(batch.y is not None for batch in batches):
            whole.y = torch.cat([batch.y for batch in batches])
        return cls(whole)

    def num_nodes(self, index: Tensor) -> int:
        """Return the number of nodes of some graphs, known without asking the device."""
        return int(self._nodes.host_counts[index].sum())

    def __len__(self) -> int:
        return self.num_graphs

    def __getitem__(self, index: Tensor) -> Batch:
        """Gather a batch; the index is on the CPU, so that the sizes are known without asking the device."""
        taken = self.take(index)
        batch = Batch(x=taken.x, edge_index=taken.edge_index(), batch=taken.batch, ptr=taken.ptr, layout=taken.layout)
        if taken.y is not None:
            batch.y = taken.y
        return batch

    def take(self, index: Tensor) -> Taken:
        """Gather what a step needs; `__getitem__` makes a `Batch` of it, which takes its time."""
        ends = (self._local_sources, *(() if self._symmetric else (self._local_targets,)))
        degrees = (self._in_degree, *(() if self._symmetric else (self._out_degree,)))
        y = None if self.all.y is None else self.all.y.index_select(0, index.to(self.all.y.device))
        compiled = gather_graphs(index, self._nodes.bounds, self._edges.bounds, self.all.x, ends, degrees)
        if compiled is None:
            return self._gather(index, y)
        x, graph_of, first, found, starts = compiled
        return Taken(x, graph_of, first, Layout(starts[0], found[0], starts[-1], found[-1]), y)

    def _gather(self, index: Tensor, y: Tensor | None) -> Taken:
        """Gather in torch's operations, for any device and type."""
        nodes, graph_of_node, first_node = self._nodes.gather(index)
        edges, graph_of_edge, _ = self._edges.gather(index)
        shift = first_node[graph_of_edge]
        start, source = _starts(self._in_degree[nodes]), self._local_sources[edges] + shift
        if self._symmetric:
            layout = Layout(start, source, start, source)
        else:
            layout = Layout(start, source, _starts(self._out_degree[nodes]), self._local_targets[edges] + shift)
        return Taken(self.all.x.index_select(0, nodes), graph_of_node, first_node, layout, y)


def _starts(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class _Segments:
    """Consecutive segments of rows, one per graph; a subset of segments becomes an index of rows."""

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # [num_graphs], on the device
        self.host_counts = counts.cpu()
        self.start = counts.cumsum(0) - counts
        self.bounds = _starts(counts)

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

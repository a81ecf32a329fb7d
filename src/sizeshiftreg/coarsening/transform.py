"""Coarsen: a PyG transform that writes one partition per ratio into a graph."""

import logging
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from sizeshiftreg.coarsening import AUTO, COARSENER_NAMES, COARSENERS, Partitioner, choose
from sizeshiftreg.coarsening.cache import PartitionCache, partition_key
from sizeshiftreg.coarsening.threads import one_blas_thread
from sizeshiftreg.errors import InputError, choice

# So many graphs per thread are taken before the first is asked for.
_AHEAD = 8
_log = logging.getLogger(__name__)


class Coarsen(BaseTransform):  # type: ignore[misc]
    """Write `partitions` [num_nodes, num_ratios] into a graph: the coarse node of every node, for every ratio.

    It works as PyG's `pre_transform` (computed once and stored with the data set), as `transform`, or called on one
    graph. The partitions are an ordinary node attribute, so batching, shuffling, subsetting and saving keep them.
    Transforms that add or remove nodes must come before it. Directed edges count in both directions. The same graph and
    seed give the same partitions, whatever else was coarsened before.

    Args:
        method: The name of a coarsening method (see `COARSENERS`), "auto" for one that fits the size of each graph, or
            a function of the form of `Partitioner`.
        ratios: Shares of the nodes to keep, each between 0 and 1: `max(1, floor(ratio * num_nodes))` clusters.
        seed: Seed for methods that draw; SGC does not.
        cache: A file in which partitions are kept by the content of their graph (see `PartitionCache`), made when it is
            missing. Those of a function of one's own are not kept, for nothing tells when it changes.

    Example:
        >>> from torch_geometric.data import Data
        >>> star = Data(num_nodes=4, edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]))
        >>> Coarsen(ratios=(0.5, 0.75))(star).partitions.tolist()
        [[0, 0], [1, 1], [1, 1], [1, 2]]
    """

    def __init__(
        self,
        method: str | Partitioner = "sgc",
        *,
        ratios: Sequence[float] = (0.8, 0.9),
        seed: int = 0,
        cache: str | Path | None = None,
    ) -> None:
        if isinstance(method, str):
            choice("coarsening method", method, COARSENER_NAMES)
        check_ratios(ratios)
        self.method = method
        self.ratios = tuple(ratios)
        self.seed = seed
        self.cache = PartitionCache(cache) if cache is not None else None

    def forward(self, data: Data) -> Data:
        """Add `partitions` to a copy of the graph (PyG copies it before this is called)."""
        num_nodes = data.num_nodes
        if not num_nodes:
            raise InputError("Coarsen: expected a graph with nodes; got one with none. Filter empty graphs out first")
        if data.edge_index is None:
            raise InputError(
                "Coarsen: expected a graph with `edge_index`; a graph without edges has one of shape [2, 0]"
            )
        columns = [self._partition(data.edge_index.cpu(), num_nodes, ratio) for ratio in self.ratios]
        data.partitions = torch.stack(columns, dim=1).to(data.edge_index.device)
        return data

    def map(self, graphs: Iterable[Data], *, jobs: int = 1) -> Iterator[Data]:
        """Coarsen many graphs in `jobs` threads, and yield them in their order.

        The partitions do not depend on the number of threads. The compiled parts run at the same time; what is Python
        around them does not, so small graphs gain less. While it is iterated, BLAS has one thread in this process.

        Example:
            >>> from torch_geometric.data import Data
            >>> ring = Data(num_nodes=5, edge_index=torch.stack([torch.arange(5), torch.arange(5).roll(1)]))
            >>> [graph.partitions.shape for graph in Coarsen().map([ring, ring], jobs=2)]
            [torch.Size([5, 2]), torch.Size([5, 2])]
        """
        if jobs < 1:
            raise InputError(f"jobs: expected at least 1; got {jobs}")
        with one_blas_thread():
            if jobs == 1:
                yield from map(self, graphs)
                return
            with ThreadPoolExecutor(jobs) as executor:
                under_way: deque[Future[Data]] = deque()
                try:
                    for graph in graphs:
                        under_way.append(executor.submit(self, graph))
                        if len(under_way) > _AHEAD * jobs:
                            yield under_way.popleft().result()
                    while under_way:
                        yield under_way.popleft().result()
                finally:  # an error, Ctrl-C, or a caller that stops asking: do not begin what is left
                    executor.shutdown(wait=False, cancel_futures=True)

    def chosen(self, num_nodes: int) -> str:
        """Return the name of the method for a graph of so many nodes."""
        return choose(self.method, num_nodes) if isinstance(self.method, str) else self._name

    def _partition(self, edge_index: Tensor, num_nodes: int, ratio: float) -> Tensor:
        # 0.29 * 100 is 28.999...: a hair is added so that the floor is that of the decimal the user wrote.
        num_clusters = max(1, math.floor(ratio * num_nodes + 1e-9))
        if not isinstance(self.method, str):
            return self._compute(self.method, edge_index, num_nodes, num_clusters)
        name = choose(self.method, num_nodes)
        if self.method == AUTO:
            _log.info("auto: %s for a graph of %d nodes", name, num_nodes)
        coarsener = COARSENERS[name]
        if self.cache is None:
            return self._compute(coarsener.partition, edge_index, num_nodes, num_clusters)
        key = partition_key(name, coarsener.version, self.seed, edge_index, num_nodes, num_clusters)
        labels = self.cache.get(key, num_nodes, num_clusters)
        if labels is None:
            labels = self._compute(coarsener.partition, edge_index, num_nodes, num_clusters)
            self.cache.put(key, labels)
        return labels

    def _compute(self, partition: Partitioner, edge_index: Tensor, num_nodes: int, num_clusters: int) -> Tensor:
        # The seed depends on the content of the graph, so that different graphs draw differently.
        key = partition_key("", 0, self.seed, edge_index, num_nodes, num_clusters)
        generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "little"))
        labels = partition(edge_index, num_nodes, num_clusters, generator=generator)
        if labels.shape != (num_nodes,) or labels.unique().tolist() != list(range(num_clusters)):
            raise InputError(
                f"coarsening method {self._name}: expected {num_nodes} labels, 0 to {num_clusters - 1} and none "
                f"empty; got shape {list(labels.shape)} with the labels {labels.unique().tolist()[:10]}"
            )
        return labels.long()

    @property
    def _name(self) -> str:
        return self.method if isinstance(self.method, str) else getattr(self.method, "__qualname__", repr(self.method))

    def __repr__(self) -> str:
        """Name every setting: PyG compares this text to notice that stored data were made with other settings."""
        return f"Coarsen({self._name}, ratios={self.ratios}, seed={self.seed})"


def check_ratios(ratios: Sequence[float]) -> None:
    """Raise unless the ratios are distinct numbers between 0 and 1, at least one."""
    try:
        valid = len(ratios) > 0 and all(0 < ratio < 1 for ratio in ratios) and len(set(ratios)) == len(ratios)
    except TypeError:
        valid = False
    if not valid:
        raise InputError(
            f"ratios: expected one or more different numbers between 0 and 1, such as (0.8, 0.9); got {ratios}"
        )

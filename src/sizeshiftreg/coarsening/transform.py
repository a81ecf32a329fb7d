"""Coarsen: a PyG transform that writes one partition per ratio into a graph."""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from sizeshiftreg.coarsening import PARTITIONERS, Partitioner
from sizeshiftreg.errors import InputError, choice


class Coarsen(BaseTransform):  # type: ignore[misc]
    """Write `partitions` [num_nodes, num_ratios] into a graph: the coarse node of every node, for every ratio.

    It works as PyG's `pre_transform` (computed once and stored with the data set), as `transform`, or called on one
    graph. The partitions are an ordinary node attribute, so batching, shuffling, subsetting and saving keep them.
    Transforms that add or remove nodes must come before it. The same graph and seed give the same partitions,
    whatever else was coarsened before.

    Args:
        method: The name of a coarsening method (see `PARTITIONERS`), or a function of the same form.
        ratios: Shares of the nodes to keep, each between 0 and 1: `max(1, floor(ratio * num_nodes))` clusters.
        seed: Seed for methods that draw; SGC does not.

    Example:
        >>> from torch_geometric.data import Data
        >>> star = Data(num_nodes=4, edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]))
        >>> Coarsen(ratios=(0.5, 0.75))(star).partitions.tolist()
        [[0, 0], [1, 1], [1, 1], [1, 2]]
    """

    def __init__(
        self, method: str | Partitioner = "sgc", *, ratios: Sequence[float] = (0.8, 0.9), seed: int = 0
    ) -> None:
        if isinstance(method, str):
            choice("coarsening method", method, PARTITIONERS)
        check_ratios(ratios)
        self.method = method
        self.ratios = tuple(ratios)
        self.seed = seed

    def forward(self, data: Data) -> Data:
        """Add `partitions` to a copy of the graph (PyG copies it before this is called)."""
        num_nodes = data.num_nodes
        if not num_nodes:
            raise InputError("Coarsen: expected a graph with nodes; got one with none. Filter empty graphs out first")
        if data.edge_index is None:
            raise InputError(
                "Coarsen: expected a graph with `edge_index`; a graph without edges has one of shape [2, 0]"
            )
        columns = [self._partition(data.edge_index, num_nodes, ratio) for ratio in self.ratios]
        data.partitions = torch.stack(columns, dim=1).to(data.edge_index.device)
        return data

    def _partition(self, edge_index: Tensor, num_nodes: int, ratio: float) -> Tensor:
        # 0.29 * 100 is 28.999...: a hair is added so that the floor is that of the decimal the user wrote.
        num_clusters = max(1, math.floor(ratio * num_nodes + 1e-9))
        partitioner = PARTITIONERS[self.method] if isinstance(self.method, str) else self.method
        generator = torch.Generator().manual_seed(self._graph_seed(edge_index, num_nodes, num_clusters))
        labels = partitioner(edge_index.cpu(), num_nodes, num_clusters, generator=generator)
        if labels.shape != (num_nodes,) or labels.unique().tolist() != list(range(num_clusters)):
            raise InputError(
                f"coarsening method {self._method_name}: expected {num_nodes} labels, 0 to {num_clusters - 1} and none "
                f"empty; got shape {list(labels.shape)} with the labels {labels.unique().tolist()[:10]}"
            )
        return labels.long()

    def _graph_seed(self, edge_index: Tensor, num_nodes: int, num_clusters: int) -> int:
        """Return a seed that depends on the graph's content, so that different graphs draw differently."""
        digest = hashlib.blake2b(f"{self.seed} {num_nodes} {num_clusters}".encode(), digest_size=7)
        digest.update(edge_index.cpu().contiguous().numpy().tobytes())
        return int.from_bytes(digest.digest(), "little")

    @property
    def _method_name(self) -> str:
        return self.method if isinstance(self.method, str) else getattr(self.method, "__qualname__", repr(self.method))

    def __repr__(self) -> str:
        """Name every setting: PyG compares this text to notice that stored data were made with other settings."""
        return f"Coarsen({self._method_name}, ratios={self.ratios}, seed={self.seed})"


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

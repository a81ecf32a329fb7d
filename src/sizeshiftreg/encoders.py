"""GIN, GCN and PNA as the paper uses them: (x, edge_index) -> node embeddings."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import DegreeScalerAggregation, GCNConv, GINConv, PNAConv

from sizeshiftreg.errors import choice

PNADegrees = Literal["nodes", "bins"]


class Stack(nn.Module):
    """Graph convolutions, each followed by batch normalisation and ReLU, the last one too.

    Attributes:
        out_dim: Width of the node embeddings.
    """

    def __init__(self, convolutions: Iterable[nn.Module], *, hidden_dim: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden_dim) for _ in self.convolutions)
        self.out_dim = hidden_dim

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the node embeddings, [num_nodes, out_dim]."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(convolution(x, edge_index)).relu()
        return x


class GIN(Stack):
    """Graph isomorphism network (Xu et al. 2019) with a trainable epsilon.

    Example:
        >>> GIN(3, hidden_dim=8)(torch.rand(2, 3), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([2, 8])
    """

    def __init__(self, in_dim: int, *, hidden_dim: int, num_layers: int = 3) -> None:
        super().__init__(
            (GINConv(_mlp(width, hidden_dim), train_eps=True) for width in _widths(in_dim, hidden_dim, num_layers)),
            hidden_dim=hidden_dim,
        )


class GCN(Stack):
    """Graph convolutional network (Kipf and Welling 2017).

    Example:
        >>> GCN(3, hidden_dim=8)(torch.rand(2, 3), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([2, 8])
    """

    def __init__(self, in_dim: int, *, hidden_dim: int, num_layers: int = 3) -> None:
        super().__init__(
            (GCNConv(width, hidden_dim) for width in _widths(in_dim, hidden_dim, num_layers)),
            hidden_dim=hidden_dim,
        )


class PNA(Stack):
    """Principal neighbourhood aggregation (Corso et al. 2020): four aggregators, three scalers.

    Args:
        in_dim: Width of the node features.
        hidden_dim: Width of the embeddings.
        degrees: How many training nodes have in-degree 0, 1, 2, ..., [max_degree + 1]; see `degree_histogram`.
        num_layers: Number of convolutions.
        average: Over what the scalers' average log degree is taken: "nodes", as PyG does today; or "bins", the mean
            of log(count + 1) over the bins of the histogram, as the PyG of the paper's time did.

    Example:
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> PNA(3, hidden_dim=8, degrees=torch.tensor([0, 2]))(torch.rand(2, 3), edges).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        in_dim: int,
        *,
        hidden_dim: int,
        degrees: Tensor,
        num_layers: int = 3,
        average: PNADegrees = "nodes",
    ) -> None:
        choice("PNA average", average, ("nodes", "bins"))
        super().__init__(
            (
                PNAConv(
                    width,
                    hidden_dim,
                    aggregators=["mean", "min", "max", "std"],
                    scalers=["identity", "amplification", "attenuation"],
                    deg=degrees,
                )
                for width in _widths(in_dim, hidden_dim, num_layers)
            ),
            hidden_dim=hidden_dim,
        )
        if average == "bins":
            for module in self.modules():
                if isinstance(module, DegreeScalerAggregation):
                    module.avg_deg_log.fill_((degrees + 1).float().log().mean())


def degree_histogram(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Count the nodes of each in-degree, [max_degree + 1].

    Example:
        >>> degree_histogram(torch.tensor([[0, 1, 2], [2, 2, 0]]), 4).tolist()
        [2, 1, 1]
    """
    return torch.bincount(torch.bincount(edge_index[1], minlength=num_nodes))


def _widths(in_dim: int, hidden_dim: int, num_layers: int) -> list[int]:
    return [in_dim] + [hidden_dim] * (num_layers - 1)


def _mlp(in_dim: int, hidden_dim: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(in_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, hidden_dim),
    )

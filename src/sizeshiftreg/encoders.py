"""GIN, GCN and PNA as the paper uses them: (x, edge_index) -> node embeddings."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn import DegreeScalerAggregation, GCNConv, GINConv, PNAConv

from sizeshiftreg.errors import choice
from sizeshiftreg.kernels import Layout, Segments, graph_layer, neighbour_statistics, norm_relu

PNADegrees = Literal["nodes", "bins"]


class Stack(nn.Module):
    """Graph convolutions, each followed by batch normalisation and ReLU, the last one too.

    Attributes:
        out_dim: Width of the node embeddings.
        optional_inputs: What it takes from a batch besides `x` and `edge_index`, where the batch has it.
        takes_segments: It can normalise parts of a batch each by themselves.
    """

    optional_inputs = ("layout",)
    takes_segments = True

    def __init__(self, convolutions: Iterable[nn.Module], *, hidden_dim: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden_dim) for _ in self.convolutions)
        self.out_dim = hidden_dim

    def forward(
        self, x: Tensor, edge_index: Tensor | None, layout: Layout | None = None, segments: Segments | None = None
    ) -> Tensor:
        """Return the node embeddings, [num_nodes, out_dim].

        With the `layout` of the edges, which `GraphStore` has at hand, it is the same and faster, and needs no
        `edge_index`; with `segments` several batches pass together, as if one after the other.
        """
        if layout is None and segments is not None and edge_index is not None:
            layout = Layout.of(edge_index, x.size(0))
        layer: Any
        norm: Any
        for layer, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(layer(x, edge_index)).relu() if layout is None else layer.layer(x, layout, norm, segments)
        return x


class GIN(Stack):
    """Graph isomorphism network (Xu et al. 2019) with a trainable epsilon.

    Example:
        >>> GIN(3, hidden_dim=8)(torch.rand(2, 3), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([2, 8])
    """

    def __init__(self, in_dim: int, *, hidden_dim: int, num_layers: int = 3) -> None:
        super().__init__(
            (_GINConv(_mlp(width, hidden_dim), train_eps=True) for width in _widths(in_dim, hidden_dim, num_layers)),
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
            (_GCNConv(width, hidden_dim) for width in _widths(in_dim, hidden_dim, num_layers)),
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
                _PNAConv(
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


# PyG's convolutions, with their parameters, and `layer`: the convolution, batch normalisation and ReLU in fewer steps
# where the layout of the edges is known.


class _GINConv(GINConv):  # type: ignore[misc]
    def layer(self, x: Tensor, layout: Layout, norm: nn.BatchNorm1d, segments: Segments | None) -> Tensor:
        first, inner_norm, _, second = self.nn
        blocks = [(first.weight, first.bias, inner_norm), (second.weight, second.bias, norm)]
        return graph_layer(x, layout, 1 + self.eps, None, blocks, segments)


class _GCNConv(GCNConv):  # type: ignore[misc]
    def layer(self, x: Tensor, layout: Layout, norm: nn.BatchNorm1d, segments: Segments | None) -> Tensor:
        # D^-1/2 (A + I) D^-1/2, where every node has exactly one self-loop, however many it came with.
        own = 1 - layout.loops.to(x.dtype)
        scale = (layout.degree() + own).rsqrt()
        return graph_layer(x, layout, own, scale, [(self.lin.weight, self.bias, norm)], segments)


class _PNAConv(PNAConv):  # type: ignore[misc]
    def layer(self, x: Tensor, layout: Layout, norm: nn.BatchNorm1d, segments: Segments | None) -> Tensor:
        # A message is a linear map of (target, source): the part of the target moves mean, minimum and maximum alike.
        width = x.size(1)
        before, after = self.pre_nns[0][0], self.post_nns[0][0]
        of_target = nn.functional.linear(x, before.weight[:, :width], before.bias)
        statistics = neighbour_statistics(nn.functional.linear(x, before.weight[:, width:]), layout)
        degree = layout.degree().to(x.dtype).unsqueeze(-1)
        moved = torch.cat([statistics[:, :3] + (of_target * (degree > 0)).unsqueeze(1), statistics[:, 3:]], dim=1)
        # The three scalers multiply whole rows, so they may come after the matrix.
        weights = after.weight[:, width:].unflatten(1, (3, 4 * width)).transpose(0, 1).flatten(0, 1)
        identity, amplified, attenuated = nn.functional.linear(moved.flatten(1), weights).chunk(3, dim=1)
        amplify = (degree + 1).log() / self.aggr_module.avg_deg_log
        attenuate = self.aggr_module.avg_deg_log / (degree.clamp(min=1) + 1).log()
        scaled = torch.addcmul(torch.addcmul(identity, amplified, amplify), attenuated, attenuate)
        out = scaled + nn.functional.linear(x, after.weight[:, :width], after.bias)
        return norm_relu(self.lin(out), norm, segments)


def _widths(in_dim: int, hidden_dim: int, num_layers: int) -> list[int]:
    return [in_dim] + [hidden_dim] * (num_layers - 1)


def _mlp(in_dim: int, hidden_dim: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(in_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, hidden_dim),
    )

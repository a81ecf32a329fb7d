"""Compiled kernels against PyG's layers, torch's operations and gradcheck."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Batch

from conftest import HARD_GRAPHS, graph
from sizeshiftreg import GCN, GIN, PNA, kernels
from sizeshiftreg.kernels import Layout, Segments, graph_layer, neighbour_statistics, norm_relu, segment_moments

DEGREES = torch.tensor([2, 4, 30, 6])
ENCODERS = {
    "gin": lambda: GIN(2, hidden_dim=6),
    "gcn": lambda: GCN(2, hidden_dim=6),
    "pna": lambda: PNA(2, hidden_dim=6, degrees=DEGREES),
}


def batch_of(seed=0):
    """The hard graphs, with self-loops, parallel and directed edges, and a random one, in float64."""
    draw = torch.Generator().manual_seed(seed)
    random = graph(30, [(3, 3), (3, 3), *torch.randint(30, (2, 70), generator=draw).t().tolist()], seed=seed)
    batch = Batch.from_data_list([*HARD_GRAPHS.values(), random])
    batch.x = batch.x.double()
    return batch


@pytest.fixture(params=["compiled", "torch"])
def path(request, monkeypatch):
    """Run a test on the compiled kernels, and on the operations that other devices take."""
    if request.param == "torch":
        monkeypatch.setattr(kernels, "_compiled", lambda x: False)
    return request.param


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("training", [True, False])
def test_with_a_layout_an_encoder_equals_pygs_layers(name, training):
    torch.manual_seed(0)
    encoder, batch = ENCODERS[name]().double().train(training), batch_of()
    twin, weights = copy.deepcopy(encoder), torch.randn(batch.num_nodes, 6, dtype=torch.float64)
    inputs = [batch.x.clone().requires_grad_() for _ in range(2)]
    expected = encoder(inputs[0], batch.edge_index)
    found = twin(inputs[1], batch.edge_index, Layout.of(batch.edge_index, batch.num_nodes))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    (expected * weights).sum().backward()
    (found * weights).sum().backward()
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad, rtol=1e-8, atol=1e-8)
    for (key, a), b in zip(encoder.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-8, atol=1e-8, msg=key)
    for (key, a), b in zip(encoder.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9, msg=key)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("moving", [1, 3])
@pytest.mark.parametrize("name", ENCODERS)
def test_segments_pass_as_if_one_after_the_other(name, moving, momentum):
    torch.manual_seed(0)
    encoder = ENCODERS[name]().double()
    for norm in encoder.modules():
        if isinstance(norm, nn.BatchNorm1d):
            norm.momentum = momentum
    twin, parts = copy.deepcopy(encoder), [batch_of(seed) for seed in range(3)]
    expected = []
    for number, part in enumerate(parts):
        state = copy.deepcopy(encoder.state_dict())
        expected.append(encoder(part.x, part.edge_index))
        if number >= moving:
            encoder.load_state_dict(state)
    sizes = tuple(part.num_nodes for part in parts)
    shift = torch.tensor([0, *sizes]).cumsum(0)
    edges = torch.cat([part.edge_index + shift[i] for i, part in enumerate(parts)], dim=1)
    found = twin(torch.cat([part.x for part in parts]), edges, None, Segments(sizes, moving))
    torch.testing.assert_close(found, torch.cat(expected), rtol=1e-9, atol=1e-9)
    for (key, a), b in zip(encoder.named_buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9, msg=key)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("moments", [1, 2, 3, 5])
def test_gradients_of_the_moments(moments):
    x = torch.randn(9, 3, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 2, 0, 1, 2, 2, 0, 1, 4])
    torch.autograd.gradcheck(lambda x: segment_moments(x, batch, 5, moments), (x,))
    found = segment_moments(x, batch, 5, moments)
    torch.testing.assert_close(found[0, 0], x[[0, 2, 6]].mean(0))
    assert (found[3] == 0).all(), "a graph without rows"


@pytest.mark.usefixtures("path")
def test_gradients_of_the_statistics_of_neighbours():
    batch = batch_of()
    x = torch.randn(batch.num_nodes, 2, dtype=torch.float64, requires_grad=True)
    layout = Layout.of(batch.edge_index, batch.num_nodes)
    torch.autograd.gradcheck(lambda x: neighbour_statistics(x, layout), (x,), atol=1e-4)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("scaled", [True, False])
def test_gradients_of_a_layer(scaled):
    batch, width = batch_of(), 3
    layout = Layout.of(batch.edge_index, batch.num_nodes)
    torch.manual_seed(0)
    own = torch.rand(batch.num_nodes).double() if scaled else torch.ones(1, dtype=torch.float64, requires_grad=True)
    scale = torch.rand(batch.num_nodes).double() if scaled else None
    norms = [nn.BatchNorm1d(width).double() for _ in range(2)]
    tensors = [torch.randn(*shape, dtype=torch.float64) for shape in ((batch.num_nodes, 2), (3, 2), (3,), (3, 3), (3,))]
    tensors = [tensor.requires_grad_() for tensor in tensors]

    def layer(x, own, a, b, c, d):
        return graph_layer(x, layout, own, scale, [(a, b, norms[0]), (c, d, norms[1])])

    torch.autograd.gradcheck(layer, (tensors[0], own, *tensors[1:]), atol=1e-4)


def test_equal_neighbours_share_the_gradient_of_minimum_and_maximum():
    layout = Layout.of(torch.tensor([[0, 1, 2], [3, 3, 3]]), 4)
    x = torch.tensor([[1.0], [1.0], [0.0], [5.0]], requires_grad=True)
    neighbour_statistics(x, layout)[3, 2].sum().backward()
    assert x.grad.flatten().tolist() == [0.5, 0.5, 0, 0]


@settings(max_examples=30)
@given(st.floats(-1e4, 1e4), st.integers(0, 1000))
def test_normalising_loses_no_digits_to_a_large_mean(mean, seed):
    torch.manual_seed(seed)
    x = torch.randn(200, 4) + mean
    norm, layout = nn.BatchNorm1d(4), Layout.of(torch.empty(2, 0, dtype=torch.long), 200)
    blocks = [(torch.eye(4), torch.zeros(4), norm)]
    found = graph_layer(x, layout, torch.ones(1), None, blocks)
    exact = x.double()
    expected = ((exact - exact.mean(0)) / (exact.var(0, unbiased=False) + 1e-5).sqrt()).relu()
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=2e-3)


def test_norm_relu_alone_equals_torch():
    x, norm = torch.randn(20, 3), nn.BatchNorm1d(3)
    torch.testing.assert_close(norm_relu(x, copy.deepcopy(norm)), norm(x).relu())

"""SizeShift on models of every kind: gradients arrive, and nothing of the model changes but that."""

import copy

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Batch

from conftest import graph, undirected
from sizeshiftreg import GCN, GIN, PNA, Coarsen, InputError, SizeShift, contract, node_embeddings


def graphs(count=6):
    items = []
    for number in range(count):
        path = undirected([(i, i + 1) for i in range(7 + number)])
        item = graph(8 + number, [*path, (0, 4), (4, 0)], seed=number, y=number % 2)
        draw = torch.Generator().manual_seed(number)
        item.edge_attr = torch.rand(item.num_edges, 3, generator=draw)
        item.edge_weight = torch.rand(item.num_edges, generator=draw)
        item.pos = torch.rand(item.num_nodes, 2, generator=draw)
        items.append(Coarsen(ratios=(0.5, 0.8))(item))
    return items


def batch():
    return Batch.from_data_list(graphs())


class GPS(nn.Module):
    """Layers that attend within each graph, and so need the batch vector; positions are features."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(4, 8)
        self.layer = gnn.GPSConv(8, gnn.GINConv(nn.Linear(8, 8)), heads=2, norm="layer_norm")

    def forward(self, x, edge_index, batch, pos):
        return self.layer(self.into(torch.cat([x, pos], dim=1)), edge_index, batch)


class Whole(nn.Module):
    """A classifier of one piece."""

    def __init__(self):
        super().__init__()
        self.body = gnn.models.GIN(2, 8, num_layers=2, norm="batch_norm")
        self.head = nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        return self.head(gnn.global_add_pool(self.body(x, edge_index), batch))


def attentive():
    return gnn.models.AttentiveFP(2, 8, out_channels=2, edge_dim=3, num_layers=2, num_timesteps=1)


DEGREES = torch.tensor([0, 4, 30, 6])
PNA_OPTIONS = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES}
# name: (model, inputs, layer that makes node embeddings or None for the model's output, options of SizeShift)
MODELS = {
    "our GIN": (lambda: GIN(2, hidden_dim=8), (), None, {}),
    "our GCN": (lambda: GCN(2, hidden_dim=8), (), None, {}),
    "our PNA": (lambda: PNA(2, hidden_dim=8, degrees=DEGREES), (), None, {}),
    "GIN": (lambda: gnn.models.GIN(2, 8, num_layers=2, norm="batch_norm"), (), None, {}),
    "GCN": (lambda: gnn.models.GCN(2, 8, num_layers=2), (), None, {}),
    "GCN, edge weights": (lambda: gnn.models.GCN(2, 8, num_layers=2), ("edge_weight",), None, {}),
    "PNA": (lambda: gnn.models.PNA(2, 8, num_layers=2, **PNA_OPTIONS), (), None, {}),
    "GAT": (lambda: gnn.models.GAT(2, 8, num_layers=2), (), None, {}),
    "GAT, edge attributes": (lambda: gnn.models.GAT(2, 8, num_layers=2, edge_dim=3), ("edge_attr",), None, {}),
    "GraphSAGE": (lambda: gnn.models.GraphSAGE(2, 8, num_layers=2), (), None, {}),
    "GraphSAGE, graph norm": (
        lambda: gnn.models.GraphSAGE(2, 8, num_layers=2, norm="graph_norm"),
        ("batch",),
        None,
        {},
    ),
    "AttentiveFP": (attentive, ("edge_attr", "batch"), "atom_grus.0", {"edge_reduce": "sum"}),
    "GPSConv": (GPS, ("batch", "pos"), None, {"node_attributes": {"pos": "mean"}}),
    "one piece": (Whole, ("batch",), "body", {}),
}


def encode(model, item, inputs):
    return model(item.x, item.edge_index, **{name: item[name] for name in inputs})


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_parameter_that_makes_the_embeddings(name):
    make, inputs, layer, options = MODELS[name]
    torch.manual_seed(0)
    model, item = make(), batch()
    shift = SizeShift(0.5, inputs=inputs, **options)
    if layer is None:
        shift(model, item).backward()
    else:
        with node_embeddings(model, layer) as encoder:
            shift(encoder, item).backward()
    after = {"head", "lin2", "mol_conv", "mol_gru", "mol_convs", "mol_grus"}  # what comes after the embeddings
    for key, parameter in model.named_parameters():
        if key.split(".")[0] not in after:
            assert parameter.grad is not None, key
            assert torch.isfinite(parameter.grad).all(), key
    assert sum(float(p.grad.abs().sum()) for p in model.parameters() if p.grad is not None) > 0


@pytest.mark.parametrize("name", MODELS)
def test_the_model_stays_as_it_is(name):
    """Its outputs and state are those of a copy that was never attached to anything."""
    make, inputs, layer, options = MODELS[name]
    torch.manual_seed(0)
    model, item = make().eval(), batch()
    twin, state = copy.deepcopy(model), copy.deepcopy(model.state_dict())
    hooks = sum(len(module._forward_hooks) for module in model.modules())
    shift = SizeShift(0.5, inputs=inputs, **options)
    if layer is None:
        shift(model, item)
    else:
        with node_embeddings(model, layer) as encoder:
            assert torch.equal(encode(model, item, inputs), encode(twin, item, inputs))
            shift(encoder, item)
    assert torch.equal(encode(model, item, inputs), encode(twin, item, inputs))
    assert sum(len(module._forward_hooks) for module in model.modules()) == hooks
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_a_hook_gives_what_the_layer_gives_also_to_ones_own_call():
    torch.manual_seed(0)
    model, item = Whole().eval(), batch()
    expected = model.body(item.x, item.edge_index)
    with node_embeddings(model, "body") as encoder:
        assert encoder.last is None
        model(item.x, item.edge_index, item.batch)
        assert torch.equal(encoder.last, expected)
        given = SizeShift(1.0, inputs=("batch",))(encoder, item, encoder.last)
    assert torch.equal(given, SizeShift(1.0)(model.body, item))


def test_the_hook_goes_also_when_an_error_ends_the_block():
    model = Whole()
    with pytest.raises(KeyError), node_embeddings(model, "body"):
        raise KeyError
    assert not model.body._forward_hooks


def test_layers_that_cannot_serve_are_refused():
    expected = r"expected the name of a layer, such as body, .*; got 'bdy'"
    with pytest.raises(InputError, match=expected), node_embeddings(Whole(), "bdy"):
        pass
    model = Whole()
    model.idle = nn.Linear(2, 2)
    with node_embeddings(model, "idle") as encoder, pytest.raises(InputError, match="'idle' did not run"):
        encoder(batch().x, batch().edge_index, batch=batch().batch)
    with pytest.raises(InputError, match="expected one embedding per node"), node_embeddings(model, "head") as encoder:
        SizeShift(1.0, inputs=("batch",))(encoder, batch())


def test_a_missing_input_is_told():
    with pytest.raises(InputError, match=r"input 'pos' is missing in the batch. Coarse views carry"):
        SizeShift(1.0, inputs=("batch", "pos"))(GPS(), batch())


def test_frozen_statistics_are_found_through_a_hook():
    model, item = Whole().train(), batch()
    model(item.x, item.edge_index, item.batch)
    before = copy.deepcopy(model.state_dict())
    with node_embeddings(model, "body") as encoder:
        h = model.body(item.x, item.edge_index)
        moved = copy.deepcopy(model.state_dict())
        SizeShift(1.0, inputs=("batch",), batch_norm="original")(encoder, item, h)
    assert all(torch.equal(value, moved[key]) for key, value in model.state_dict().items())
    assert not all(torch.equal(value, before[key]) for key, value in moved.items())


def test_a_compiled_model_gives_the_same_penalty():
    torch.manual_seed(0)
    model, item = Whole().eval(), batch()
    expected = SizeShift(1.0)(model.body, item)
    compiled = torch.compile(model, backend="eager")
    compiled(item.x, item.edge_index, item.batch)
    with node_embeddings(compiled, "body") as encoder:
        torch.testing.assert_close(SizeShift(1.0, inputs=("batch",))(encoder, item), expected)
    torch.testing.assert_close(SizeShift(1.0)(torch.compile(model.body, backend="eager"), item), expected)


@pytest.mark.parametrize("name", ["our GIN", "our GCN", "our PNA", "GIN"])
def test_mixed_precision(name):
    torch.manual_seed(0)
    model, item = MODELS[name][0](), batch()
    expected = SizeShift(1.0)(model, item)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = SizeShift(1.0)(model, item)
    found.backward()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.2, atol=0.05)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("reduce", ["mean", "sum", "max"])
def test_attributes_reach_the_views_by_their_reductions(reduce):
    item = graphs(1)[0]
    labels = item.partitions[:, 0]
    coarse = contract(item, labels, edge_reduce=reduce, node_attributes={"pos": reduce})
    how = {"mean": lambda v: v.mean(0), "sum": lambda v: v.sum(0), "max": lambda v: v.max(0).values}[reduce]
    for cluster in range(int(labels.max()) + 1):
        torch.testing.assert_close(coarse.pos[cluster], how(item.pos[labels == cluster]))
    ends = labels[item.edge_index]
    for number, (a, b) in enumerate(coarse.edge_index.t().tolist()):
        merged = (ends[0] == a) & (ends[1] == b)
        torch.testing.assert_close(coarse.edge_attr[number], how(item.edge_attr[merged]))


def test_an_attribute_that_is_not_there_is_told():
    with pytest.raises(InputError, match=r"expected the node attribute 'colour' with 8 rows, one per node; got none"):
        contract(graphs(1)[0], graphs(1)[0].partitions[:, 0], node_attributes={"colour": "mean"})

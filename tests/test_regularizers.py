"""SizeShift against a loop over graphs and ratios, its gradient, and what it does to batch norm."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import models as pyg_models

from conftest import HARD_GRAPHS, graph, undirected
from sizeshiftreg import GCN, GIN, PNA, Coarsen, InputError, SizeShift, cmd, contract
from sizeshiftreg.encoders import degree_histogram
from sizeshiftreg.regularizers import Draw

ENCODERS = {
    "gin": lambda: GIN(2, hidden_dim=4),
    "gcn": lambda: GCN(2, hidden_dim=4),
    "pna": lambda: PNA(2, hidden_dim=4, degrees=torch.tensor([1, 3, 2])),
    "PyG's GIN": lambda: pyg_models.GIN(2, hidden_channels=4, num_layers=2, norm="batch_norm"),
}


def trees(count=4, ratios=(0.5, 0.8)):
    path = undirected([(i, i + 1) for i in range(7)])
    items = [graph(8 + i, [*path, (7, 7 + i), (7 + i, 7)] if i else path, seed=i, y=i % 2) for i in range(count)]
    return Batch.from_data_list([Coarsen(ratios=ratios)(item) for item in items])


def plain_loop(encoder, batch, *, average):
    """Algorithm 1 of the paper, graph by graph; batch norm is off (evaluation mode), so this is the same number."""
    total, terms = 0.0, 0
    for item in batch.to_data_list():
        for column in range(item.partitions.size(1)):
            coarse = contract(item, item.partitions[:, column])
            x, y = encoder(item.x, item.edge_index), encoder(coarse.x, coarse.edge_index)
            zeros = [torch.zeros(len(rows), dtype=torch.long) for rows in (x, y)]
            total, terms = total + cmd(x, y, *zeros, 1)[0], terms + 1
    return total / terms if average else total


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("average", [True, False])
def test_equals_algorithm_1(name, average):
    torch.manual_seed(0)
    encoder, batch = ENCODERS[name]().eval(), trees()
    found = SizeShift(0.3, average=average)(encoder, batch)
    torch.testing.assert_close(found, 0.3 * plain_loop(encoder, batch, average=average))


@pytest.mark.parametrize("name", ENCODERS)
def test_gradient_reaches_every_encoder_parameter(name):
    torch.manual_seed(0)
    encoder, batch = ENCODERS[name](), trees()
    SizeShift(0.1)(encoder, batch).backward()
    for parameter_name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, parameter_name
        # A bias before batch norm is centred away: its gradient is zero up to rounding, with or without penalty.
        cancelled = parameter_name.endswith("bias") and "norms" not in parameter_name
        assert cancelled or parameter.grad.abs().max() > 1e-8, parameter_name


def test_gradient_flows_through_the_original_and_through_the_views():
    encoder, batch = nn.Linear(2, 3), trees()
    regularizer = SizeShift(1.0)
    views = regularizer.views(batch)
    apply = lambda x, edge_index: encoder(x)
    full = torch.autograd.grad(regularizer(apply, batch), encoder.weight)[0]
    cut = torch.autograd.grad(regularizer(apply, batch, encoder(batch.x).detach(), views), encoder.weight)[0]
    assert not torch.allclose(full, cut)
    assert cut.abs().max() > 0


def test_given_embeddings_and_views_change_nothing():
    torch.manual_seed(0)
    encoder, batch, regularizer = GIN(2, hidden_dim=4).eval(), trees(), SizeShift(0.1)
    embeddings, views = encoder(batch.x, batch.edge_index), regularizer.views(batch)
    assert torch.equal(regularizer(encoder, batch, embeddings, views), regularizer(encoder, batch))


def test_weight_0_computes_nothing():
    def encoder(x, edge_index):
        raise AssertionError("the encoder was called")

    batch = trees()
    assert SizeShift(0)(encoder, batch).item() == 0
    assert SizeShift(0).views(batch) == []


@pytest.mark.parametrize("coarse_features", ["mean", "sum", "max"])
def test_views_are_the_contracted_batch(coarse_features):
    batch = trees()
    for column, view in enumerate(SizeShift(reduce=coarse_features).views(batch)):
        expected = contract(batch, batch.partitions[:, column], reduce=coarse_features)
        assert torch.equal(view.x, expected.x)
        assert torch.equal(view.edge_index, expected.edge_index)


def statistics(encoder):
    return {name: value.clone() for name, value in encoder.named_buffers()}


def test_batch_norm_all_lets_the_views_move_the_statistics():
    """With momentum 0.1, original first and two views after it, the original's share becomes 0.81 / 2.71 = 30%."""
    torch.manual_seed(0)
    batch, norm = trees(), nn.BatchNorm1d(2, affine=False)
    regularizer = SizeShift(0.1, batch_norm="all")

    def step():
        embeddings = norm(batch.x)
        regularizer(lambda x, edge_index: norm(x), batch, embeddings)

    for _ in range(400):
        step()
    views = regularizer.views(batch)
    means = torch.stack([batch.x.mean(0), views[0].x.mean(0), views[1].x.mean(0)])
    share = torch.tensor([0.81, 0.9, 1.0]) / 2.71
    torch.testing.assert_close(norm.running_mean, share @ means)


@pytest.mark.parametrize("name", ENCODERS)
def test_batch_norm_original_leaves_the_statistics_to_the_training_graphs(name):
    torch.manual_seed(0)
    encoder, batch = ENCODERS[name](), trees()
    alone = copy.deepcopy(encoder)
    alone(batch.x, batch.edge_index)
    embeddings = encoder(batch.x, batch.edge_index)
    penalty = SizeShift(0.1, batch_norm="original")(encoder, batch, embeddings)
    for buffer, value in statistics(alone).items():
        assert torch.equal(statistics(encoder)[buffer], value), buffer
    moved = copy.deepcopy(alone)
    torch.testing.assert_close(penalty, SizeShift(0.1)(moved, batch, moved(batch.x, batch.edge_index)))
    norms = [module for module in encoder.modules() if isinstance(module, nn.BatchNorm1d)]
    assert norms and all(norm.track_running_stats for norm in norms), "the setting was not put back"


def test_batch_norm_original_needs_a_module():
    with pytest.raises(InputError, match=r'batch_norm="original" needs .*torch.nn.Module'):
        SizeShift(batch_norm="original")(lambda x, edge_index: x, trees())


@pytest.mark.parametrize("name", HARD_GRAPHS)
@pytest.mark.parametrize("encoder_name", ENCODERS)
def test_hard_graphs_give_a_finite_penalty(name, encoder_name):
    torch.manual_seed(0)
    items = [Coarsen()(HARD_GRAPHS[name]), Coarsen()(HARD_GRAPHS["complete"])]
    encoder = ENCODERS[encoder_name]()
    penalty = SizeShift(0.1)(encoder, Batch.from_data_list(items))
    penalty.backward()
    assert torch.isfinite(penalty)
    assert all(torch.isfinite(parameter.grad).all() for parameter in encoder.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_below_0_or_not_finite_is_refused(weight):
    with pytest.raises(InputError, match="finite weight of at least 0"):
        SizeShift(weight)


def test_missing_partitions_are_named_with_the_way_out():
    with pytest.raises(InputError, match=r"pre_transform=Coarsen"):
        SizeShift()(nn.Linear(2, 2), Batch.from_data_list([graph(3, [])]))


def test_pooled_embeddings_are_refused():
    with pytest.raises(InputError, match="one embedding per node"):
        SizeShift()(lambda x, edge_index: x[:2], trees())


def test_partitions_of_another_graph_are_refused():
    batch = trees()
    batch.partitions = batch.partitions[1:]
    with pytest.raises(InputError, match="belongs to another graph"):
        SizeShift()(lambda x, edge_index: x, batch)


def test_views_of_another_batch_or_none_are_refused():
    batch, regularizer = trees(4), SizeShift()
    for views in ([], regularizer.views(trees(3))):
        with pytest.raises(InputError, match="views of the same 4 graphs as the batch"):
            regularizer(lambda x, edge_index: x, batch, views=views)


def test_a_single_graph_is_a_batch_of_one():
    item = trees(1)[0]
    alone = SizeShift()(lambda x, edge_index: x, item)
    torch.testing.assert_close(alone, SizeShift()(lambda x, edge_index: x, Batch.from_data_list([item])))


def test_unknown_names_are_refused():
    for options in ({"reduce": "median"}, {"discrepancy": "wasserstein"}, {"batch_norm": "none"}):
        with pytest.raises(InputError, match="expected one of"):
            SizeShift(**options)


def test_degree_histogram_counts_nodes():
    item = HARD_GRAPHS["star"]
    assert degree_histogram(item.edge_index, item.num_nodes).tolist() == [0, 19] + [0] * 17 + [1]


def linear_encoder():
    """Without batch normalisation the embeddings of a graph do not depend on the others."""
    torch.manual_seed(0)
    layer = nn.Linear(2, 3)
    return layer, lambda x, edge_index: layer(x)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_expected_gradient_of_sampled_views_is_the_full_one(share, average):
    """Over all draws there are, each as likely as any other: every view, and every set of so many graphs."""
    batch = trees(count=4)
    layer, encoder = linear_encoder()

    def gradient(draw=None):
        shift = SizeShift(0.3, average=average, views="sampled", share=share)
        if draw is None:
            shift = SizeShift(0.3, average=average)
        else:
            shift.draw = lambda num_views, num_graphs: draw
        return torch.autograd.grad(shift(encoder, batch), layer.weight)[0]

    count = max(1, round(share * 4))
    subsets = [None] if share == 1 else [torch.tensor(s) for s in itertools.combinations(range(4), count)]
    draws = [Draw((view,), 2, subset) for view in range(2) for subset in subsets]
    mean = torch.stack([gradient(draw) for draw in draws]).mean(0)
    torch.testing.assert_close(mean, gradient(), rtol=1e-5, atol=1e-6)


def test_draws_are_uniform_over_views_and_graphs():
    shift = SizeShift(0.1, views="sampled", share=0.5, seed=3)
    draws = [shift.draw(2, 4) for _ in range(4000)]
    views = torch.tensor([draw.views[0] for draw in draws])
    graphs = torch.cat([draw.graphs for draw in draws])
    assert abs(views.float().mean() - 0.5) < 0.04
    assert all(len(draw.views) == 1 and len(draw.graphs) == 2 and draw.of == 2 for draw in draws)
    shares = torch.bincount(graphs, minlength=4) / len(graphs)
    assert (shares - 0.25).abs().max() < 0.02
    again = SizeShift(0.1, views="sampled", share=0.5, seed=3)
    assert all(torch.equal(again.draw(2, 4).graphs, draw.graphs) for draw in draws[:20])


@pytest.mark.parametrize("discrepancy", ["cmd", "mmd"])
def test_given_sampled_views_equal_those_contracted_in_the_call(discrepancy):
    batch, draw = trees(count=4), Draw((1,), 2, torch.tensor([1, 3]))
    _, encoder = linear_encoder()
    shift = SizeShift(0.3, views="sampled", share=0.5, discrepancy=discrepancy)
    part = Batch.from_data_list([batch.to_data_list()[i] for i in (1, 3)])
    given = shift(encoder, batch, encoder(batch.x, batch.edge_index), [contract(part, part.partitions[:, 1])], draw)
    shift.draw = lambda num_views, num_graphs: draw
    torch.testing.assert_close(shift(encoder, batch), given)


@pytest.mark.parametrize(
    "options", [{"share": 0}, {"share": 1.5, "views": "sampled"}, {"share": 0.5}, {"views": "some"}]
)
def test_sampling_that_makes_no_sense_is_refused(options):
    with pytest.raises(InputError, match=r"share|views"):
        SizeShift(0.1, **options)

"""The contract that every coarsening method keeps, and the Coarsen transform."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from conftest import HARD_GRAPHS, graph, undirected
from sizeshiftreg import Coarsen, InputError, contract
from sizeshiftreg.coarsening import PARTITIONERS


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("method", PARTITIONERS)
@pytest.mark.parametrize("name", HARD_GRAPHS)
def test_labels_are_consecutive_and_none_is_empty(method, name):
    item = HARD_GRAPHS[name]
    for num_clusters in range(1, item.num_nodes + 1):
        labels = PARTITIONERS[method](item.edge_index, item.num_nodes, num_clusters, generator=seeded())
        assert labels.dtype == torch.long
        assert labels.shape == (item.num_nodes,)
        assert labels.unique().tolist() == list(range(num_clusters))


@pytest.mark.parametrize("method", PARTITIONERS)
@given(st.integers(1, 30), st.floats(0.05, 1), st.integers(0, 5), st.data())
def test_any_graph_gets_the_clusters_asked_for(method, num_nodes, share, seed, data):
    node = st.integers(0, num_nodes - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=3 * num_nodes))
    num_clusters = max(1, int(share * num_nodes))
    item = graph(num_nodes, edges)
    first, again = (
        PARTITIONERS[method](item.edge_index, num_nodes, num_clusters, generator=seeded(seed)) for _ in range(2)
    )
    assert first.unique().tolist() == list(range(num_clusters))
    assert torch.equal(first, again)


@pytest.mark.parametrize("method", ["sgc", "mlgc"])
def test_direction_and_parallel_edges_do_not_matter(method):
    tree = undirected([(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (4, 6)])
    expected = Coarsen(method, ratios=(0.6,))(graph(7, tree)).partitions
    for edges in (tree[:6], [*tree, (0, 1), (3, 4)]):
        assert torch.equal(Coarsen(method, ratios=(0.6,))(graph(7, edges)).partitions, expected)


def test_coarsen_writes_one_column_per_ratio_and_nothing_else():
    item = HARD_GRAPHS["complete"]
    coarse = Coarsen(ratios=(0.5, 0.9))(item)
    assert coarse.partitions.max(dim=0).values.tolist() == [2, 4]
    assert set(coarse.keys()) - set(item.keys()) == {"partitions"}
    assert "partitions" not in item, "the graph given was changed"


@pytest.mark.parametrize(
    ("num_nodes", "ratio", "num_clusters"),
    [(1, 0.8, 1), (2, 0.1, 1), (100, 0.29, 29), (100, 0.57, 57), (10, 0.7, 7), (15, 0.8, 12)],
)
def test_number_of_clusters_is_the_floor_of_the_decimal(num_nodes, ratio, num_clusters):
    item = graph(num_nodes, [])
    assert int(Coarsen("random", ratios=(ratio,))(item).partitions.max()) + 1 == num_clusters


def test_partitions_survive_batching_and_belong_to_their_graph():
    coarsen = Coarsen("random", ratios=(0.5, 0.8))
    items = [coarsen(HARD_GRAPHS[name]) for name in ("star", "one node", "complete")]
    batch = Batch.from_data_list(items)
    assert torch.equal(batch.partitions, torch.cat([item.partitions for item in items]))
    assert torch.equal(batch[2].partitions, items[2].partitions)


@pytest.mark.parametrize("method", PARTITIONERS)
@pytest.mark.parametrize("name", HARD_GRAPHS)
def test_coarse_features_and_edges_belong_together(method, name):
    """Every node has a feature of its own, so the features tell which nodes a coarse node holds; its edges must too."""
    item = HARD_GRAPHS[name].clone()
    item.x = torch.eye(item.num_nodes)
    labels = Coarsen(method, ratios=(0.6,))(item).partitions[:, 0]
    coarse = contract(item, labels, reduce="sum")
    members = [set(row.nonzero().flatten().tolist()) for row in coarse.x]
    expected = {
        (a, b)
        for a, from_here in enumerate(members)
        for b, to_there in enumerate(members)
        if any(source in from_here and target in to_there for source, target in item.edge_index.t().tolist())
    }
    assert set(map(tuple, coarse.edge_index.t().tolist())) == expected
    assert sorted(node for nodes in members for node in nodes) == list(range(item.num_nodes))


def test_a_partition_depends_on_the_graph_and_the_seed_alone():
    coarsen, item = Coarsen("random"), HARD_GRAPHS["star"]
    first = coarsen(item).partitions
    coarsen(HARD_GRAPHS["complete"])
    assert torch.equal(coarsen(item).partitions, first)
    assert not torch.equal(Coarsen("random", seed=1)(item).partitions, first)


def test_different_graphs_of_one_size_draw_differently():
    path, ring = [(i, i + 1) for i in range(19)], [(i, (i + 1) % 20) for i in range(20)]
    first, second = (Coarsen("random")(graph(20, edges)).partitions for edges in (path, ring))
    assert not torch.equal(first[:, 0], second[:, 0])


def test_a_function_of_ones_own_works_by_being_passed_in():
    def halves(edge_index, num_nodes, num_clusters, *, generator):
        return torch.arange(num_nodes) * num_clusters // num_nodes

    assert Coarsen(halves, ratios=(0.5,))(graph(4, [])).partitions.flatten().tolist() == [0, 0, 1, 1]
    assert "halves" in repr(Coarsen(halves))


def test_its_text_names_every_setting_for_pyg_to_compare():
    assert repr(Coarsen("random", ratios=(0.5,), seed=3)) == "Coarsen(random, ratios=(0.5,), seed=3)"


@pytest.mark.parametrize("ratios", [(), (0,), (1.0,), (0.8, 0.8), (-0.5,), (float("nan"),), 0.8, ("a",)])
def test_ratios_outside_0_to_1_are_refused(ratios):
    with pytest.raises(InputError, match=r"ratios: expected .* between 0 and 1"):
        Coarsen(ratios=ratios)


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="expected one of sgc, mlgc, .*, random; got 'scg'"):
        Coarsen("scg")


def test_graphs_that_cannot_be_coarsened_are_refused():
    with pytest.raises(InputError, match="expected a graph with nodes"):
        Coarsen()(Data(num_nodes=0, edge_index=torch.empty(2, 0, dtype=torch.long)))
    with pytest.raises(InputError, match="`edge_index`"):
        Coarsen()(Data(x=torch.ones(3, 1)))


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1], [0, 1, 2, 3], [0, 2, 0, 2]])
def test_a_function_that_breaks_the_contract_is_named(labels):
    def broken(edge_index, num_nodes, num_clusters, *, generator):
        return torch.tensor(labels)

    with pytest.raises(InputError, match=r"method .*broken: expected 4 labels, 0 to 1 and none empty"):
        Coarsen(broken, ratios=(0.5,))(graph(4, []))

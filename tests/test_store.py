"""GraphStore against PyG's own collation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch

from conftest import HARD_GRAPHS, graph
from sizeshiftreg import Coarsen, GraphStore, InputError, SizeShift, contract
from sizeshiftreg.kernels import Layout

GRAPHS = [item for name, item in HARD_GRAPHS.items() if name != "parallel edges"]


def by_target(edge_index):
    """Sort edges by target and then source."""
    return edge_index[:, (edge_index[1] * 10_000 + edge_index[0]).argsort()]


@given(st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=12))
def test_a_gathered_batch_equals_pygs(chosen):
    batch = GraphStore.from_graphs(GRAPHS)[torch.tensor(chosen)]
    expected = Batch.from_data_list([GRAPHS[i] for i in chosen])
    expected.edge_index = by_target(expected.edge_index)
    for name in ("x", "edge_index", "batch", "ptr", "y"):
        assert torch.equal(batch[name], expected[name]), name
    assert batch.num_graphs == len(chosen)
    layout = Layout.of(expected.edge_index, expected.num_nodes)
    assert torch.equal(layout.start, batch.layout.start)
    assert torch.equal(layout.source, batch.layout.source)
    assert torch.equal(layout.start_out, batch.layout.start_out)
    assert torch.equal(layout.target, batch.layout.target)


@given(st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=12), st.booleans())
def test_the_compiled_gather_equals_that_in_torch(chosen, symmetric):
    kept = [item for item in GRAPHS if item.is_undirected()] if symmetric else GRAPHS
    store, index = GraphStore.from_graphs(kept), torch.tensor(chosen) % len(kept)
    assert store._symmetric == symmetric
    compiled, plain = store.take(index), store._gather(index, None)
    assert torch.equal(compiled.edge_index(), plain.edge_index())
    for name in ("x", "batch", "ptr"):
        assert torch.equal(getattr(compiled, name), getattr(plain, name)), name
    for name in ("start", "source", "start_out", "target"):
        assert torch.equal(getattr(compiled.layout, name), getattr(plain.layout, name)), name


def test_joined_stores_hold_the_graphs_one_store_after_the_other():
    first, second = GraphStore.from_graphs(GRAPHS[:4]), GraphStore.from_graphs(GRAPHS[4:])
    joined, whole = GraphStore.joined([first.all, second.all]), GraphStore.from_graphs(GRAPHS)
    for name in ("x", "edge_index", "batch", "ptr", "y"):
        assert torch.equal(joined.all[name], whole.all[name]), name
    assert joined.num_nodes(torch.tensor([0, 5])) == GRAPHS[0].num_nodes + GRAPHS[5].num_nodes


def test_the_batch_given_is_not_changed():
    batch = Batch.from_data_list(GRAPHS)
    before = batch.edge_index.clone()
    GraphStore(batch)
    assert torch.equal(batch.edge_index, before)
    assert "layout" not in batch


@given(st.permutations(range(len(GRAPHS))), st.integers(1, len(GRAPHS)))
def test_the_same_index_selects_a_batch_and_its_own_views(order, count):
    """A view that belongs to another graph would be a silent error: labels of every graph are compared."""
    index = torch.tensor(order[:count])
    coarse = [Coarsen(ratios=(0.5, 0.8))(item) for item in GRAPHS]
    store, regularizer = GraphStore.from_graphs(coarse), SizeShift(0.1)
    batch = Batch.from_data_list([coarse[i] for i in index.tolist()])
    for column, view in enumerate(regularizer.views(store.all)):
        gathered, expected = GraphStore(view)[index], contract(batch, batch.partitions[:, column])
        expected.edge_index = by_target(expected.edge_index)
        for name in ("x", "edge_index", "batch", "ptr", "y"):
            torch.testing.assert_close(gathered[name], expected[name], msg=name)


def test_other_attributes_of_the_graphs_do_no_harm():
    items = [graph(3, [(0, 1)]), graph(2, [])]
    items[0].name, items[1].other = "first", torch.ones(7)
    assert GraphStore.from_graphs(items).all.num_nodes == 5


def test_unsorted_graphs_are_refused():
    batch = Batch.from_data_list(GRAPHS[:2])
    batch.batch = batch.batch.flip(0)
    with pytest.raises(InputError, match="in the order of their graphs"):
        GraphStore(batch)

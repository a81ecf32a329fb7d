"""GraphStore against PyG's own collation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch

from conftest import HARD_GRAPHS, graph
from sizeshiftreg import Coarsen, GraphStore, InputError, SizeShift, contract

GRAPHS = [item for name, item in HARD_GRAPHS.items() if name != "parallel edges"]


@given(st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=12))
def test_a_gathered_batch_equals_pygs(chosen):
    batch = GraphStore.from_graphs(GRAPHS)[torch.tensor(chosen)]
    expected = Batch.from_data_list([GRAPHS[i] for i in chosen])
    for name in ("x", "edge_index", "batch", "ptr", "y"):
        assert torch.equal(batch[name], expected[name]), name
    assert batch.num_graphs == len(chosen)


@given(st.permutations(range(len(GRAPHS))), st.integers(1, len(GRAPHS)))
def test_the_same_index_selects_a_batch_and_its_own_views(order, count):
    """A view that belongs to another graph would be a silent error: labels of every graph are compared."""
    index = torch.tensor(order[:count])
    coarse = [Coarsen(ratios=(0.5, 0.8))(item) for item in GRAPHS]
    store, regularizer = GraphStore.from_graphs(coarse), SizeShift(0.1)
    batch = Batch.from_data_list([coarse[i] for i in index.tolist()])
    for column, view in enumerate(regularizer.views(store.all)):
        gathered, expected = GraphStore(view)[index], contract(batch, batch.partitions[:, column])
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

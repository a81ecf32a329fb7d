"""contract() against the dense QᵀAQ."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from conftest import HARD_GRAPHS, graph, undirected
from sizeshiftreg import InputError, contract


@st.composite
def batches(draw):
    """Return a batch of random graphs and a random partition of each, with gaps in the labels."""
    graphs, partitions = [], []
    for _ in range(draw(st.integers(1, 4))):
        num_nodes = draw(st.integers(1, 8))
        node = st.integers(0, num_nodes - 1)
        graphs.append(
            graph(num_nodes, draw(st.lists(st.tuples(node, node), max_size=15)), seed=draw(st.integers(0, 99)))
        )
        partitions.append(torch.tensor(draw(st.lists(st.integers(0, 9), min_size=num_nodes, max_size=num_nodes))))
    return graphs, partitions


def dense(item: Data, labels: torch.Tensor, reduce: str) -> tuple[np.ndarray, np.ndarray]:
    """Return QᵀAQ (A counts parallel edges) and the reduced features, in plain numpy."""
    clusters = sorted(set(labels.tolist()))
    q = np.array([[label == cluster for cluster in clusters] for label in labels.tolist()], dtype=float)
    adjacency = np.zeros((item.num_nodes, item.num_nodes))
    for a, b in item.edge_index.t().tolist():
        adjacency[a, b] += 1
    reducers = {"mean": np.mean, "sum": np.sum, "max": np.max}
    x = np.stack([reducers[reduce](item.x.double().numpy()[q[:, c] > 0], axis=0) for c in range(len(clusters))])
    return q.T @ adjacency @ q, x


@settings(max_examples=1000)
@given(batches(), st.sampled_from(["mean", "sum", "max"]))
def test_equals_the_dense_product(batch_and_partitions, reduce):
    graphs, partitions = batch_and_partitions
    coarse = contract(Batch.from_data_list(graphs), torch.cat(partitions), reduce=reduce, edge_weight=True)
    expected = [dense(item, labels, reduce) for item, labels in zip(graphs, partitions, strict=True)]

    sizes = [len(x) for _, x in expected]
    assert coarse.num_graphs == len(graphs)
    assert coarse.batch.tolist() == [number for number, size in enumerate(sizes) for _ in range(size)]
    assert coarse.ptr.tolist() == np.cumsum([0, *sizes]).tolist()
    np.testing.assert_allclose(coarse.x, np.concatenate([x for _, x in expected]), rtol=1e-6)
    found = np.zeros((sum(sizes), sum(sizes)))
    for (a, b), weight in zip(coarse.edge_index.t().tolist(), coarse.edge_weight.tolist(), strict=True):
        assert found[a, b] == 0, "an edge stands twice"
        found[a, b] = weight
    block = np.zeros_like(found)
    for start, (weights, _) in zip(coarse.ptr.tolist(), expected, strict=False):
        block[start : start + len(weights), start : start + len(weights)] = weights
    np.testing.assert_array_equal(found, block)


def test_a_small_graph_by_hand():
    square = graph(4, undirected([(0, 1), (1, 2), (2, 3), (3, 0)]))
    square.x = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    coarse = contract(square, torch.tensor([1, 1, 0, 0]))
    assert coarse.x.tolist() == [[5.0], [1.0]]  # in the order of the labels
    assert coarse.edge_index.tolist() == [[0, 0, 1, 1], [0, 1, 0, 1]]  # both clusters have an inner edge
    assert coarse.y.tolist() == [0]


@pytest.mark.parametrize("name", HARD_GRAPHS)
def test_hard_graphs(name):
    item = HARD_GRAPHS[name]
    apart = contract(item, torch.arange(item.num_nodes))
    assert torch.equal(apart.x, item.x)
    assert set(map(tuple, apart.edge_index.t().tolist())) == set(map(tuple, item.edge_index.t().tolist()))
    together = contract(item, torch.zeros(item.num_nodes, dtype=torch.long))
    assert together.num_nodes == 1


def test_an_unsorted_batch_vector_changes_nothing_but_the_order():
    graphs = [graph(4, undirected([(0, 1), (2, 3)]), seed=1), graph(3, undirected([(0, 1), (1, 2)]), seed=2)]
    labels = torch.tensor([0, 0, 1, 2, 0, 1, 1])
    batch = Batch.from_data_list(graphs)
    order = torch.tensor([5, 0, 4, 2, 6, 1, 3])  # new position -> old node
    place = order.argsort()
    shuffled = Batch(x=batch.x[order], edge_index=place[batch.edge_index], batch=batch.batch[order], ptr=batch.ptr)
    expected, found = contract(batch, labels), contract(shuffled, labels[order])
    torch.testing.assert_close(found.x, expected.x)
    assert torch.equal(found.edge_index, expected.edge_index)
    assert torch.equal(found.batch, expected.batch)


def test_the_other_graphs_of_the_batch_do_not_matter():
    item, other = graph(5, undirected([(0, 1), (1, 2), (3, 4)]), seed=1), graph(7, undirected([(0, 6)]), seed=2)
    labels = torch.tensor([0, 0, 1, 2, 2])
    alone = contract(Batch.from_data_list([item]), labels)
    batch = contract(Batch.from_data_list([other, item]), torch.cat([torch.zeros(7, dtype=torch.long), labels]))
    assert torch.equal(batch.x[1:], alone.x)
    assert torch.equal(batch.edge_index[:, 1:] - 1, alone.edge_index)


def test_edge_attributes_are_averaged_over_merged_edges():
    item = graph(3, [(0, 2), (1, 2), (2, 0)])
    item.edge_attr = torch.tensor([[1.0], [3.0], [8.0]])
    coarse = contract(item, torch.tensor([0, 0, 1]))
    assert coarse.edge_index.tolist() == [[0, 1], [1, 0]]
    assert coarse.edge_attr.tolist() == [[2.0], [8.0]]


def test_edge_weights_are_summed():
    item = graph(3, [(0, 2), (1, 2), (2, 0)])
    item.edge_weight = torch.tensor([5.0, 7.0, 1.0])
    assert contract(item, torch.tensor([0, 0, 1]), edge_weight=True).edge_weight.tolist() == [12.0, 1.0]


def test_features_keep_their_gradient():
    item = graph(4, undirected([(0, 1)]))
    item.x.requires_grad_()
    contract(item, torch.tensor([0, 0, 1, 1])).x.sum().backward()
    assert torch.equal(item.x.grad, torch.full_like(item.x, 0.5))


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (torch.tensor([0, 0, 1]), "belongs to another graph"),
        (torch.tensor([0.0, 0.0, 1.0, 1.0]), "integer label"),
        (torch.tensor([0, 0, 1, -1]), "labels from 0 on; got -1"),
    ],
)
def test_a_partition_that_does_not_fit_is_refused(partition, message):
    with pytest.raises(InputError, match=message):
        contract(graph(4, []), partition)


def test_graphs_without_features_are_contracted_too():
    path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=5)
    coarse = contract(Batch.from_data_list([path, path]), torch.tensor([0, 0, 1, 1, 2] * 2), edge_weight=True)
    assert (coarse.x, coarse.num_nodes, coarse.batch.tolist()) == (None, 6, [0, 0, 0, 1, 1, 1])
    assert coarse.edge_index.tolist() == [[0, 0, 1, 3, 3, 4], [0, 1, 1, 3, 4, 4]]
    assert contract(path, torch.zeros(5, dtype=torch.long)).num_nodes == 1


def test_unknown_reductions_are_refused():
    with pytest.raises(InputError, match="expected one of mean, sum, max; got 'median'"):
        contract(graph(2, []), torch.tensor([0, 1]), reduce="median")

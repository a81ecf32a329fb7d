"""Encoders: against the definitions of their layers, on hard graphs, and PNA's two average degrees."""

import math

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import DegreeScalerAggregation

from conftest import HARD_GRAPHS, graph, undirected
from sizeshiftreg import GCN, GIN, PNA, InputError, size_split
from sizeshiftreg.encoders import degree_histogram

ENCODERS = {
    "gin": lambda: GIN(2, hidden_dim=4),
    "gcn": lambda: GCN(2, hidden_dim=4),
    "pna": lambda: PNA(2, hidden_dim=4, degrees=torch.tensor([1, 3, 2])),
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("hard", HARD_GRAPHS)
def test_hard_graphs_give_finite_embeddings(name, hard):
    item = HARD_GRAPHS[hard]
    embeddings = ENCODERS[name]().eval()(item.x, item.edge_index)
    assert embeddings.shape == (item.num_nodes, 4)
    assert torch.isfinite(embeddings).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_the_other_graphs_of_the_batch_do_not_matter_at_test_time(name):
    encoder, item = ENCODERS[name]().eval(), HARD_GRAPHS["star"]
    batch = Batch.from_data_list([HARD_GRAPHS["complete"], item])
    alone, together = encoder(item.x, item.edge_index), encoder(batch.x, batch.edge_index)
    torch.testing.assert_close(together[6:], alone)


def test_gin_layer_by_layer():
    """Embeddings = ReLU(BN(MLP((1 + eps) x + sum of neighbours))), with batch norm in the MLP and after it."""
    item = graph(4, undirected([(0, 1), (1, 2), (1, 3)]))
    item.x = item.x.double()
    encoder = GIN(2, hidden_dim=4, num_layers=2).double()
    x, adjacency = item.x, torch.zeros(4, 4, dtype=torch.double)
    adjacency[item.edge_index[1], item.edge_index[0]] = 1
    for convolution, norm in zip(encoder.convolutions, encoder.norms, strict=True):
        first, _, _, last = convolution.nn
        hidden = first((1 + convolution.eps) * x + adjacency @ x)
        hidden = torch.relu((hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + 1e-5).sqrt())
        out = last(hidden)
        x = torch.relu((out - out.mean(0)) / (out.var(0, unbiased=False) + norm.eps).sqrt())
        assert convolution.eps.requires_grad
    torch.testing.assert_close(encoder(item.x, item.edge_index), x)


def test_gcn_first_layer():
    """Without the norm, a layer is D^-1/2 (A + I) D^-1/2 X W + b with D the degrees of A + I."""
    item = graph(3, undirected([(0, 1), (1, 2)]))
    convolution = GCN(2, hidden_dim=4).convolutions[0]
    adjacency = torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])
    scale = adjacency.sum(1).rsqrt()
    expected = scale[:, None] * adjacency * scale @ item.x @ convolution.lin.weight.t() + convolution.bias
    torch.testing.assert_close(convolution(item.x, item.edge_index), expected)


def average_log_degrees(encoder):
    return [float(m.avg_deg_log) for m in encoder.modules() if isinstance(m, DegreeScalerAggregation)]


def test_pna_averages_log_degrees_over_nodes_or_over_bins():
    degrees = torch.tensor([1, 3, 2])  # one node of degree 0, three of 1, two of 2
    nodes = (3 * math.log(2) + 2 * math.log(3)) / 6
    bins = (math.log(2) + math.log(4) + math.log(3)) / 3
    assert average_log_degrees(PNA(2, hidden_dim=4, degrees=degrees)) == pytest.approx([nodes] * 3)
    found = average_log_degrees(PNA(2, hidden_dim=4, degrees=degrees, average="bins"))
    assert found == pytest.approx([bins] * 3)
    with pytest.raises(InputError, match="expected one of nodes, bins"):
        PNA(2, hidden_dim=4, degrees=degrees, average="edges")


@pytest.mark.data
@pytest.mark.parametrize(("name", "nodes", "bins"), [("PROTEINS", 1.53, 4.51), ("NCI1", 1.12, 7.96)])
def test_pna_averages_are_those_found_in_the_published_code(name, nodes, bins, paper_dataset):
    dataset = paper_dataset(name)
    train = Batch.from_data_list([dataset[i] for i in size_split(dataset).train.tolist()])
    degrees = degree_histogram(train.edge_index, train.num_nodes)
    for average, expected in (("nodes", nodes), ("bins", bins)):
        encoder = PNA(2, hidden_dim=4, degrees=degrees, average=average)
        # The published validation indices are not known, so the training graphs differ a little.
        assert average_log_degrees(encoder) == pytest.approx([expected] * 3, abs=0.05)

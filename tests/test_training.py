"""fit() and predict(): weight 0 to the bit, the best epoch, class weights, and what they refuse."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data

from conftest import graph, undirected
from sizeshiftreg import (
    GCN,
    GIN,
    PNA,
    Coarsen,
    GraphClassifier,
    GraphStore,
    InputError,
    SizeShift,
    fit,
    kernels,
    load_dataset,
    predict,
)
from sizeshiftreg.training import DivergedError, _batches, _FlatAdam, _OneByOne, _Together, evaluate

GRAPHS = [Coarsen()(item) for item in load_dataset("toy_density")[:60]]


def model(seed=0, num_classes=2):
    torch.manual_seed(seed)
    return GraphClassifier(GIN(1, hidden_dim=8), embedding_dim=8, num_classes=num_classes)


def trained(*, epochs=4, seed=0, **options):
    classifier = model()
    torch.manual_seed(seed)
    result = fit(classifier, GRAPHS[:40], GRAPHS[40:], epochs=epochs, batch_size=16, lr=0.01, seed=seed, **options)
    return classifier, result


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.values(), second.values(), strict=True))


def test_weight_0_changes_nothing_to_the_bit():
    plain, plain_result = trained()
    zero, zero_result = trained(regularizer=SizeShift(0))
    assert same(plain.state_dict(), zero.state_dict())
    assert same(plain_result.last_state, zero_result.last_state)
    other, _ = trained(regularizer=SizeShift(0.1))
    assert not same(plain.state_dict(), other.state_dict())


def test_equal_seeds_give_equal_weights():
    assert same(trained()[1].last_state, trained()[1].last_state)
    assert not same(trained()[1].last_state, trained(seed=1)[1].last_state)


def test_equals_a_loop_a_pyg_user_would_write():
    """Two epochs of batches, losses and Adam steps, in float64; a step of Adam is 0.01, the tolerance 1e-5."""
    graphs = [Coarsen()(item) for item in load_dataset("toy_friends")[:60]]
    for item in graphs:
        item.x = item.x.double()
    torch.manual_seed(0)
    classifier = GraphClassifier(GIN(2, hidden_dim=8), embedding_dim=8, num_classes=2).double()
    twin = copy.deepcopy(classifier)
    torch.manual_seed(3)
    result = fit(
        classifier, graphs[:40], graphs[40:], regularizer=SizeShift(0.1), epochs=2, batch_size=16, lr=0.01, seed=5
    )

    torch.manual_seed(3)
    labels = torch.cat([item.y for item in graphs[:40]])
    weight = (len(labels) / torch.bincount(labels)).double()
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    twin.train()
    order = torch.Generator().manual_seed(5)
    for index in (index for _ in range(2) for index in torch.randperm(40, generator=order).split(16)):
        batch = Batch.from_data_list([graphs[i] for i in index.tolist()])
        embeddings = twin.encoder(batch.x, batch.edge_index)
        loss = F.cross_entropy(twin.classify(embeddings, batch), batch.y, weight=weight)
        loss = loss + SizeShift(0.1)(twin.encoder, batch, embeddings)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for (name, found), expected in zip(result.last_state.items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, msg=name)


def test_the_weights_are_those_of_the_first_best_epoch():
    """Training shorter runs shows every epoch's score; the first maximum must be the one that was kept."""
    scores = [evaluate_last(epochs) for epochs in range(1, 7)]
    classifier, result = trained(epochs=6)
    assert result.best_epoch == scores.index(max(scores)) + 1
    assert result.best_val_mcc == max(scores) == evaluate(classifier, GRAPHS[40:])
    shorter, _ = trained(epochs=result.best_epoch)
    assert same(classifier.state_dict(), shorter.state_dict())


def evaluate_last(epochs):
    classifier, result = trained(epochs=epochs)
    classifier.load_state_dict(result.last_state)
    return evaluate(classifier, GRAPHS[40:])


def test_predict_in_batches_equals_predict_at_once_and_leaves_the_mode():
    classifier = model().train()
    whole = predict(classifier, GRAPHS)
    assert classifier.training
    torch.testing.assert_close(predict(classifier, GraphStore.from_graphs(GRAPHS), batch_size=7), whole)
    assert whole.shape == (60, 2)


def test_validation_and_test_see_no_view(monkeypatch):
    classifier, seen = model(), []
    classifier.encoder.takes_segments = False  # one view after the other
    classifier.encoder.register_forward_hook(lambda module, inputs, output: seen.append((module.training, len(output))))
    fit(classifier, GRAPHS[:40], GRAPHS[40:], regularizer=SizeShift(0.1), epochs=2, batch_size=40)
    predict(classifier, GRAPHS)
    nodes = [sum(item.num_nodes for item in part) for part in (GRAPHS[:40], GRAPHS[40:], GRAPHS)]
    training = [rows for mode, rows in seen if mode]
    assert training[0] == training[3] == nodes[0], "the original comes before its views"
    assert len(training) == 2 * 3 and all(rows < nodes[0] for rows in training[1:3] + training[4:])
    assert [rows for mode, rows in seen if not mode] == [nodes[1], nodes[1], nodes[2]]


@pytest.mark.parametrize("batch_norm", ["all", "original"])
@pytest.mark.parametrize("views", [{}, {"views": "sampled"}, {"views": "sampled", "share": 0.4}])
@pytest.mark.parametrize("name", ["gin", "gcn", "pna"])
def test_views_that_pass_together_give_what_they_give_one_after_the_other(name, views, batch_norm):
    """Weights and batch-norm statistics after two epochs, in float64, from the same draws."""
    graphs = [Coarsen()(item) for item in load_dataset("toy_friends")[:60]]
    for item in graphs:
        item.x = item.x.double()
    states = []
    for together in (True, False):
        torch.manual_seed(0)
        encoder = {
            "gin": lambda: GIN(2, hidden_dim=8),
            "gcn": lambda: GCN(2, hidden_dim=8),
            "pna": lambda: PNA(2, hidden_dim=8, degrees=torch.tensor([0, 5, 20, 9])),
        }[name]()
        classifier = GraphClassifier(encoder, embedding_dim=8, num_classes=2).double()
        encoder.takes_segments = together
        encoder.optional_inputs = ("layout",) if together else ()
        shift = SizeShift(0.1, batch_norm=batch_norm, **views)
        fit(classifier, graphs[:40], graphs[40:], regularizer=shift, epochs=2, batch_size=16, lr=0.001)
        states.append(classifier.state_dict())
    for key, value in states[0].items():
        torch.testing.assert_close(value, states[1][key], rtol=1e-5, atol=1e-5, msg=key)


def test_predict_needs_no_labels_and_takes_any_float():
    unlabelled = [Data(x=item.x.double(), edge_index=item.edge_index) for item in GRAPHS]
    classifier = model()
    assert torch.equal(predict(classifier, unlabelled), predict(classifier, GRAPHS))
    with pytest.raises(InputError, match="expected a class"):
        evaluate(classifier, unlabelled)


@pytest.mark.parametrize(("count", "sizes"), [(40, [16, 16, 8]), (33, [16, 17]), (1, [1]), (16, [16])])
def test_a_left_over_graph_joins_the_batch_before(count, sizes):
    batches = list(_batches(torch.arange(count), 16))
    assert [len(batch) for batch in batches] == sizes
    assert torch.cat(batches).tolist() == list(range(count))


def test_graphs_of_one_node_can_be_trained_on():
    items = [graph(1, [], y=i % 2, seed=i) for i in range(17)]
    torch.manual_seed(0)
    classifier = GraphClassifier(GIN(2, hidden_dim=4), embedding_dim=4, num_classes=2)
    assert fit(classifier, [Coarsen()(item) for item in items], items, regularizer=SizeShift(), epochs=2, batch_size=16)


def test_a_loss_that_is_not_finite_ends_the_training():
    classifier = model()
    with torch.no_grad():
        classifier.head[0].weight.fill_(float("inf"))
    with pytest.raises(DivergedError, match="epoch 1; lower the learning rate"):
        fit(classifier, GRAPHS[:40], GRAPHS[40:], epochs=3)


def test_bad_input_is_refused():
    one_class = [graph(3, undirected([(0, 1)]), width=1, y=0) for _ in range(4)]
    with pytest.raises(InputError, match=r"every class 0 to 1; got \[4, 0\]"):
        fit(model(), one_class, one_class)
    with pytest.raises(InputError, match="every class 0 to 1"):
        fit(model(), [graph(3, [], width=1, y=label) for label in (0, 1, 2)], one_class)
    with pytest.raises(InputError, match="validation graphs of the classes 0 to 1; got 2"):
        fit(model(), GRAPHS, [graph(3, [], width=1, y=2)])
    with pytest.raises(InputError, match="epochs=0"):
        fit(model(), GRAPHS[:40], GRAPHS[40:], epochs=0)
    with pytest.raises(InputError, match="empty"):
        fit(model(), [], GRAPHS)
    plain = list(load_dataset("toy_density")[:40])
    with pytest.raises(InputError, match="partitions"):
        fit(model(), plain, plain, regularizer=SizeShift(), epochs=1)


class Recorder(TorchDispatchMode):
    """Counts operations, and those that bring a value from the device to Python."""

    def __init__(self):
        super().__init__()
        self.operations, self.left = 0, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operations += 1
        if "_local_scalar_dense" in str(function) or "nonzero" in str(function):
            self.left.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("options", [{}, {"views": "sampled", "share": 0.5}])
@pytest.mark.parametrize("name", ["gin", "gcn", "pna"])
def test_a_step_does_not_leave_the_device_or_loop_over_graphs(name, options, together, compiled, monkeypatch):
    """The number of operations is the same for 8 and 32 graphs, and no value is asked for.

    What is known on the host (the sizes of the graphs) may be; those are tensors that never are on a device.
    """
    if not compiled:
        monkeypatch.setattr(kernels, "_compiled", lambda x: False)
    torch.manual_seed(0)
    encoder = {
        "gin": lambda: GIN(1, hidden_dim=8),
        "gcn": lambda: GCN(1, hidden_dim=8),
        "pna": lambda: PNA(1, hidden_dim=8, degrees=torch.tensor([0, 5, 20, 9])),
    }[name]()
    classifier = GraphClassifier(encoder, embedding_dim=8, num_classes=2)
    encoder.takes_segments = together
    store, shift = GraphStore.from_graphs(GRAPHS[:40]), SizeShift(0.1, **options)
    feed = (_Together if together else _OneByOne)(classifier, store, shift)
    optimizer, counts = _FlatAdam(classifier, 0.01), []

    def step(index):
        logits, y, penalty = feed(index)
        (F.cross_entropy(logits, y) + penalty).backward()
        optimizer.step()

    step(torch.arange(8))
    for size in (8, 32):
        with Recorder() as recorder:
            step(torch.arange(size))
        counts.append(recorder.operations)
        assert len(recorder.left) <= HOST_QUESTIONS, recorder.left
    assert counts[0] == counts[1]


# A step asks the host-side counts for its sizes: of nodes and edges, for the batch and for every view.
HOST_QUESTIONS = 12

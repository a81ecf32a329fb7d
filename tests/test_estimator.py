"""SizeShiftClassifier: what it learns, what it keeps, and what it refuses."""

import pytest
import torch
from sklearn.metrics import matthews_corrcoef
from torch_geometric.data import Data

from sizeshiftreg import InputError, SizeShiftClassifier, load_dataset

GRAPHS = list(load_dataset("toy_density")[:80])
QUICK = {"epochs": 3, "hidden_dim": 8, "batch_size": 16, "lr": 0.01}


@pytest.fixture(scope="module")
def trained():
    return SizeShiftClassifier(**QUICK).fit(GRAPHS)


def test_predictions_and_scores_agree(trained):
    probabilities = trained.predict_proba(GRAPHS)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(80))
    predicted = trained.predict(GRAPHS)
    assert torch.equal(predicted, trained.classes_[probabilities.argmax(1)])
    labels = torch.cat([graph.y for graph in GRAPHS])
    assert trained.score(GRAPHS) == pytest.approx(matthews_corrcoef(labels, predicted))
    assert trained.score(GRAPHS) > 0.5


def test_classes_are_those_given(trained):
    """Any integers, from the graphs or beside them; the same training gives the same predictions."""
    labels = torch.cat([graph.y for graph in GRAPHS])
    other = SizeShiftClassifier(**QUICK).fit(GRAPHS, labels * 10 - 5)
    assert other.classes_.tolist() == [-5, 5]
    assert torch.equal(other.predict(GRAPHS), trained.predict(GRAPHS) * 10 - 5)
    assert other.score(GRAPHS, labels * 10 - 5) == trained.score(GRAPHS)


def test_a_second_fit_begins_anew(trained):
    state = {name: value.clone() for name, value in trained._classifier.state_dict().items()}
    trained.fit(GRAPHS)
    assert all(torch.equal(value, state[name]) for name, value in trained._classifier.state_dict().items())


def test_the_weight_of_the_regulariser_matters(trained):
    plain = SizeShiftClassifier(weight=0, **QUICK).fit(GRAPHS)
    assert not torch.equal(plain.predict_proba(GRAPHS), trained.predict_proba(GRAPHS))


def test_fitting_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    SizeShiftClassifier(**QUICK).fit(GRAPHS)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("model", ["gin", "gcn", "pna"])
def test_a_saved_classifier_predicts_the_same(model, tmp_path):
    classifier = SizeShiftClassifier(model, readout="mean", num_layers=2, **QUICK).fit(GRAPHS, [7, 9] * 40)
    classifier.save(tmp_path / "it.pt")
    loaded = SizeShiftClassifier.load(tmp_path / "it.pt")
    assert torch.equal(loaded.predict_proba(GRAPHS), classifier.predict_proba(GRAPHS))
    assert torch.equal(loaded.predict(GRAPHS), classifier.predict(GRAPHS))


class Evil:
    def __reduce__(self):
        return (eval, ("1/0",))


@pytest.mark.parametrize("content", ["text", Evil(), {"format": "another"}, {"state": 1}, torch.ones(3), [1]])
def test_a_file_that_is_not_ours_is_refused(content, tmp_path):
    file = tmp_path / "it.pt"
    if content == "text":
        file.write_text("Dear Sir or Madam")
    else:
        torch.save(content, file)
    with pytest.raises(InputError, match="expected a file"):
        SizeShiftClassifier.load(file)


def test_mistakes_are_told(trained, tmp_path):
    with pytest.raises(InputError, match="is not there"):
        SizeShiftClassifier.load(tmp_path / "nothing.pt")
    with pytest.raises(InputError, match=r"call fit\(\) first"):
        SizeShiftClassifier().predict(GRAPHS)
    with pytest.raises(InputError, match="expected one of gin, gcn, pna; got 'gat'"):
        SizeShiftClassifier("gat")
    with pytest.raises(InputError, match="finite weight"):
        SizeShiftClassifier(weight=-1)
    with pytest.raises(InputError, match="80 classes, one integer per graph"):
        SizeShiftClassifier(**QUICK).fit(GRAPHS, [0, 1])
    with pytest.raises(InputError, match=r"graph 0: expected one class `y`"):
        SizeShiftClassifier(**QUICK).fit([Data(x=item.x, edge_index=item.edge_index) for item in GRAPHS])
    with pytest.raises(InputError, match="no graph is left to train on"):
        SizeShiftClassifier(**QUICK).fit([])
    wide = [Data(x=torch.ones(3, 4), edge_index=torch.tensor([[0], [1]]))]
    with pytest.raises(InputError, match="node features of width 1, as in training; got 4"):
        trained.predict(wide)

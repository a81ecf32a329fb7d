"""Matthews correlation against scikit-learn."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, matthews_corrcoef

from sizeshiftreg.metrics import confusion, mcc


@given(st.integers(2, 4), st.integers(1, 30), st.integers(0, 1000))
def test_equals_scikit_learn(num_classes, size, seed):
    generator = torch.Generator().manual_seed(seed)
    target, prediction = torch.randint(num_classes, (2, size), generator=generator)
    table = confusion(prediction, target, num_classes)
    assert table.tolist() == confusion_matrix(target, prediction, labels=range(num_classes)).tolist()
    assert mcc(table) == pytest.approx(matthews_corrcoef(target, prediction), abs=1e-12)


@pytest.mark.parametrize("table", [[[90, 0], [10, 0]], [[0, 0], [3, 7]], [[0, 0], [0, 5]]])
def test_a_constant_predictor_or_target_scores_zero(table):
    assert mcc(torch.tensor(table)) == 0.0

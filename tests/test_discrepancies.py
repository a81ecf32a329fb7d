"""Discrepancies against computations from their formulas: plain Python, numpy, scikit-learn, SciPy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from sklearn.metrics.pairwise import rbf_kernel
from torch_geometric.data import Batch

from conftest import graph
from sizeshiftreg import Coarsen, InputError, SizeShift, cmd, coral, mmd, sliced_wasserstein
from sizeshiftreg.discrepancies import DISCREPANCIES, _directions


def plain_cmd(x, y, moments, factor=1.0, activation=lambda value: value):
    """The formula for one graph, on lists of lists."""
    x = [[activation(value) for value in row] for row in x]
    y = [[activation(value) for value in row] for row in y]
    dim = len(x[0])

    def mean(rows, column):
        return sum(row[column] for row in rows) / len(rows)

    def central(rows, column, order):
        centre = mean(rows, column)
        return sum((row[column] - centre) ** order for row in rows) / len(rows)

    total = factor * math.sqrt(sum((mean(x, c) - mean(y, c)) ** 2 for c in range(dim)))
    for k in range(2, moments + 1):
        total += factor**k * math.sqrt(sum((central(x, c, k) - central(y, c, k)) ** 2 for c in range(dim)))
    return total


def ragged(seed, sizes, dim=3):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(size, dim, dtype=torch.float64, generator=generator) for size in sizes]
    return torch.cat(rows), torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)), rows


@pytest.mark.parametrize(
    ("bound", "factor", "activation"),
    [(None, 1.0, lambda v: v), ("tanh", 0.5, math.tanh), ("sigmoid", 1.0, lambda v: 1 / (1 + math.exp(-v)))],
)
@given(
    seed=st.integers(0, 1000),
    x_sizes=st.lists(st.integers(1, 7), min_size=3, max_size=3),
    y_sizes=st.lists(st.integers(1, 7), min_size=3, max_size=3),
    moments=st.integers(1, 6),
)
def test_equals_the_formula(bound, factor, activation, seed, x_sizes, y_sizes, moments):
    x, x_batch, x_rows = ragged(seed, x_sizes)
    y, y_batch, y_rows = ragged(seed + 1, y_sizes)
    found = cmd(x, y, x_batch, y_batch, 3, moments=moments, bound=bound)
    expected = [
        plain_cmd(a.tolist(), b.tolist(), moments, factor, activation) for a, b in zip(x_rows, y_rows, strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def test_gradient():
    x, x_batch, _ = ragged(0, [3, 4])
    y, y_batch, _ = ragged(1, [2, 5])
    torch.autograd.gradcheck(lambda a, b: cmd(a, b, x_batch, y_batch, 2), (x.requires_grad_(), y.requires_grad_()))


def test_of_a_set_with_itself_is_zero_with_a_finite_gradient():
    x, batch, _ = ragged(0, [3, 1, 4])
    x.requires_grad_()
    for other in (x, x.detach().clone()):
        x.grad = None
        value = cmd(x, other, batch, batch, 3)
        assert value.tolist() == [0, 0, 0]
        value.sum().backward()
        assert torch.isfinite(x.grad).all()


def test_node_order_and_an_unsorted_batch_vector_do_not_matter():
    x, x_batch, _ = ragged(0, [3, 5])
    y, y_batch, _ = ragged(1, [4, 2])
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(cmd(x[order], y, x_batch[order], y_batch, 2), cmd(x, y, x_batch, y_batch, 2))


def test_the_other_graphs_of_the_batch_do_not_matter():
    x, x_batch, x_rows = ragged(0, [3, 5])
    y, y_batch, y_rows = ragged(1, [4, 2])
    zeros = torch.zeros(5, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    torch.testing.assert_close(cmd(x, y, x_batch, y_batch, 2)[1:], cmd(x_rows[1], y_rows[1], *zeros, 1))


def test_the_default_has_neither_bound_nor_factor():
    """As in the published code: large embeddings give large terms."""
    x, y = torch.tensor([[0.0], [20.0]]), torch.tensor([[10.0]])
    batch = torch.tensor([0, 0]), torch.tensor([0])
    assert cmd(x, y, *batch, 1).item() == 10**2 + 10**4  # variances differ by 100, fourth moments by 10,000
    assert cmd(x, y, *batch, 1, bound="tanh").item() < 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_embeddings_are_compared_in_float32(dtype):
    x, y = (torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows)).to(dtype) for rows in (1000, 800))
    batch = torch.zeros(1000, dtype=torch.long), torch.zeros(800, dtype=torch.long)
    assert torch.equal(cmd(x, y, *batch, 1), cmd(x.float(), y.float(), *batch, 1))


def test_bad_options_are_refused():
    x, batch, _ = ragged(0, [2])
    with pytest.raises(InputError, match="at least one moment"):
        cmd(x, x, batch, batch, 1, moments=0)
    with pytest.raises(InputError, match="bound: expected one of tanh, sigmoid; got 'relu'"):
        cmd(x, x, batch, batch, 1, bound="relu")


def plain_coral(x, y):
    """From numpy's covariances."""
    covariances = [np.cov(rows, rowvar=False).reshape(rows.shape[1], -1) if len(rows) > 1 else 0.0 for rows in (x, y)]
    return np.sum(np.square(covariances[0] - covariances[1])) / (4 * x.shape[1] ** 2)


def plain_mmd(x, y):
    """Double loops over scikit-learn's Gaussian kernel."""
    both = np.concatenate([x, y])
    scale = np.mean([np.sum((a - b) ** 2) for a in both for b in both])
    total = 0.0
    for bandwidth in (0.25, 0.5, 1.0, 2.0, 4.0):
        kernels = [rbf_kernel(a, b, gamma=1 / (bandwidth * scale)).mean() for a, b in ((x, x), (y, y), (x, y))]
        total += (kernels[0] + kernels[1] - 2 * kernels[2]) / 5
    return total


def plain_sliced_wasserstein(x, y):
    """SciPy's one-dimensional distance, direction by direction."""
    towards = _directions(x.shape[1], 32, 0, torch.float64, torch.device("cpu")).numpy()
    assert np.allclose(np.linalg.norm(towards, axis=0), 1)
    return np.mean([wasserstein_distance(x @ direction, y @ direction) for direction in towards.T])


OTHERS = {
    "coral": (coral, plain_coral),
    "mmd": (mmd, plain_mmd),
    "sliced_wasserstein": (sliced_wasserstein, plain_sliced_wasserstein),
}


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    x_sizes=st.lists(st.integers(1, 7), min_size=3, max_size=3),
    y_sizes=st.lists(st.integers(1, 7), min_size=3, max_size=3),
)
def test_others_equal_their_plain_computation(name, seed, x_sizes, y_sizes):
    found, plain = OTHERS[name]
    x, x_batch, x_rows = ragged(seed, x_sizes)
    y, y_batch, y_rows = ragged(seed + 1, y_sizes)
    expected = [plain(a.numpy(), b.numpy()) for a, b in zip(x_rows, y_rows, strict=True)]
    np.testing.assert_allclose(found(x, y, x_batch, y_batch, 3), expected, rtol=1e-8, atol=1e-10)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    np.testing.assert_allclose(found(x[order], y, x_batch[order], y_batch, 3), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found(x, x, x_batch, x_batch, 3), 0, atol=1e-10)


@pytest.mark.parametrize("name", ["coral", "mmd", "sliced_wasserstein"])
def test_gradients_of_the_others(name):
    """The scale of MMD's kernels is a constant by definition, so for MMD a step downhill stands for gradcheck."""
    x, x_batch, _ = ragged(0, [3, 4])
    y, y_batch, _ = ragged(1, [2, 5])
    x.requires_grad_()
    value = OTHERS[name][0](x, y, x_batch, y_batch, 2)
    value.sum().backward()
    assert torch.isfinite(x.grad).all()
    if name == "mmd":
        step = -1e-3 * x.grad  # downhill, up to what the scale changes
        assert OTHERS[name][0](x.detach() + step, y, x_batch, y_batch, 2).sum() < value.sum()
    else:
        torch.autograd.gradcheck(lambda a: OTHERS[name][0](a, y, x_batch, y_batch, 2), (x.detach().requires_grad_(),))


@pytest.mark.parametrize("name", DISCREPANCIES)
def test_every_discrepancy_serves_the_regulariser(name):
    items = [Coarsen(ratios=(0.5, 0.8))(graph(6 + i, [(j, j + 1) for j in range(5 + i)], seed=i)) for i in range(3)]
    encoder = torch.nn.Linear(2, 4)
    penalty = SizeShift(1.0, discrepancy=name)(lambda x, edge_index: encoder(x), Batch.from_data_list(items))
    penalty.backward()
    assert penalty > 0
    assert encoder.weight.grad.abs().sum() > 0

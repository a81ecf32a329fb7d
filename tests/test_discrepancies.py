"""cmd() against a computation from the formula in plain Python."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sizeshiftreg import InputError, cmd


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

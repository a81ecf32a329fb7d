"""The size split against the paper's table, and what makes it impossible."""

import pytest
import torch

from conftest import graph
from sizeshiftreg import InputError, size_split
from sizeshiftreg.datasets import TU_DATASETS

# Table of statistics in the paper's appendix (class A share of all graphs, of the smallest 50%, of the largest 10%;
# mean sizes); the shares are cut, not rounded, to two decimals. Deezer has no such line; its counts are our own.
PAPER = {
    "NCI1": ((0.4995, 0.6230, 0.1917), (2157, 412), (20, 61)),
    "NCI109": ((0.4962, 0.6204, 0.2137), (2079, 421), (20, 61)),
    "PROTEINS": ((0.5956, 0.4197, 0.9017), (567, 112), (15, 138)),
    "DD": ((0.5865, 0.3547, 0.7966), (592, 118), (144, 746)),
    "deezer_ego_nets": (None, (4894, 968), None),
}


def line(sizes, **options):
    return size_split([graph(n, [], y=n % 2) for n in sizes], **options)


@pytest.mark.data
@pytest.mark.parametrize("name", PAPER)
def test_counts_are_those_of_the_paper(name, paper_dataset):
    shares, counts, sizes = PAPER[name]
    split = size_split(paper_dataset(name))
    assert (len(split.pool), len(split.test)) == counts == (TU_DATASETS[name].pool, TU_DATASETS[name].test)
    assert len(split.val) == int(0.1 * counts[0])
    if shares is not None:
        for index, share in zip((slice(None), split.pool, split.test), shares, strict=True):
            assert float((split.classes[index] == 0).double().mean()) == pytest.approx(share, abs=1e-4)
        found = [float(split.sizes[index].double().mean()) for index in (split.pool, split.test)]
        assert found == pytest.approx(sizes, abs=1)


def test_parts_do_not_overlap_and_are_where_their_sizes_put_them():
    split = line(range(1, 101))
    assert not set(split.train.tolist()) & set(split.val.tolist())
    assert split.pool.tolist() == list(range(50))  # sizes 1 to 50 are <= 50.5
    assert split.test.tolist() == list(range(90, 100))  # sizes 91 to 100 are >= 90.1


def test_seed_draws_the_validation_graphs_and_nothing_else():
    first, again, other = (line(range(1, 101), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.val, again.val)
    assert not torch.equal(first.val, other.val)
    assert torch.equal(first.pool, other.pool)
    assert torch.equal(first.test, other.test)


def test_describe_shows_every_part():
    text = line(range(1, 101)).describe()
    assert [row.split()[0] for row in text.splitlines()[1:5]] == ["train", "val", "pool", "test"]
    assert text.splitlines()[4].split() == ["test", "10", "95.5", "91", "100", "50.0%", "50.0%"]


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ([], {}, "empty"),
        ([5] * 20, {}, "overlap"),
        ([1, 2, 3, 100], {"train_below": 0.1}, "no graph is left to train on"),
        (range(1, 50), {"train_below": 0.9, "test_above": 0.5}, "0 < train_below < test_above < 1"),
        (range(1, 50), {"test_above": float("nan")}, "0 < train_below < test_above < 1"),
        (range(1, 50), {"val_fraction": 0.0}, "val_fraction"),
        (range(1, 50), {"val_fraction": 1.0}, "val_fraction"),
    ],
)
def test_an_impossible_split_is_refused(sizes, options, message):
    with pytest.raises(InputError, match=message):
        line(sizes, **options)

"""Statistics against scipy, and pairs that are none."""

import re

import numpy as np
import pytest
from scipy import stats

from sizeshiftreg import InputError
from sizeshiftreg.recipes import Published
from sizeshiftreg.report import cells, compare_rows, markdown, paired_difference, verdict


def rows(method, scores, **changes):
    base = {"dataset": "d", "model": "gin", "epochs": 5, "data_hash": "a", "split_hash": "b", "split_seed": 0}
    base["views_hash"] = ""
    return [
        base | {"id": f"{method}{seed}", "method": method, "seed": seed, "val_mcc": 0.5}
        | {"test_mcc": score, "last_test_mcc": score - 0.1} | changes
        for seed, score in enumerate(scores)
    ]  # fmt: skip


WITHOUT, WITH = [0.2, 0.1, 0.3, 0.25], [0.4, 0.2, 0.6, 0.35]


def test_the_interval_is_that_of_the_paired_t_test():
    found = paired_difference(WITHOUT, WITH)
    interval = stats.ttest_rel(WITH, WITHOUT).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.mean == pytest.approx(np.mean(WITH) - np.mean(WITHOUT))


def test_the_spread_is_the_sample_standard_deviation():
    line = compare_rows(rows("plain", WITHOUT), rows("size_shift", WITH)).lines[1]
    assert (line.without.mean, line.without.spread) == pytest.approx((np.mean(WITHOUT), np.std(WITHOUT, ddof=1)))


def test_rows_are_paired_by_seed_whatever_their_order():
    comparison = compare_rows(rows("plain", WITHOUT), rows("size_shift", WITH)[::-1])
    assert comparison.lines[1].difference == paired_difference(WITHOUT, WITH)
    assert comparison.pairs == 4


def test_rows_without_a_partner_do_not_count():
    assert compare_rows(rows("plain", WITHOUT), rows("size_shift", WITH[:2])).pairs == 2
    with pytest.raises(InputError, match="nothing to compare"):
        compare_rows(rows("plain", WITHOUT), [])


@pytest.mark.parametrize("part", ["data_hash", "split_hash"])
def test_rows_on_other_graphs_are_no_pair(part):
    with pytest.raises(InputError, match=f"plain0 and size_shift0 are no pair: their {part} differ"):
        compare_rows(rows("plain", WITHOUT), rows("size_shift", WITH, **{part: "other"}))


def test_rows_with_different_views_are_not_averaged():
    regularised = rows("size_shift", WITH)
    regularised[1]["views_hash"] = "later"
    with pytest.raises(InputError, match="different coarse views"):
        compare_rows(rows("plain", WITHOUT), regularised)


def test_pairs_on_different_states_of_the_data_are_not_averaged():
    plain, regularised = rows("plain", WITHOUT), rows("size_shift", WITH)
    plain[1]["data_hash"] = regularised[1]["data_hash"] = "later"
    with pytest.raises(InputError, match="different states of the data"):
        compare_rows(plain, regularised)


@pytest.mark.parametrize(
    ("with_", "sentence"),
    [
        ([0.4, 0.32, 0.5, 0.47], r"the regulariser gains 0.21 \(95% interval \+0.19 to \+0.23, 4 pairs\)"),
        ([0.0, -0.1, 0.1, 0.04], r"the regulariser loses 0.20"),
        ([0.3, 0.0, 0.3, 0.25], r"no difference can be told: [+-]0.00"),
    ],
)
def test_the_verdict_says_no_more_than_the_interval(with_, sentence):
    assert re.search(sentence, verdict(compare_rows(rows("plain", WITHOUT), rows("size_shift", with_))))


def test_one_pair_claims_nothing():
    assert "take more seeds" in verdict(compare_rows(rows("plain", WITHOUT[:1]), rows("size_shift", WITH[:1])))


def test_the_table_with_published_figures():
    published = (Published(0.25, 0.07, 50, "MCC"), Published(0.36, 0.11, 50, "MCC"))
    comparison = compare_rows(rows("plain", WITHOUT), rows("size_shift", WITH), published=published)
    table = cells(comparison)
    assert table[2] == ["large graphs (test)", "0.21 ± 0.09", "0.39 ± 0.17", "+0.18 [+0.02, +0.33]"]
    assert table[-1] == ["published, 50 runs (MCC)", "0.25 ± 0.07", "0.36 ± 0.11", "+0.11"]
    text = markdown(comparison)
    assert text.startswith("**d, GIN, 5 epochs, 4 seeds, one validation split (seed 0)**\n\n| MCC")
    assert text.endswith(verdict(comparison))

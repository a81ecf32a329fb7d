"""Report: rows -> a comparison with honest statistics, and summaries -> tables, as text. It computes nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from sizeshiftreg.errors import InputError
from sizeshiftreg.experiment import Row
from sizeshiftreg.export import SAMPLE_NODES, Summary
from sizeshiftreg.recipes import Published

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, its standard deviation, and for differences a 95% confidence interval of the mean."""

    mean: float
    spread: float
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class Line:
    """One line of a comparison: a score without and with the regulariser, and the paired difference."""

    name: str
    without: Estimate
    with_: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Names:
    """What the first and the second method are called, and what makes the difference between them."""

    first: str = "without"
    second: str = "with"
    cause: str = "the regulariser"


PLAIN_AND_REGULARISED = Names()
FULL_AND_SAMPLED = Names("all views", "sampled", "sampling the views")


@dataclass(frozen=True)
class Comparison:
    """Two methods on the same data, splits and seeds.

    Attributes:
        title: What was compared.
        lines: Scores on small graphs, on large graphs, and on large graphs with the last epoch's weights.
        pairs: Number of paired runs.
        published: The published figures without and with, if there are.
        names: What the two methods are called, and what makes the difference.
    """

    title: str
    lines: tuple[Line, ...]
    pairs: int
    published: tuple[Published, Published] | None
    names: Names


_SCORES = {
    "small graphs (validation)": "val_mcc",
    "large graphs (test)": "test_mcc",
    "large graphs, last epoch": "last_test_mcc",
}


def paired_difference(without: Sequence[float], with_: Sequence[float]) -> Estimate:
    """Return the mean difference of pairs with its 95% confidence interval (Student's t).

    Example:
        >>> estimate = paired_difference([0.1, 0.2, 0.3], [0.2, 0.4, 0.4])
        >>> round(estimate.mean, 3), round(estimate.low, 3), round(estimate.high, 3)
        (0.133, -0.01, 0.277)
    """
    differences = np.subtract(with_, without)
    estimate = _estimate(differences)
    if len(differences) < 2:
        return estimate
    half = stats.t.ppf((1 + _CONFIDENCE) / 2, len(differences) - 1) * estimate.spread / np.sqrt(len(differences))
    return Estimate(estimate.mean, estimate.spread, estimate.mean - float(half), estimate.mean + float(half))


def compare_rows(
    without: Sequence[Row],
    with_: Sequence[Row],
    *,
    published: tuple[Published, Published] | None = None,
    names: Names = PLAIN_AND_REGULARISED,
) -> Comparison:
    """Compare finished rows pair by pair: equal seed, split and data.

    Raises:
        InputError: There are no pairs, or a pair was not made on the same graphs and split.
    """
    partner = {(row["seed"], row["split_seed"]): row for row in with_}
    pairs = [(row, partner[key]) for row in without if (key := (row["seed"], row["split_seed"])) in partner]
    if not pairs:
        raise InputError("nothing to compare: no seed is finished both without and with the regulariser")
    for plain, regularised in pairs:
        for part in ("data_hash", "split_hash"):
            if plain[part] != regularised[part]:
                raise InputError(
                    f"the rows {plain['id']} and {regularised['id']} are no pair: their {part} differ, so the data "
                    "changed between the runs. Move both away and run them again"
                )
    if len({plain["data_hash"] for plain, _ in pairs}) > 1:
        raise InputError("the rows were made from different states of the data. Move the old ones away")
    if len({regularised["views_hash"] for _, regularised in pairs}) > 1:
        raise InputError(
            "the rows were made with different coarse views: the coarsening method changed between the runs. Move the "
            "old rows away"
        )
    lines = []
    for name, score in _SCORES.items():
        scores = [plain[score] for plain, _ in pairs], [regularised[score] for _, regularised in pairs]
        lines.append(Line(name, _estimate(scores[0]), _estimate(scores[1]), paired_difference(*scores)))
    return Comparison(_title(pairs), tuple(lines), len(pairs), published, names)


def verdict(comparison: Comparison) -> str:
    """Say in a sentence what the paired difference on large graphs allows to say."""
    difference = next(line for line in comparison.lines if line.name == "large graphs (test)").difference
    if comparison.pairs < 2:
        return "One pair tells nothing about the spread: take more seeds."
    interval = f"95% interval {difference.low:+.2f} to {difference.high:+.2f}, {comparison.pairs} pairs"
    if difference.low > 0:
        return f"On large graphs {comparison.names.cause} gains {difference.mean:.2f} ({interval})."
    if difference.high < 0:
        return f"On large graphs {comparison.names.cause} loses {-difference.mean:.2f} ({interval})."
    return f"On large graphs no difference can be told: {difference.mean:+.2f} ({interval})."


def cells(comparison: Comparison) -> list[list[str]]:
    """Return the comparison as a table of text: a header, then a line per score."""
    table = [["MCC, mean ± sd", comparison.names.first, comparison.names.second, "difference [95% CI]"]]
    for line in comparison.lines:
        difference = f"{line.difference.mean:+.2f}"
        if comparison.pairs > 1:
            difference += f" [{line.difference.low:+.2f}, {line.difference.high:+.2f}]"
        table.append([line.name, _text(line.without), _text(line.with_), difference])
    if comparison.published is not None:
        plain, regularised = comparison.published
        texts = [f"{figure.mean:.2f} ± {figure.spread:.2f}" for figure in (plain, regularised)]
        name = f"published, {plain.runs} runs ({plain.metric})"
        table.append([name, *texts, f"{regularised.mean - plain.mean:+.2f}"])
    return table


def markdown(comparison: Comparison) -> str:
    """Return the comparison as a Markdown table with its title and verdict."""
    header, *body = cells(comparison)
    rule = ["---", *["---:"] * (len(header) - 1)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *body))
    return f"**{comparison.title}**\n\n{table}\n\n{verdict(comparison)}"


def coarsening_cells(summaries: Mapping[str, Summary]) -> list[list[str]]:
    """Return what coarsening came to as a table of text: a line per data set, and under it one per ratio."""
    table = [["data set", "ratio", "graphs", "nodes", "edges", "distance", "ms per graph"]]
    for name, each in summaries.items():
        sizes = [f"{number:,}" for number in (each.graphs, each.nodes, each.edges)]
        table.append([name, "", *sizes, "", f"{1000 * each.seconds / each.graphs:.2f}"])
        for view in each.views:
            distance = "" if view.distance is None else f"{view.distance:.3f}"
            table.append(["", f"{view.ratio:g}", "", f"{view.nodes:,}", f"{view.edges:,}", distance, ""])
    return table


def coarsening_notes(summaries: Mapping[str, Summary], *, jobs: int, compiled: float) -> list[str]:
    """Return what a table of coarsening does not show: methods, cache, times, sample, direction."""
    every = list(summaries.values())
    graphs, seconds = sum(each.graphs for each in every), sum(each.seconds for each in every)
    methods: dict[str, int] = {}
    for each in every:
        for method, count in each.methods.items():
            methods[method] = methods.get(method, 0) + count
    used = ", ".join(f"{method} ({count:,} graphs)" for method, count in methods.items())
    threads = "one thread" if jobs == 1 else f"{jobs} threads"
    notes = [f"method: {used}", f"time: {seconds:.1f} s on {threads}, after {compiled:.1f} s to compile or load"]
    if sparse := sum(each.sparse for each in every):
        notes.append(f"sparse path: {sparse:,} graphs")
    if reused := sum(each.reused for each in every):
        partitions = sum(each.graphs * len(each.views) for each in every)
        notes.append(f"cache: {reused:,} of {partitions:,} partitions were there; --no-cache computes them anew")
    if sampled := sum(each.sampled for each in every):
        of = f"{sampled:,} of {graphs:,} graphs (at most {SAMPLE_NODES} nodes, evenly spaced)"
        notes.append(f"distance: mean spectral distance over {of}; lower is better")
    if directed := sum(each.directed for each in every):
        notes.append(f"directed: {directed:,} graphs have edges in one direction only; they counted in both")
    return notes


def _title(pairs: Sequence[tuple[Row, Row]]) -> str:
    row = pairs[0][0]
    split_seeds = sorted({plain["split_seed"] for plain, _ in pairs})
    splits = f"one validation split (seed {split_seeds[0]})" if len(split_seeds) == 1 else "a new validation split each"
    return f"{Path(row['dataset']).name}, {row['model'].upper()}, {row['epochs']} epochs, {len(pairs)} seeds, {splits}"


def _text(estimate: Estimate) -> str:
    return f"{estimate.mean:.2f} ± {estimate.spread:.2f}"


def _estimate(values: Sequence[float] | np.ndarray) -> Estimate:
    array = np.asarray(values, dtype=float)
    return Estimate(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else 0.0)

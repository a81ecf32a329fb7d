"""Recipes against the code, and the choice of a cell."""

import csv
from pathlib import Path

import pytest

from sizeshiftreg import Experiment
from sizeshiftreg.datasets import TU_DATASETS
from sizeshiftreg.recipes import find_cell, load_recipe, recipe_names

PAPER = ("table1", "table3")


def test_every_cell_is_an_experiment_on_a_known_data_set():
    assert recipe_names() == ["table1", "table3", "toys"]
    for name in PAPER:
        for cell in load_recipe(name):
            assert cell.experiment.dataset in TU_DATASETS
            assert cell.experiment.epochs == 1000
            assert cell.published.runs == 50


@pytest.mark.parametrize(("name", "datasets"), [("table1", 4), ("table3", 1)])
def test_tables_are_complete(name, datasets):
    cells = [cell.experiment for cell in load_recipe(name)]
    grid = {(cell.dataset, cell.model, cell.method) for cell in cells}
    assert len(grid) == len(cells) == datasets * 3 * 2


def test_hyperparameters_are_the_published_ones():
    lines = list(csv.DictReader((Path(__file__).parent / "published_hyperparameters.csv").read_text().splitlines()))
    cells = {
        (c.dataset, c.model, c.method): c for c in (cell.experiment for name in PAPER for cell in load_recipe(name))
    }
    assert len(lines) == len(cells)
    for line in lines:
        cell = cells[line["dataset"], line["model"], line["method"]]
        found = (cell.batch_size, cell.lr, cell.hidden_dim, cell.readout)
        assert found == (int(line["batch_size"]), float(line["lr"]), int(line["hidden_dim"]), line["readout"]), line
        if cell.method == "size_shift":
            ratios = tuple(float(ratio) for ratio in line["ratios"].split())
            found = (cell.coarse_features, cell.ratios, cell.weight)
            assert found == (line["coarse_features"], ratios, float(line["weight"])), line


def test_with_and_without_differ_in_the_regulariser_alone():
    for name in recipe_names():
        cells = {(c.dataset, c.model, c.method): c for c in (cell.experiment for cell in load_recipe(name))}
        for (dataset, model, _), cell in cells.items():
            other = cells[dataset, model, "size_shift"]
            shared = ("epochs", "batch_size", "lr", "hidden_dim", "num_layers", "readout", "dropout")
            assert [getattr(cell, field) for field in shared] == [getattr(other, field) for field in shared]


def test_the_paper_says_that_the_regulariser_always_helps():
    for name in PAPER:
        cells = {(c.experiment.dataset, c.experiment.model, c.experiment.method): c for c in load_recipe(name)}
        for (dataset, model, _), cell in cells.items():
            other = cells[dataset, model, "size_shift"]
            assert cell.published.mean <= other.published.mean


def test_average_improvements_are_those_the_paper_prints():
    """Its right-most column: PNA +22%, GCN +30%, GIN +21%, the mean over data sets of the relative gains."""
    cells = {(c.experiment.dataset, c.experiment.model, c.experiment.method): c for c in load_recipe("table1")}
    for model, printed in {"pna": 22, "gcn": 30, "gin": 21}.items():
        gains = [
            cells[dataset, model, "size_shift"].published.mean / cells[dataset, model, "plain"].published.mean - 1
            for dataset in ("NCI1", "NCI109", "PROTEINS", "DD")
        ]
        assert 100 * sum(gains) / 4 == pytest.approx(printed, abs=3.5)


def test_deezer_keeps_the_published_ratios():
    ratios = {cell.experiment.model: cell.experiment.ratios for cell in load_recipe("table3")}
    assert ratios == {"gin": (0.9,), "gcn": (0.8, 0.9), "pna": (0.8, 0.9)}


def test_a_cell_by_data_set_model_and_method():
    cell = find_cell("PROTEINS", "gin", "size_shift")
    assert cell.experiment == Experiment(
        dataset="PROTEINS", method="size_shift", lr=0.01, batch_size=128, hidden_dim=32, coarse_features="mean"
    )
    assert (cell.published.mean, cell.published.spread) == (0.36, 0.11)


def test_a_data_set_without_a_recipe_gets_the_defaults():
    cell = find_cell("some/folder", "gcn", "plain")
    assert cell.experiment == Experiment(dataset="some/folder", model="gcn")
    assert cell.published is None

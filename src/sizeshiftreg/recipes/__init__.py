"""Recipes: the cells of the paper's tables as experiments, with the published figures beside them."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from sizeshiftreg.experiment import Experiment


@dataclass(frozen=True)
class Published:
    """A published figure: mean and standard deviation of a metric over `runs` runs."""

    mean: float
    spread: float
    runs: int
    metric: str


@dataclass(frozen=True)
class Cell:
    """One cell of a table: the experiment (seed 0) and what was published for it."""

    experiment: Experiment
    published: Published | None


@cache
def load_recipe(name: str) -> tuple[Cell, ...]:
    """Return the cells of a recipe.

    Example:
        >>> cell = load_recipe("table1")[0]
        >>> cell.experiment.dataset, cell.published.mean
        ('NCI1', 0.19)
    """
    content = tomllib.loads((files(__name__) / f"{name}.toml").read_text())
    cells = []
    for cell in content["cells"]:
        published = (
            Published(**cell["published"], runs=content["runs"], metric=content["metric"])
            if "published" in cell
            else None
        )
        cells.append(Cell(Experiment(**content["defaults"], **cell["experiment"]), published))
    return tuple(cells)


def recipe_names() -> list[str]:
    """Return the names of all recipes."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in files(__name__).iterdir() if entry.name.endswith(".toml")
    )


def find_cell(dataset: str, model: str, method: str) -> Cell:
    """Return the cell of a data set, model and method; without a recipe, the defaults and nothing published."""
    wanted = (dataset, model, method)
    for name in recipe_names():
        for cell in load_recipe(name):
            found = cell.experiment
            if (found.dataset, found.model, found.method) == wanted:
                return cell
    return Cell(replace(Experiment(dataset=dataset), model=model, method=method), None)  # type: ignore[arg-type]

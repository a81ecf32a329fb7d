"""Shared pieces of the tests: the paper's data sets, tiny literal graphs, and the hypothesis profile."""

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch_geometric.data import Data, InMemoryDataset

from sizeshiftreg import cli, load_dataset

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)

# No deadline: the first call of a compiled function compiles.
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")

DATA_ROOT = Path(__file__).parent.parent / "data"


@pytest.fixture(autouse=True)
def _seeded():
    """Initialise models alike in every run of a test: one that fails by chance is no test."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def mirror() -> str:
    """Return the address of the paper's data sets, or skip the test where none is named.

    With SIZESHIFTREG_REQUIRE_DATA=1, which .ci/run sets where the data are, nothing is skipped.
    """
    if "SIZESHIFTREG_MIRROR" not in os.environ:
        if os.environ.get("SIZESHIFTREG_REQUIRE_DATA") == "1":
            pytest.fail("the data are required, but SIZESHIFTREG_MIRROR is not set")
        pytest.skip("needs the paper's data sets: set SIZESHIFTREG_MIRROR")
    return os.environ["SIZESHIFTREG_MIRROR"]


@pytest.fixture(scope="session")
def paper_dataset(mirror):
    """Return a function that loads a data set of the paper by name."""

    def load(name: str) -> InMemoryDataset:
        return load_dataset(name, root=DATA_ROOT, mirror=mirror)

    return load


@pytest.fixture
def command(monkeypatch, tmp_path, capfd):
    """Return a function that runs the command line in this process: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["sizeshiftreg", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return call


def graph(num_nodes: int, edges: list[tuple[int, int]], *, y: int = 0, width: int = 2, seed: int = 0) -> Data:
    """Make a graph from a list of directed edges, with random features."""
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous()
    x = torch.rand(num_nodes, width, generator=torch.Generator().manual_seed(seed))
    return Data(x=x, edge_index=edge_index, y=torch.tensor([y]))


def undirected(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return every edge in both directions."""
    return edges + [(b, a) for a, b in edges]


# The graphs that every partitioner, discrepancy and encoder must survive.
HARD_GRAPHS = {
    "one node": graph(1, []),
    "two nodes": graph(2, [(0, 1), (1, 0)]),
    "no edges": graph(5, []),
    "isolated nodes": graph(6, undirected([(0, 1), (1, 2)])),
    "many components": graph(9, undirected([(0, 1), (2, 3), (4, 5), (5, 6), (7, 8)])),
    "self-loops": graph(4, [(0, 0), *undirected([(0, 1), (1, 2)]), (3, 3)]),
    "parallel edges": graph(3, undirected([(0, 1), (0, 1), (1, 2)])),
    "directed": graph(5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "complete": graph(6, [(a, b) for a in range(6) for b in range(6) if a != b]),
    "star": graph(20, undirected([(0, leaf) for leaf in range(1, 20)])),
}

"""The command line as a person meets it: tables, errors without tracebacks, exit codes."""

import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from conftest import graph, undirected
from sizeshiftreg import ResultStore, cli

QUICK = ["--epochs", "1", "--lr", "0.01"]


def test_help_lists_the_commands():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    for name in ("datasets", "run", "compare", "coarsen"):
        assert name in result.output


def test_datasets(command):
    code, out, _ = command("datasets")
    assert code == 0
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["PROTEINS"] == ["PROTEINS", "1,113", "43,471", "3", "2", "567", "112", "to", "download"]
    assert lines["toy_density"][-4:] == ["300", "60", "made", "here"]
    assert all(len(line) <= 80 for line in out.splitlines()), "it does not fit a terminal of 80 columns"


def test_run_prints_and_keeps_the_row(command, tmp_path):
    code, out, err = command("run", "toy_density", *QUICK, "--method", "plain", "--seed", 3)
    assert code == 0, err
    printed = dict(line.split(maxsplit=1) for line in out.splitlines() if len(line.split()) > 1)
    (row,) = ResultStore(tmp_path / "runs").rows()
    assert printed["id"] == row["id"]
    assert (row["seed"], row["method"], row["epochs"], row["lr"]) == (3, "plain", 1, 0.01)


def test_compare_resumes_and_its_markdown_has_the_same_numbers(command, tmp_path):
    arguments = ("compare", "toy_density", *QUICK, "--seeds", 2, "--jobs", 2)
    code, out, err = command(*arguments)
    assert code == 0, err
    assert "toy_density, GIN, 1 epochs, 2 seeds, one validation split (seed 0)" in out
    assert "2 pairs" in out
    assert "Exception" not in err
    stamps = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").glob("*.json")}
    assert len(stamps) == 4
    code, text, _ = command(*arguments, "--markdown")
    assert code == 0
    assert {file: file.stat().st_mtime_ns for file in stamps} == stamps
    line = next(line for line in out.splitlines() if "large graphs (test)" in line)
    cells = [
        cell.strip() for cell in next(row for row in text.splitlines() if "large graphs (test)" in row).split("|")[1:-1]
    ]
    assert line.split() == " ".join(cells).split()


def test_new_splits_take_a_split_per_seed(command, tmp_path):
    command("compare", "toy_density", *QUICK, "--seeds", 2, "--new-splits")
    assert sorted(row["split_seed"] for row in ResultStore(tmp_path / "runs").rows()) == [0, 0, 1, 1]


def test_options_of_the_regulariser_arrive(command, tmp_path):
    options = ["--coarsener", "random", "--ratio", 0.5, "--ratio", 0.7, "--weight", 1, "--coarse-features", "max"]
    code, _, err = command("run", "toy_density", *QUICK, *options, "--batch-norm", "original")
    assert code == 0, err
    (row,) = ResultStore(tmp_path / "runs").rows()
    found = [row[name] for name in ("coarsener", "ratios", "weight", "coarse_features", "batch_norm")]
    assert found == ["random", [0.5, 0.7], 1, "max", "original"]


def test_a_failed_run_is_told_and_exits_with_1(command, tmp_path):
    code, _, err = command("run", "toy_density", "--epochs", 3, "--lr", 1e30)
    assert code == 1
    assert "the loss is not finite in epoch" in err
    assert "1 of 1 runs failed" in err


def folder(tmp_path, graphs):
    path = tmp_path / "mine"
    path.mkdir()
    torch.save(graphs, path / "graphs.pt")
    return path


def sized(count=40, **changes):
    """Graphs of growing size in two classes; changes go to graph 1."""
    items = [graph(3 + i, undirected([(0, 1), (1, 2)]), y=i % 2, seed=i) for i in range(count)]
    for name, value in changes.items():
        items[1][name] = value
    return items


def test_a_folder_of_ones_own_can_be_compared(command, tmp_path):
    code, out, err = command("compare", folder(tmp_path, sized()), *QUICK, "--seeds", 2)
    assert code == 0, err
    assert out.startswith("mine, GIN")


def nan_features():
    return torch.full((4, 2), float("nan"))


BAD_GRAPHS = {
    "empty data set": (list, "the data set is empty"),
    "one class": (lambda: [item for item in sized() if int(item.y) == 0], "the data set has one class only"),
    "no nodes": (
        lambda: sized(x=torch.empty(0, 2), edge_index=torch.empty(2, 0, dtype=torch.long)),
        "at least one node",
    ),
    "NaN": (lambda: sized(x=nan_features()), "got NaN or infinity in the rows"),
    "no features": (lambda: sized(x=None), "expected node features"),
    "edge outside": (lambda: sized(edge_index=torch.tensor([[0], [9]])), "graph 1: expected edges between the nodes"),
    "no label": (lambda: sized(y=None), "graph 1: expected a class"),
    "equal sizes": (lambda: [graph(5, [], y=i % 2, seed=i) for i in range(20)], "pool and test overlap"),
    "two graphs": (lambda: sized(2), "no graph is left to train on"),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
@pytest.mark.parametrize("verb", ["run", "compare"])
def test_bad_graphs_are_refused(command, tmp_path, name, verb):
    make, message = BAD_GRAPHS[name]
    code, out, err = command(verb, folder(tmp_path, make()), *QUICK)
    assert code == 2
    assert message in " ".join(err.split()), err
    assert "Traceback" not in out + err


BAD_WORDS = {
    "data set": (["run", "PROTEIN"], "unknown data set 'PROTEIN': expected one of NCI1"),
    "model": (["compare", "toy_density", "--model", "gat"], "model: expected one of gin, gcn, pna; got 'gat'"),
    "method": (["run", "toy_density", "--method", "magic"], "method: expected one of plain, size_shift; got 'magic'"),
    "coarsener": (
        ["compare", "toy_density", "--coarsener", "louvain"],
        "coarsener: expected one of sgc, mlgc, spectral_clustering",
    ),
    "ratio 0": (["compare", "toy_density", "--ratio", "0"], "between 0 and 1"),
    "ratio 1": (["compare", "toy_density", "--ratio", "1"], "between 0 and 1"),
    "weight -1": (["compare", "toy_density", "--weight", "-1"], "weight: expected a finite number of at least 0"),
    "weight nan": (["compare", "toy_density", "--weight", "nan"], "weight: expected a finite number of at least 0"),
    "weight inf": (["compare", "toy_density", "--weight", "inf"], "weight: expected a finite number of at least 0"),
    "epochs": (["run", "toy_density", "--epochs", "0"], "epochs: expected an integer of at least 1; got 0"),
    "jobs": (["compare", "toy_density", "--jobs", "0"], "--jobs"),
    "seeds": (["compare", "toy_density", "--seeds", "0"], "--seeds"),
    "results": (["run", "toy_density", "--results", "/dev/null/x"], "cannot write to the results folder /dev/null/x"),
    "no train": (
        ["compare", "toy_density", "--seeds", "3", "--no-train"],
        "6 of 6 runs are not in runs: run the command",
    ),
    "mirror": (["run", "NCI1", "--mirror", "file:///nowhere"], "could not download NCI1 from file:///nowhere/NCI1.zip"),
}


@pytest.mark.parametrize("name", BAD_WORDS)
def test_bad_words_are_refused_before_anything_runs(command, tmp_path, name):
    words, message = BAD_WORDS[name]
    code, out, err = command(*words)
    assert code == 2
    assert message in " ".join(err.split()), err
    assert "Traceback" not in out + err
    assert not list(tmp_path.glob("runs/*.json"))


def test_it_is_installed_as_a_command():
    script = subprocess.run([sys.executable, "-m", "sizeshiftreg.cli", "--help"], capture_output=True, check=False)
    assert script.returncode == 0


def test_sampled_views_can_be_compared_with_all(command, tmp_path):
    sampled = ("--views", "sampled", "--share", 0.25, "--against", "full")
    code, out, err = command("compare", "toy_density", *QUICK, "--seeds", 2, *sampled)
    assert code == 0, err
    assert "all views" in out and "sampled" in out and "without" not in out
    rows = ResultStore(tmp_path / "runs").rows()
    assert sorted((row["method"], row["views"], row["share"]) for row in rows) == [
        *[("size_shift", "all", 1.0)] * 2,
        *[("size_shift", "sampled", 0.25)] * 2,
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against", "full"], "add --views sampled"),
        (["--against", "nothing"], "against: expected one of plain, full; got 'nothing'"),
        (["--views", "some"], "views: expected one of all, sampled; got 'some'"),
        (["--share", "0.5"], 'share: expected 1 with views="all"'),
        (["--views", "sampled", "--share", "0"], "share: expected a share above 0 and at most 1"),
    ],
)
def test_bad_sampling_is_refused(command, words, message):
    code, _, err = command("compare", "toy_density", *QUICK, *words)
    assert code == 2
    assert message in " ".join(err.split()), err

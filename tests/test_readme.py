"""README and docs: their code runs as written, their tables are those of the committed rows."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from torch_geometric.datasets import TUDataset

from sizeshiftreg import Coarsen, ResultStore, size_split

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_drop_in_runs_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "loss = loss + size_shift(encoder, batch, h)" in blocks[0]
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102 (the README's own code)
    assert all(parameter.grad is not None for parameter in namespace["encoder"].parameters())
    assert capsys.readouterr().out.startswith("part")


@pytest.mark.data
def test_coarsen_is_a_pre_transform_of_pygs_own_data_set(tmp_path, monkeypatch, mirror):
    assert 'TUDataset("data/coarse", "NCI1", pre_transform=Coarsen())' in README
    monkeypatch.setattr(TUDataset, "url", mirror)
    dataset = TUDataset(str(tmp_path), "PROTEINS", pre_transform=Coarsen())
    again = TUDataset(str(tmp_path), "PROTEINS", pre_transform=Coarsen())
    for number in size_split(dataset).train[:20].tolist():
        assert dataset[number].partitions.equal(Coarsen()(dataset[number]).partitions)
        assert again[number].partitions.equal(dataset[number].partitions)


@pytest.mark.parametrize("page", ["README.md", "docs/synthetic.md", "docs/speed.md"])
def test_tables_are_those_of_the_committed_rows(page):
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = (ROOT / page).read_text()
    assert "<!-- table: " in text
    assert tables.renew(text) == text


@pytest.mark.parametrize("name", ["toy_friends", "toy_density"])
def test_a_plain_model_fails_on_the_large_graphs_of_the_made_up_data(name):
    rows = [row for row in ResultStore(ROOT / "results").rows() if row["dataset"] == name and row["method"] == "plain"]
    assert len(rows) == 20
    small, large = (sum(row[score] for row in rows) / 20 for score in ("val_mcc", "test_mcc"))
    assert small > 0.7
    assert large < small - 0.4


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_commands_of_the_readme_exist():
    for verb in set(re.findall(r"\$ sizeshiftreg (\w+)", README)):
        command = [sys.executable, "-m", "sizeshiftreg.cli", verb, "--help"]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0, verb


def test_every_deviation_names_tests_that_exist():
    text = (ROOT / "docs" / "deviations.md").read_text()
    sources = {path.name: path.read_text() for path in (ROOT / "tests").glob("test_*.py")}
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) == 13
    for row in rows:
        file, found = None, re.findall(r"`(?:(test_\w+\.py)::)?(test_\w+)`", row.split("|")[-2])
        assert found, row
        for named, test in found:
            file = named or file  # a name without a file is in the file before it
            assert f"def {test}(" in sources[file], f"{file}::{test}"

"""Every example runs as it stands, is short, and prints something that makes sense."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples(file):
    assert len(file.read_text().splitlines()) < 60
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stderr
    assert re.search(r"\d", found.stdout)
    assert "nan" not in found.stdout


def test_there_is_one_for_every_way_in():
    names = {file.stem for file in EXAMPLES}
    assert names == {
        "edge_attributes",
        "estimator",
        "lightning_trainer",
        "own_discrepancy",
        "own_loop",
        "own_partitioner",
        "whole_model",
    }

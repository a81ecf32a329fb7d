"""ResultStore: whole rows or none."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace

import pytest

from sizeshiftreg import Experiment, InputError, ResultStore, run

EXPERIMENT = Experiment(dataset="toy_density", epochs=1)


@pytest.fixture(scope="module")
def row():
    return run(EXPERIMENT)


def test_a_stored_row_comes_back(tmp_path, row):
    store = ResultStore(tmp_path / "new" / "folder")
    assert store.get(EXPERIMENT) is None
    store.put(row)
    assert store.get(EXPERIMENT) == row
    assert store.rows() == [row]
    assert [file.name for file in store.folder.glob("*.json")] == [f"{EXPERIMENT.id}.json"]


def test_a_failed_run_is_a_note_and_no_result(tmp_path, row):
    store = ResultStore(tmp_path)
    store.put(row | {"status": "failed", "error": "why"})
    assert store.get(EXPERIMENT) is None
    assert store.rows() == []
    note = tmp_path / "failed" / f"{EXPERIMENT.id}.json"
    assert json.loads(note.read_text())["error"] == "why"
    store.put(row)
    assert not note.exists()


def test_a_row_half_written_is_no_row(tmp_path, row, monkeypatch):
    store = ResultStore(tmp_path)

    def broken(row, stream, **options):
        stream.write('{"id": ')
        raise KeyboardInterrupt

    monkeypatch.setattr("sizeshiftreg.results.json.dump", broken)
    with pytest.raises(KeyboardInterrupt):
        store.put(row)
    assert store.get(EXPERIMENT) is None
    assert store.rows() == []


@pytest.mark.parametrize("text", ["", '{"id": ', "[]", "not json"])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / f"{EXPERIMENT.id}.json").write_text(text)
    with pytest.raises(InputError, match=f"{EXPERIMENT.id}.json is damaged .* move it away"):
        ResultStore(tmp_path).get(EXPERIMENT)


def test_the_row_of_another_experiment_is_noticed(tmp_path, row):
    """A default that changed would keep the id; the fields in the row tell."""
    store = ResultStore(tmp_path)
    store.put(row | {"dropout": 0.5})
    with pytest.raises(InputError, match=r"another experiment: it has \{'dropout': 0.5\}"):
        store.get(EXPERIMENT)


def test_a_row_from_before_a_field_was_added_still_counts(tmp_path, row):
    store = ResultStore(tmp_path)
    older = {name: value for name, value in row.items() if name != "bound"}
    store.put(older)
    assert store.get(EXPERIMENT) == older


def _try_claim(folder, queue):
    queue.put(ResultStore(folder).claim(EXPERIMENT) is not None)


def _die_with_claim(folder):
    lock = ResultStore(folder).claim(EXPERIMENT)
    assert lock is not None
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_claim_keeps_other_processes_off_until_it_is_released(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue, store = context.Queue(), ResultStore(tmp_path)
    lock = store.claim(EXPERIMENT)
    assert lock is not None
    for expected in (False, True):
        process = context.Process(target=_try_claim, args=(tmp_path, queue))
        process.start()
        assert queue.get(timeout=60) is expected
        process.join()
        lock.release()
    assert store.claim(replace(EXPERIMENT, seed=1)) is not None


def test_a_claim_ends_with_a_killed_process(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_die_with_claim, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == -9
    assert ResultStore(tmp_path).claim(EXPERIMENT) is not None


@pytest.mark.parametrize("make", ["file", "below a file"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, make):
    file = tmp_path / "file"
    file.write_text("")
    store = ResultStore(file if make == "file" else file / "below")
    assert store.get(EXPERIMENT) is None
    with pytest.raises(InputError, match=r"cannot write to the results folder .*--results"):
        store.check_writable()


def test_looking_leaves_nothing_behind(tmp_path):
    assert ResultStore(tmp_path / "typo").rows() == []
    assert not (tmp_path / "typo").exists()

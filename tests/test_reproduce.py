"""run_missing: the same rows whatever the number of processes, and nothing lost or repeated."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from conftest import graph
from sizeshiftreg import Experiment, InputError, ResultStore, run
from sizeshiftreg.reproduce import missing, run_missing

BASE = Experiment(dataset="toy_density", epochs=2, lr=0.01)
EXPERIMENTS = [replace(BASE, method=method, seed=seed) for seed in range(3) for method in ("plain", "size_shift")]


def without_times(rows):
    return sorted(({**row, "seconds": 0} for row in rows), key=lambda row: row["id"])


def test_the_number_of_jobs_does_not_matter(tmp_path):
    stores = [ResultStore(tmp_path / name) for name in ("one", "two")]
    for jobs, store in enumerate(stores, start=1):
        yielded = list(run_missing(EXPERIMENTS, store, jobs=jobs))
        assert without_times(yielded) == without_times(store.rows())
    assert without_times(stores[0].rows()) == without_times(stores[1].rows())
    assert len(stores[0].rows()) == len(EXPERIMENTS)
    assert missing(EXPERIMENTS, stores[0]) == []
    assert list(run_missing(EXPERIMENTS, stores[0], jobs=2)) == []


def test_a_failed_run_does_not_end_the_others(tmp_path):
    store, bad = ResultStore(tmp_path), replace(BASE, lr=1e30, seed=7)
    rows = list(run_missing([bad, BASE], store))
    assert sorted(row["status"] for row in rows) == ["failed", "ok"]
    assert missing([bad, BASE], store) == [bad]


def test_jobs_below_1_and_unknown_data_are_refused(tmp_path):
    with pytest.raises(InputError, match="jobs: expected at least 1; got 0"):
        list(run_missing([BASE], ResultStore(tmp_path), jobs=0))
    with pytest.raises(InputError, match="unknown data set 'nothing'"):
        list(run_missing([replace(BASE, dataset="nothing")], ResultStore(tmp_path)))


def test_other_processes_of_the_caller_are_left_alone(tmp_path):
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    other.start()
    list(run_missing([BASE], ResultStore(tmp_path)))
    assert other.is_alive()
    other.kill()


def test_rows_of_a_folder_that_changed_since_are_refused(tmp_path):
    data, store = tmp_path / "data", ResultStore(tmp_path / "results")
    data.mkdir()
    graphs = [graph(3 + i, [(0, 1), (1, 0)], y=i % 2, seed=i) for i in range(40)]
    torch.save(graphs, data / "graphs.pt")
    experiment = Experiment(dataset=str(data), epochs=1)
    first = run(experiment)
    list(run_missing([experiment], store))
    torch.save(graphs[1:], data / "graphs.pt")
    assert run(experiment)["data_hash"] != first["data_hash"], "this process remembered the old graphs"
    with pytest.raises(InputError, match=r"made from another state of .*data \(data hash .*--results"):
        list(run_missing([experiment, replace(experiment, seed=1)], store))


COMPARE = "compare toy_density --seeds 4 --epochs 12 --batch-size 32"


def compare(folder, jobs):
    words = [*COMPARE.split(), "--jobs", str(jobs), "--results", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "sizeshiftreg.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stamps(folder):
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("*.json")}


def children(pid):
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in listing.stdout.split()]


def assert_gone(pids):
    """Wait a little for the processes to end; none may outlive the command."""
    deadline = time.monotonic() + 10
    while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]:
        assert time.monotonic() < deadline, f"processes outlived the command: {left}"
        time.sleep(0.05)


def wait_until(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["start-up", "first runs", "1 row", "2 rows", "5 rows"])
def test_kill_9_loses_and_repeats_nothing(tmp_path, moment):
    process = compare(tmp_path, jobs=2)
    if moment == "start-up":
        time.sleep(1)
    elif moment == "first runs":
        wait_until(lambda: len(list(tmp_path.glob(".locks/*"))) >= 2, process)
    else:
        wait_until(lambda: len(stamps(tmp_path)) >= int(moment.split()[0]), process)
    workers = children(process.pid)
    process.kill()
    process.wait()
    assert_gone(workers)

    finished = stamps(tmp_path)
    assert len(finished) < 8, "killed too late to test anything"
    for name in finished:
        assert json.loads((tmp_path / name).read_text())["status"] == "ok"
    out, err = compare(tmp_path, jobs=2).communicate(timeout=300)
    assert "toy_density" in out, err
    assert "Exception" not in err, err
    after = stamps(tmp_path)
    assert len(after) == 8
    assert {name: after[name] for name in finished} == finished, "a finished run was made again"


@pytest.mark.slow
def test_a_killed_worker_is_told_and_the_command_goes_on_next_time(tmp_path):
    process = compare(tmp_path, jobs=2)
    wait_until(lambda: len(stamps(tmp_path)) >= 1, process)
    worker = max(children(process.pid))  # the youngest child; the oldest may be the resource tracker
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "a worker process was killed" in err and "Traceback" not in err and "Exception" not in err, err
    kept = stamps(tmp_path)
    assert compare(tmp_path, jobs=2).wait(timeout=300) == 0
    assert {name: stamps(tmp_path)[name] for name in kept} == kept


@pytest.fixture
def ctrl_c_is_heeded():
    """Where the tests run in the background SIGINT is ignored, and children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c_is_heeded")
def test_ctrl_c_ends_quietly_and_keeps_what_is_finished(tmp_path):
    process = compare(tmp_path, jobs=2)
    wait_until(lambda: len(stamps(tmp_path)) >= 1, process)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in err and "Traceback" not in err and "Exception" not in err, err
    assert_gone(workers)
    assert len(stamps(tmp_path)) >= 1


@pytest.mark.slow
def test_two_commands_on_one_store_share_the_work(tmp_path):
    processes = [compare(tmp_path, jobs=1) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    tables = [out for out, _ in outputs]
    assert tables[0] == tables[1]
    assert len(stamps(tmp_path)) == 8

"""Run what is missing: experiments and a store -> rows, in several processes."""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

from sizeshiftreg.errors import InputError
from sizeshiftreg.experiment import Experiment, Row, load_graphs, run
from sizeshiftreg.results import ResultStore
from sizeshiftreg.splits import size_split

_POLL_SECONDS = 0.5


class WorkerDiedError(RuntimeError):
    """A worker process ended without a result."""


def missing(experiments: Iterable[Experiment], store: ResultStore) -> list[Experiment]:
    """Return the experiments without a finished run, each once, in their order."""
    return [experiment for experiment in dict.fromkeys(experiments) if store.get(experiment) is None]


def run_missing(
    experiments: Iterable[Experiment],
    store: ResultStore,
    *,
    jobs: int = 1,
    root: str | Path = "data",
    mirror: str | None = None,
    device: str = "cpu",
) -> Iterator[Row]:
    """Run every experiment that has no finished run, and yield its row when it is stored.

    Each run is computed in a worker process with one thread, so the rows do not depend on `jobs`. A run that another
    process has under way is waited for, not repeated. A run that fails yields a row with status "failed", which is
    not a result: the next call tries again. When this process ends, however it ends, its workers end with it.

    Raises:
        InputError: The data cannot be loaded, or `jobs` is below 1.
        WorkerDiedError: A worker was killed; every finished run is stored.
    """
    if jobs < 1:
        raise InputError(f"jobs: expected at least 1; got {jobs}")
    experiments = list(dict.fromkeys(experiments))
    todo = missing(experiments, store)
    _check_data(experiments, todo, store, root, mirror)
    if not todo:
        return
    store.check_writable()
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        min(jobs, len(todo)), mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    finished = False
    try:
        while todo:
            futures: dict[Future[Row | None], Experiment] = {
                executor.submit(_attempt, experiment, store, str(root), mirror, device): experiment
                for experiment in todo
            }
            elsewhere = []
            for future in as_completed(futures):
                row = future.result()
                if row is None:
                    elsewhere.append(futures[future])
                else:
                    yield row
            todo = missing(elsewhere, store)
            yield from (row for experiment in elsewhere if (row := store.get(experiment)) is not None)
            if todo:
                time.sleep(_POLL_SECONDS)
        finished = True
    except BrokenProcessPool as error:
        raise WorkerDiedError(
            "a worker process was killed, perhaps for lack of memory. Every finished run is stored; the same command "
            "goes on from there (with fewer --jobs it needs less memory)"
        ) from error
    finally:
        if not finished:  # an error, Ctrl-C, or a caller that stops asking: do not wait for the runs under way
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
        executor.shutdown(wait=True, cancel_futures=True)


def _check_data(
    experiments: list[Experiment], todo: list[Experiment], store: ResultStore, root: str | Path, mirror: str | None
) -> None:
    """Load and split every data set before any worker starts: it downloads, and says at once what is wrong.

    Rows that are there already must be of the same data; those of a folder of one's own are always looked at.
    """
    needed = {each.dataset for each in todo} | {each.dataset for each in experiments if Path(each.dataset).is_dir()}
    for name in sorted(needed):
        graphs, data_hash = load_graphs(name, root, mirror)
        for each in experiments:
            row = store.get(each) if each.dataset == name else None
            if row is not None and row["data_hash"] != data_hash:
                raise InputError(
                    f"the row {row['id']} in {store.folder} was made from another state of {name} (data hash "
                    f"{row['data_hash']}, now {data_hash}). Name another results folder (--results), or move the old "
                    "rows away"
                )
        for first in {(each.train_below, each.test_above): each for each in todo if each.dataset == name}.values():
            size_split(graphs, train_below=first.train_below, test_above=first.test_above, seed=first.split_seed)


def _attempt(experiment: Experiment, store: ResultStore, root: str, mirror: str | None, device: str) -> Row | None:
    """Run an experiment unless another process has it (then None) or has finished it meanwhile."""
    lock = store.claim(experiment)
    if lock is None:
        return None
    with lock:
        row = store.get(experiment)
        if row is not None:
            return row
        try:
            row = run(experiment, root=root, mirror=mirror, device=device)
        except Exception as error:  # one bad run of a thousand must not end the others; it is reported as a row
            row = {"id": experiment.id, **asdict(experiment), "status": "failed"}
            row |= {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        store.put(row)
        return row


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("a worker is started by run_missing in a process of its own")

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()

"""PartitionCache: what is reused, what is not, and what damage does."""

import pickle
import signal
import sqlite3
import subprocess
import sys
import time
import warnings

import pytest
import torch

from conftest import HARD_GRAPHS, graph, undirected
from sizeshiftreg import Coarsen
from sizeshiftreg.coarsening import COARSENERS, Coarsener
from sizeshiftreg.coarsening.cache import PartitionCache, partition_key

PATH = graph(20, undirected([(i, i + 1) for i in range(19)]))


@pytest.fixture
def counted(monkeypatch):
    """Make mlgc count its calls."""
    calls = []

    def counting(edge_index, num_nodes, num_clusters, *, generator):
        calls.append(num_clusters)
        return COARSENERS["kmeans"].partition(edge_index, num_nodes, num_clusters, generator=generator)

    monkeypatch.setitem(COARSENERS, "mlgc", Coarsener(counting, 1, 0))
    return calls


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new" / "partitions.sqlite"


def test_what_is_there_is_not_computed_again(counted, file):
    first = Coarsen("mlgc", ratios=(0.5, 0.8), cache=file)(PATH)
    assert counted == [10, 16]
    again = Coarsen("mlgc", ratios=(0.8, 0.9), cache=file)(PATH.clone())
    assert counted == [10, 16, 18]
    assert torch.equal(again.partitions[:, 0], first.partitions[:, 1])


def test_every_graph_of_the_hard_ones_comes_back_as_it_was(file):
    fresh, filled, read = Coarsen("random"), Coarsen("random", cache=file), Coarsen("random", cache=file)
    for item in HARD_GRAPHS.values():
        expected = fresh(item).partitions
        assert torch.equal(filled(item).partitions, expected)
        assert torch.equal(read(item).partitions, expected)
    assert read.cache.hits == 2 * len(HARD_GRAPHS)


def test_another_version_seed_method_or_graph_is_another_entry(counted, file, monkeypatch):
    Coarsen("mlgc", ratios=(0.5,), cache=file)(PATH)
    other = PATH.clone()
    other.edge_index = PATH.edge_index[:, :-2]
    Coarsen("mlgc", ratios=(0.5,), cache=file)(other)
    Coarsen("mlgc", ratios=(0.5,), cache=file, seed=1)(PATH)
    monkeypatch.setitem(COARSENERS, "mlgc", Coarsener(COARSENERS["mlgc"].partition, 2, 0))
    Coarsen("mlgc", ratios=(0.5,), cache=file)(PATH)
    assert len(counted) == 4
    keys = {partition_key(m, 1, 0, PATH.edge_index, n, k) for m in ("a", "b") for n in (3, 4) for k in (1, 2)}
    assert len(keys) == 8


def test_edges_of_another_type_are_no_other_graph(file):
    """Bytes of an int32 graph can be those of another int64 graph."""
    first = torch.tensor([[1, 2, 3], [2, 3, 4]])
    second = first.view(torch.int32).reshape(2, -1)
    assert first.numpy().tobytes() == second.numpy().tobytes()
    for edges in (first, second):
        item = PATH.clone()
        item.edge_index = edges
        expected = Coarsen("mlgc")(item).partitions
        assert torch.equal(Coarsen("mlgc", cache=file)(item).partitions, expected)


def test_a_function_of_ones_own_is_never_stored(file):
    def halves(edge_index, num_nodes, num_clusters, *, generator):
        return torch.arange(num_nodes) * num_clusters // num_nodes

    Coarsen(halves, cache=file)(PATH)
    assert not file.exists()


def entries(file):
    with sqlite3.connect(file) as connection:
        return connection.execute("SELECT key, labels, checksum FROM partitions").fetchall()


@pytest.mark.parametrize("damage", ["labels", "checksum", "shorter", "another entry", "text", "number"])
def test_a_damaged_entry_is_told_and_computed_again(counted, file, damage):
    coarsen = Coarsen("mlgc", ratios=(0.5, 0.8), cache=file)
    expected = coarsen(PATH).partitions
    (key, labels, checksum), (_, other_labels, other_checksum) = entries(file)
    labels, checksum = {
        "labels": (b"\1" + labels[1:] if labels[0] != 1 else b"\0" + labels[1:], checksum),
        "checksum": (labels, b"x" * 8),
        "shorter": (labels[:-4], checksum),
        "another entry": (other_labels, other_checksum),
        "text": ("abc", checksum),
        "number": (7, checksum),
    }[damage]
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE partitions SET labels = ?, checksum = ? WHERE key = ?", (labels, checksum, key))
    with pytest.warns(RuntimeWarning, match="an entry is damaged; the partition is computed again"):
        assert torch.equal(Coarsen("mlgc", ratios=(0.5, 0.8), cache=file)(PATH).partitions, expected)
    assert len(counted) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(Coarsen("mlgc", ratios=(0.5, 0.8), cache=file)(PATH).partitions, expected)
    assert len(counted) == 3


def foreign_database(file):
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE letters (text TEXT)")


FOREIGN = {
    "text": lambda file: file.write_text("Dear Sir or Madam, " * 500),
    "a database": foreign_database,
    "a folder": lambda file: file.mkdir(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_told_and_left_alone(file, kind):
    file.parent.mkdir()
    FOREIGN[kind](file)
    before = file.read_bytes() if file.is_file() else None
    coarsen = Coarsen(cache=file)
    with pytest.warns(RuntimeWarning, match="cannot be used as a cache of partitions"):
        found = coarsen(PATH)
    assert torch.equal(found.partitions, Coarsen()(PATH).partitions)
    with warnings.catch_warnings():  # it is told once
        warnings.simplefilter("error")
        coarsen(PATH)
    assert before is None or file.read_bytes() == before


def test_a_place_that_cannot_be_written_is_told():
    with pytest.warns(RuntimeWarning, match="cannot be used as a cache"):
        Coarsen(cache="/dev/null/partitions.sqlite")(PATH)


def test_copies_have_connections_of_their_own(file):
    coarsen = Coarsen(cache=file)
    coarsen(PATH)
    copy = pickle.loads(pickle.dumps(coarsen))
    copy(PATH)
    assert copy.cache.hits == 2
    assert repr(copy) == repr(Coarsen()), "PyG would take it for other settings"


FILL = """
import sys, torch
from torch_geometric.data import Data
from sizeshiftreg import Coarsen
coarsen = Coarsen("mlgc", cache=sys.argv[1])
for n in range(10, 310):
    ring = torch.stack([torch.arange(n), torch.arange(n).roll(1)])
    coarsen(Data(num_nodes=n, edge_index=ring))
    print(n, flush=True)
print(coarsen.cache.hits)
"""


def test_two_processes_fill_one_cache(file):
    both = [
        subprocess.Popen(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", FILL, file], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    assert len(entries(file)) == 600
    again = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", FILL, file], capture_output=True, text=True, check=True
    )
    assert again.stdout.split()[-1] == "600"


def test_a_killed_process_keeps_what_it_had_finished(file):
    process = subprocess.Popen([sys.executable, "-c", FILL, file], stdout=subprocess.PIPE, text=True)
    finished = 0
    while finished < 100:
        finished = int(process.stdout.readline()) - 9
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.1)
    assert len(entries(file)) >= 200
    cache = PartitionCache(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Coarsen("mlgc", cache=file)(HARD_GRAPHS["star"])
    assert cache.get(b"nothing", 1, 1) is None

"""The coarsen command: what it writes, what it says, and drawings."""

import json
import re
import runpy
import warnings

import matplotlib.image
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from conftest import DATA_ROOT, HARD_GRAPHS, graph, undirected
from sizeshiftreg import Coarsen, InputError, load_dataset, size_split
from sizeshiftreg.coarsening.spectral import spectral_distance
from sizeshiftreg.draw import draw
from sizeshiftreg.export import export


def folder_of(tmp_path, graphs, name="mine"):
    path = tmp_path / name
    path.mkdir()
    torch.save(graphs, path / "graphs.pt")
    return path


def rings(count=6, **changes):
    items = [graph(n, [(i, (i + 1) % n) for i in range(n)], y=n % 2, seed=n) for n in range(10, 10 + count)]
    for name, value in changes.items():
        for item in items:
            item[name] = value
    return items


def test_it_writes_partitions_and_coarse_graphs(command, tmp_path):
    code, _, err = command("coarsen", folder_of(tmp_path, rings()), "--ratio", 0.6, "--ratio", 0.85, "--jobs", 2)
    assert code == 0, err
    expected = [Coarsen(ratios=(0.6, 0.85))(item) for item in rings()]
    whole = torch.load(tmp_path / "coarse/mine/graphs.pt", weights_only=False)
    for found, item in zip(whole, expected, strict=True):
        assert torch.equal(found.partitions, item.partitions)
        assert torch.equal(found.x, item.x)
    for column, ratio in enumerate(("0.6", "0.85")):
        coarse = torch.load(tmp_path / f"coarse/mine/coarse-{ratio}/graphs.pt", weights_only=False)
        for found, item in zip(coarse, expected, strict=True):
            q = torch.nn.functional.one_hot(item.partitions[:, column]).double()
            dense = to_dense_adj(found.edge_index, edge_attr=found.edge_weight, max_num_nodes=q.size(1))[0]
            torch.testing.assert_close(dense.double(), q.T @ to_dense_adj(item.edge_index)[0].double() @ q)
            assert found.cluster_size.tolist() == q.sum(0).tolist()
            torch.testing.assert_close(found.x.double(), (q.T @ item.x.double()) / q.sum(0)[:, None])
    assert [item.num_nodes for item in load_dataset(tmp_path / "coarse/mine/coarse-0.6")] == [6, 6, 7, 7, 8, 9]
    assert "partitions" in load_dataset(tmp_path / "coarse/mine")[0]


def test_its_summary_tells_sizes_distance_method_and_time(command, tmp_path):
    code, out, err = command("coarsen", folder_of(tmp_path, rings()), "--method", "mlgc")
    assert code == 0, err
    assert all(len(line) <= 80 for line in out.splitlines()[:8])
    cells = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert cells["mine"][1:4] == ["6", "75", "75"]
    expected = [Coarsen("mlgc")(item) for item in rings()]
    for column, ratio in enumerate(("0.8", "0.9")):
        nodes = sum(int(item.partitions[:, column].max()) + 1 for item in expected)
        distance = np.mean([spectral_distance(item.edge_index, item.partitions[:, column]) for item in expected])
        assert cells[ratio][1] == str(nodes)
        assert float(cells[ratio][3]) == pytest.approx(distance, abs=6e-4)
    assert "method: mlgc (6 graphs)" in out
    assert re.search(r"time: \d+\.\d s on one thread, after \d+\.\d s to compile or load", out)
    assert "over 6 of 6 graphs" in out
    assert "directed: 6 graphs have edges in one direction only; they counted in both" in out
    assert "cache:" not in out
    _, again, _ = command("coarsen", tmp_path / "mine", "--method", "mlgc")
    assert "cache: 12 of 12 partitions were there" in again
    _, anew, _ = command("coarsen", tmp_path / "mine", "--method", "mlgc", "--no-cache")
    assert "cache:" not in anew


def test_graphs_without_classes_and_features_can_be_coarsened(command, tmp_path):
    bare = [Data(edge_index=item.edge_index, num_nodes=item.num_nodes) for item in rings()]
    code, out, err = command("coarsen", folder_of(tmp_path, bare), "--method", "auto", "--plot", 0)
    assert code == 0, err
    assert "method: sgc (6 graphs)" in out
    coarse = load_dataset(tmp_path / "coarse/mine/coarse-0.8", bare=True)
    assert [item.num_nodes for item in coarse] == [8, 8, 9, 10, 11, 12]
    assert (tmp_path / "coarse/mine/graph-0.png").exists()


def test_the_pool_alone_can_be_coarsened(command, tmp_path):
    code, out, err = command("coarsen", "toy_density", "--part", "pool", "--method", "heavy_edge", "--plot", 3)
    assert code == 0, err
    assert re.search(r"toy_density +300 ", out)
    summary = json.loads((tmp_path / "coarse/toy_density/summary.json").read_text())
    assert summary["numbers"] == size_split(load_dataset("toy_density")).pool.tolist()
    assert (summary["part"], summary["coarsen"]) == ("pool", "Coarsen(heavy_edge, ratios=(0.8, 0.9), seed=0)")
    assert (tmp_path / f"coarse/toy_density/graph-{summary['numbers'][3]}.png").exists()


def test_attributes_of_the_graphs_are_kept(command, tmp_path):
    items = rings()
    for item in items:
        item.edge_weight = torch.full((item.num_edges,), 2.0)
        item.pos = torch.rand(item.num_nodes, 2)
    items[0].only_here = torch.ones(3)
    code, _, err = command("coarsen", folder_of(tmp_path, items))
    assert code == 0, err
    whole = torch.load(tmp_path / "coarse/mine/graphs.pt", weights_only=False)
    assert all(torch.equal(found.pos, item.pos) for found, item in zip(whole, items, strict=True))
    coarse = torch.load(tmp_path / "coarse/mine/coarse-0.8/graphs.pt", weights_only=False)
    assert [float(found.edge_weight.sum()) for found in coarse] == [2.0 * item.num_edges for item in items]


def test_graphs_of_ones_own_are_never_overwritten(command, tmp_path):
    mine = folder_of(tmp_path, rings())
    before = (mine / "graphs.pt").read_bytes()
    code, _, err = command("coarsen", mine, "--out", tmp_path)
    assert code == 2
    assert "is where the graphs come from" in " ".join(err.split())
    (tmp_path / "coarse" / "mine").mkdir(parents=True)
    torch.save(rings(), tmp_path / "coarse" / "mine" / "other.pt")
    code, _, err = command("coarsen", mine)
    assert code == 2
    assert "holds graphs that were not written by `coarsen`" in " ".join(err.split())
    assert (mine / "graphs.pt").read_bytes() == before


def test_what_an_earlier_call_wrote_is_replaced(command, tmp_path):
    mine = folder_of(tmp_path, rings())
    command("coarsen", mine)
    code, _, err = command("coarsen", mine, "--ratio", 0.5)
    assert code == 0, err
    found = sorted(path.name for path in (tmp_path / "coarse/mine").iterdir())
    assert found == ["coarse-0.5", "graphs.pt", "summary.json"]


def test_a_graph_too_large_to_draw_is_told_before_anything_is_computed(command, tmp_path):
    big = graph(501, [(0, 1)])
    code, _, err = command("coarsen", folder_of(tmp_path, [*rings(), big]), "--plot", 6)
    assert code == 2
    assert "at most 500 nodes; got 501" in " ".join(err.split())
    assert not (tmp_path / "coarse").exists()


def test_a_cache_that_cannot_be_used_is_told_in_a_line(command, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "partitions.sqlite").write_text("Dear Sir or Madam, " * 500)
    code, _, err = command("coarsen", folder_of(tmp_path, rings()))
    assert code == 0
    assert " ".join(err.split()).startswith("warning: data/partitions.sqlite cannot be used as a cache")
    assert "cache.py" not in err


def test_large_graphs_take_the_sparse_path_and_it_says_so(tmp_path):
    nodes = torch.arange(600)
    big = Data(x=torch.ones(600, 1), edge_index=torch.stack([nodes, nodes.roll(1)]))
    summary = export([*rings(), big], Coarsen(), None)
    assert (summary.graphs, summary.sparse, summary.sampled) == (7, 1, 6)
    assert list(tmp_path.iterdir()) == []


BAD = {
    "method": (["--method", "louvain"], "expected one of sgc, mlgc"),
    "ratio": (["--ratio", 1.5], "between 0 and 1"),
    "part": (["--part", "half"], "part: expected one of all, pool; got 'half'"),
    "plot": (["--plot", 6], "plot: expected a graph of mine, 0 to 5; got 6"),
    "out": (["--out", "/dev/null/x"], "cannot write to the folder /dev/null/x/mine"),
    "jobs": (["--jobs", 0], "--jobs"),
    "features": (["--features", "median"], "--features"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_words_are_refused(command, tmp_path, name):
    words, message = BAD[name]
    code, out, err = command("coarsen", folder_of(tmp_path, rings()), *words)
    assert code == 2
    assert message in " ".join(err.split()), err
    assert "Traceback" not in out + err


def test_data_sets_of_one_name_are_refused(command, tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    code, _, err = command("coarsen", folder_of(first, rings()), folder_of(second, rings()))
    assert code == 2
    assert "expected different names" in err


@pytest.mark.parametrize("name", HARD_GRAPHS)
def test_every_hard_graph_can_be_drawn(name, tmp_path):
    item = Coarsen(ratios=(0.5, 0.9))(HARD_GRAPHS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(item, {"half": item.partitions[:, 0], "most": item.partitions[:, 1]}, tmp_path / "new" / "it.png")
    picture = matplotlib.image.imread(tmp_path / "new" / "it.png")
    assert picture[..., :3].std() > 0.01, "the picture is empty"


def test_kinds_of_nodes_are_coloured(tmp_path):
    star = graph(9, undirected([(0, leaf) for leaf in range(1, 9)]))
    star.x = torch.eye(2)[[0] + [1] * 8]
    draw(star, {"coarse": torch.tensor([0, *[1] * 8])}, tmp_path / "two kinds.png")
    star.x = torch.eye(2)[[1] * 9]
    draw(star, {"coarse": torch.tensor([0, *[1] * 8])}, tmp_path / "one kind.png")
    orange = np.array([0xE6, 0x9F, 0x00]) / 255
    for name, drawn in (("two kinds", True), ("one kind", False)):
        picture = matplotlib.image.imread(tmp_path / f"{name}.png")[..., :3]
        assert (np.isclose(picture, orange, atol=0.02).all(-1).sum() > 100) == drawn


def test_what_cannot_be_drawn_is_refused(tmp_path):
    big = graph(501, [(0, 1)])
    with pytest.raises(InputError, match="a graph of at most 500 nodes; got 501"):
        draw(big, {}, tmp_path / "it.png")
    with pytest.raises(InputError, match=r"cannot be written to .*it\.doc"):
        draw(graph(3, [(0, 1)]), {}, tmp_path / "it.doc")


@pytest.mark.data
@pytest.mark.slow
def test_the_pools_of_all_five_data_sets_take_less_than_two_minutes(command, mirror, tmp_path):
    """SGC at both ratios, on one thread, after the compile; the command says so."""
    names = ["NCI1", "NCI109", "PROTEINS", "DD", "deezer_ego_nets"]
    code, out, err = command("coarsen", *names, "--part", "pool", "--no-cache", "--root", DATA_ROOT)
    assert code == 0, err
    seconds = float(re.search(r"time: (\d+\.\d) s on one thread", out)[1])
    assert seconds < 120
    assert "method: sgc (10,289 graphs)" in out


@pytest.mark.data
def test_the_figures_of_the_docs_can_be_drawn(mirror, tmp_path, monkeypatch):
    monkeypatch.chdir(DATA_ROOT.parent)
    namespace = runpy.run_path("docs/figures.py")
    namespace["main"](tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["molecule.png", "protein.png"]
    assert sorted(path.name for path in namespace["FOLDER"].iterdir()) == ["molecule.png", "protein.png"]

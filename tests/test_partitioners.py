"""The contract that every coarsening method keeps, and the Coarsen transform."""

import hashlib
import logging
import time
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from conftest import HARD_GRAPHS, graph, undirected
from sizeshiftreg import Coarsen, InputError, contract
from sizeshiftreg.coarsening import COARSENERS
from sizeshiftreg.coarsening.spectral import spectral_distance


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("method", COARSENERS)
@pytest.mark.parametrize("name", HARD_GRAPHS)
def test_labels_are_consecutive_and_none_is_empty(method, name):
    item = HARD_GRAPHS[name]
    for num_clusters in range(1, item.num_nodes + 1):
        labels = COARSENERS[method].partition(item.edge_index, item.num_nodes, num_clusters, generator=seeded())
        assert labels.dtype == torch.long
        assert labels.shape == (item.num_nodes,)
        assert labels.unique().tolist() == list(range(num_clusters))


@pytest.mark.parametrize("method", COARSENERS)
@given(st.integers(1, 30), st.floats(0.05, 1), st.integers(0, 5), st.data())
def test_any_graph_gets_the_clusters_asked_for(method, num_nodes, share, seed, data):
    node = st.integers(0, num_nodes - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=3 * num_nodes))
    num_clusters = max(1, int(share * num_nodes))
    item = graph(num_nodes, edges)
    first, again = (
        COARSENERS[method].partition(item.edge_index, num_nodes, num_clusters, generator=seeded(seed)) for _ in range(2)
    )
    assert first.unique().tolist() == list(range(num_clusters))
    assert torch.equal(first, again)


DETERMINED = [method for method in COARSENERS if method != "random"]


def giant(kind):
    """Graphs beyond every dense limit: the number of nodes and the edges."""
    nodes = torch.arange(5001)
    if kind == "star":
        return 5001, torch.stack([torch.zeros(5000, dtype=torch.long), nodes[1:]])
    if kind == "complete":
        return 1100, torch.combinations(nodes[:1100]).t()
    if kind == "rings and isolated nodes":
        part = nodes[:4000] // 4 * 4
        return 4500, torch.stack([nodes[:4000], part + (nodes[:4000] + 1) % 4])
    draw = torch.Generator().manual_seed(0)
    return 1500, torch.randint(1500, (2, 4000), generator=draw)  # self-loops, parallel and directed edges too


GIANTS = ["star", "complete", "rings and isolated nodes", "random"]


@pytest.mark.parametrize("kind", GIANTS)
@pytest.mark.parametrize("method", COARSENERS)
def test_large_graphs_keep_the_contract(method, kind):
    num_nodes, edge_index = giant(kind)
    for num_clusters in (1, int(0.9 * num_nodes)):
        labels = COARSENERS[method].partition(edge_index, num_nodes, num_clusters, generator=seeded())
        assert labels.unique().tolist() == list(range(num_clusters))


@pytest.mark.parametrize("method", ["sgc", "mlgc", "kmeans"])
def test_leaves_of_a_large_star_are_merged_before_the_hub(method):
    num_nodes, edge_index = giant("star")
    labels = COARSENERS[method].partition(edge_index, num_nodes, 4000, generator=seeded())
    assert int((labels == labels[0]).sum()) == 1


@pytest.mark.parametrize("method", DETERMINED)
def test_above_its_limit_a_method_makes_no_dense_matrix(method, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a dense matrix was made")

    for module in ("spectral", "multilevel", "clustering"):
        monkeypatch.setattr(f"sizeshiftreg.coarsening.{module}.dense_adjacency", refuse)
    monkeypatch.setattr("scipy.linalg.eigh", refuse)
    monkeypatch.setattr("scipy.sparse.csr_array.toarray", refuse)
    num_nodes = COARSENERS[method].sparse_above + 1
    nodes = torch.arange(max(num_nodes, 50))
    edge_index = torch.stack([nodes, nodes.roll(1)])
    labels = COARSENERS[method].partition(edge_index, len(nodes), len(nodes) // 2, generator=seeded())
    assert labels.unique().numel() == len(nodes) // 2


@pytest.mark.parametrize("method", ["sgc", "mlgc", "kmeans"])
def test_the_sparse_path_is_nearly_as_good_as_the_exact_one(method, monkeypatch):
    """Measured by the spectral distance, on graphs that both can take."""
    exact, sparse, by_chance = [], [], []
    limits = {"sgc": "spectral.SGC_DENSE_LIMIT", "mlgc": "multilevel.DENSE_LIMIT", "kmeans": "clustering.DENSE_LIMIT"}
    for seed in range(5):
        edge_index = torch.randint(120, (2, 200), generator=seeded(seed))
        task = (edge_index, 120, 96)
        exact.append(spectral_distance(edge_index, COARSENERS[method].partition(*task, generator=seeded())))
        with monkeypatch.context() as patch:
            patch.setattr(f"sizeshiftreg.coarsening.{limits[method]}", 10)
            sparse.append(spectral_distance(edge_index, COARSENERS[method].partition(*task, generator=seeded())))
        by_chance.append(spectral_distance(edge_index, COARSENERS["random"].partition(*task, generator=seeded())))
    assert sum(sparse) < 1.3 * sum(exact)
    assert sum(sparse) < 0.6 * sum(by_chance)


def spider(legs):
    """A centre with many neighbours, each with a leaf of its own: rows that have only the hub in common."""
    leg = torch.arange(1, legs + 1)
    return 2 * legs + 1, torch.stack([torch.cat([torch.zeros_like(leg), leg]), torch.cat([leg, leg + legs])])


@pytest.mark.parametrize("method", COARSENERS)
def test_hubs_cost_no_square(method):
    """The time of ten times the nodes is far below a hundred times."""
    taken = []
    for legs in (1000, 10_000):
        num_nodes, edge_index = spider(legs)
        start = time.perf_counter()
        labels = COARSENERS[method].partition(edge_index, num_nodes, num_nodes // 10, generator=seeded())
        taken.append(time.perf_counter() - start)
        assert labels.unique().numel() == num_nodes // 10
    assert taken[1] < 30 * taken[0] + 1


@pytest.mark.parametrize("method", COARSENERS)
@pytest.mark.parametrize(
    ("edges", "num_clusters", "message"),
    [
        ([[0], [1]], 0, "expected 1 to 5 clusters"),
        ([[0], [1]], 6, "expected 1 to 5 clusters, the number of nodes; got 6"),
        ([[0], [-1]], 2, "expected edges between the nodes 0 to 4; got ends from -1 to 0"),
        ([[0], [7]], 2, "got ends from 0 to 7"),
        ([[0.5], [1.0]], 2, "integers; got torch.float32"),
        ([0, 1], 2, r"of shape \[2, num_edges\]"),
    ],
)
def test_what_is_no_graph_is_refused(method, edges, num_clusters, message):
    with pytest.raises(InputError, match=message):
        COARSENERS[method].partition(torch.tensor(edges), 5, num_clusters, generator=seeded())


def test_threads_leave_the_warnings_of_the_process_alone():
    """Large graphs, where LOBPCG warns that it has not converged."""
    nodes = torch.arange(1500)
    ring = Data(num_nodes=1500, edge_index=torch.stack([nodes, nodes.roll(1)]))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        before = list(warnings.filters)
        found = list(Coarsen("variation_edges").map([ring] * 8, jobs=4))
        assert warnings.filters == before
    assert all(torch.equal(item.partitions, found[0].partitions) for item in found)


def test_graphs_are_taken_as_they_are_needed():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield graph(4, [(0, 1)])

    coarse = Coarsen("random").map(endless(), jobs=2)
    next(coarse)
    coarse.close()
    assert len(taken) < 50


# Whoever changes what a method returns raises its version, so that no cache mixes the two, and puts the digest here.
DIGESTS = {
    "sgc": (2, "5dabd757abae"),
    "mlgc": (1, "f5809e35beba"),
    "spectral_clustering": (1, "4e421fc42aa2"),
    "kmeans": (1, "faf277562a85"),
    "variation_neighbourhoods": (1, "d594f3beb0e0"),
    "variation_edges": (1, "76ea4ee7cc9a"),
    "heavy_edge": (1, "9030f083eef1"),
    "random": (1, "8cd05fdc1bd0"),
}


@pytest.mark.parametrize("method", COARSENERS)
def test_other_partitions_take_another_version(method):
    digest = hashlib.sha256()
    for num_nodes, num_edges, ratio in ((30, 45, 0.8), (150, 300, 0.4), (400, 800, 0.8), (1200, 3000, 0.8)):
        edge_index = torch.randint(num_nodes, (2, num_edges), generator=seeded(num_nodes))
        labels = COARSENERS[method].partition(edge_index, num_nodes, int(ratio * num_nodes), generator=seeded())
        digest.update(labels.numpy().tobytes())
    assert (COARSENERS[method].version, digest.hexdigest()[:12]) == DIGESTS[method]


@pytest.mark.parametrize("method", DETERMINED)
def test_direction_and_parallel_edges_do_not_matter(method):
    tree = undirected([(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (4, 6)])
    expected = Coarsen(method, ratios=(0.6,))(graph(7, tree)).partitions
    for edges in (tree[:6], [*tree, (0, 1), (3, 4)]):
        assert torch.equal(Coarsen(method, ratios=(0.6,))(graph(7, edges)).partitions, expected)


def test_coarsen_writes_one_column_per_ratio_and_nothing_else():
    item = HARD_GRAPHS["complete"]
    coarse = Coarsen(ratios=(0.5, 0.9))(item)
    assert coarse.partitions.max(dim=0).values.tolist() == [2, 4]
    assert set(coarse.keys()) - set(item.keys()) == {"partitions"}
    assert "partitions" not in item, "the graph given was changed"


@pytest.mark.parametrize(
    ("num_nodes", "ratio", "num_clusters"),
    [(1, 0.8, 1), (2, 0.1, 1), (100, 0.29, 29), (100, 0.57, 57), (10, 0.7, 7), (15, 0.8, 12)],
)
def test_number_of_clusters_is_the_floor_of_the_decimal(num_nodes, ratio, num_clusters):
    item = graph(num_nodes, [])
    assert int(Coarsen("random", ratios=(ratio,))(item).partitions.max()) + 1 == num_clusters


def test_partitions_survive_batching_and_belong_to_their_graph():
    coarsen = Coarsen("random", ratios=(0.5, 0.8))
    items = [coarsen(HARD_GRAPHS[name]) for name in ("star", "one node", "complete")]
    batch = Batch.from_data_list(items)
    assert torch.equal(batch.partitions, torch.cat([item.partitions for item in items]))
    assert torch.equal(batch[2].partitions, items[2].partitions)


@pytest.mark.parametrize("method", COARSENERS)
@pytest.mark.parametrize("name", HARD_GRAPHS)
def test_coarse_features_and_edges_belong_together(method, name):
    """Every node has a feature of its own, so the features tell which nodes a coarse node holds; its edges must too."""
    item = HARD_GRAPHS[name].clone()
    item.x = torch.eye(item.num_nodes)
    labels = Coarsen(method, ratios=(0.6,))(item).partitions[:, 0]
    coarse = contract(item, labels, reduce="sum")
    members = [set(row.nonzero().flatten().tolist()) for row in coarse.x]
    expected = {
        (a, b)
        for a, from_here in enumerate(members)
        for b, to_there in enumerate(members)
        if any(source in from_here and target in to_there for source, target in item.edge_index.t().tolist())
    }
    assert set(map(tuple, coarse.edge_index.t().tolist())) == expected
    assert sorted(node for nodes in members for node in nodes) == list(range(item.num_nodes))


def test_a_partition_depends_on_the_graph_and_the_seed_alone():
    coarsen, item = Coarsen("random"), HARD_GRAPHS["star"]
    first = coarsen(item).partitions
    coarsen(HARD_GRAPHS["complete"])
    assert torch.equal(coarsen(item).partitions, first)
    assert not torch.equal(Coarsen("random", seed=1)(item).partitions, first)


def test_different_graphs_of_one_size_draw_differently():
    path, ring = [(i, i + 1) for i in range(19)], [(i, (i + 1) % 20) for i in range(20)]
    first, second = (Coarsen("random")(graph(20, edges)).partitions for edges in (path, ring))
    assert not torch.equal(first[:, 0], second[:, 0])


@pytest.mark.parametrize("method", COARSENERS)
def test_the_number_of_threads_does_not_matter(method):
    items = [graph(n, torch.randint(n, (2, 2 * n), generator=seeded(n)).t().tolist()) for n in range(3, 60)]
    coarsen = Coarsen(method)
    one, three = (list(coarsen.map(items, jobs=jobs)) for jobs in (1, 3))
    assert [item.num_nodes for item in three] == list(range(3, 60))
    assert all(torch.equal(a.partitions, b.partitions) for a, b in zip(one, three, strict=True))


def test_a_graph_that_cannot_be_coarsened_stops_the_others():
    items = [graph(4, []), Data(x=torch.ones(3, 1)), *[graph(4, [])] * 100]
    with pytest.raises(InputError, match="`edge_index`"):
        list(Coarsen().map(items, jobs=2))
    with pytest.raises(InputError, match="jobs: expected at least 1; got 0"):
        list(Coarsen().map(items, jobs=0))


def test_auto_chooses_by_size_and_says_so(caplog, monkeypatch):
    monkeypatch.setattr("sizeshiftreg.coarsening._AUTO_SGC_LIMIT", 10)
    small, large = graph(10, undirected([(0, i) for i in range(1, 10)])), graph(11, undirected([(0, 1), (2, 3)]))
    with caplog.at_level(logging.INFO, logger="sizeshiftreg"):
        for item, method in ((small, "sgc"), (large, "heavy_edge")):
            assert torch.equal(Coarsen("auto")(item).partitions, Coarsen(method)(item).partitions)
            assert f"auto: {method} for a graph of {item.num_nodes} nodes" in caplog.text
            assert Coarsen("auto").chosen(item.num_nodes) == method


def test_a_function_of_ones_own_works_by_being_passed_in():
    def halves(edge_index, num_nodes, num_clusters, *, generator):
        return torch.arange(num_nodes) * num_clusters // num_nodes

    assert Coarsen(halves, ratios=(0.5,))(graph(4, [])).partitions.flatten().tolist() == [0, 0, 1, 1]
    assert "halves" in repr(Coarsen(halves))


def test_its_text_names_every_setting_for_pyg_to_compare():
    assert repr(Coarsen("random", ratios=(0.5,), seed=3)) == "Coarsen(random, ratios=(0.5,), seed=3)"


@pytest.mark.parametrize("ratios", [(), (0,), (1.0,), (0.8, 0.8), (-0.5,), (float("nan"),), 0.8, ("a",)])
def test_ratios_outside_0_to_1_are_refused(ratios):
    with pytest.raises(InputError, match=r"ratios: expected .* between 0 and 1"):
        Coarsen(ratios=ratios)


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="expected one of sgc, mlgc, .*, random, auto; got 'scg'"):
        Coarsen("scg")


def test_graphs_that_cannot_be_coarsened_are_refused():
    with pytest.raises(InputError, match="expected a graph with nodes"):
        Coarsen()(Data(num_nodes=0, edge_index=torch.empty(2, 0, dtype=torch.long)))
    with pytest.raises(InputError, match="`edge_index`"):
        Coarsen()(Data(x=torch.ones(3, 1)))


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1], [0, 1, 2, 3], [0, 2, 0, 2]])
def test_a_function_that_breaks_the_contract_is_named(labels):
    def broken(edge_index, num_nodes, num_clusters, *, generator):
        return torch.tensor(labels)

    with pytest.raises(InputError, match=r"method .*broken: expected 4 labels, 0 to 1 and none empty"):
        Coarsen(broken, ratios=(0.5,))(graph(4, []))

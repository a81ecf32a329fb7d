"""SGC: its pieces against plain definitions, and its quality against the published code."""

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import graph, undirected
from sizeshiftreg.coarsening.adjacency import dense_adjacency
from sizeshiftreg.coarsening.agglomeration import agglomerate
from sizeshiftreg.coarsening.spectral import normalised_laplacian, sgc, spectral_distance

QUALITY = json.loads((Path(__file__).parent / "published_coarsening.json").read_text())


PAIR = torch.tensor([[0, 1], [1, 0]])


def laplacian(weights):
    """Plain loops over I - D^-1/2 W D^-1/2."""
    n = len(weights)
    result = np.eye(n)
    for i in range(n):
        for j in range(n):
            if weights[i].sum() > 0 and weights[j].sum() > 0:
                result[i, j] -= weights[i, j] / np.sqrt(weights[i].sum() * weights[j].sum())
    return result


def plain_distance(adjacency, labels):
    """The spectral distance straight from its definition."""
    n, k_clusters = len(adjacency), max(labels) + 1
    q = np.eye(k_clusters)[labels]
    eigenvalues = np.sort(np.linalg.eigvalsh(laplacian(adjacency)))
    coarse = np.sort(np.linalg.eigvalsh(laplacian(q.T @ adjacency @ q)))
    best = np.inf
    for k in range(k_clusters):
        low, high = eigenvalues[: k + 1], eigenvalues[n - (k_clusters - k - 1) :]
        if (low > 1 + 1e-9).any() or (high < 1 - 1e-9).any():
            continue
        kept = np.concatenate([low, high])
        best = min(best, np.abs(kept - coarse).sum())
    return best


def random_graph(draw, max_nodes=12):
    n = draw(st.integers(3, max_nodes))
    seed = draw(st.integers(0, 10_000))
    drawn = nx.gnp_random_graph(n, draw(st.floats(0.1, 0.9)), seed=seed)
    return nx.to_numpy_array(drawn), torch.tensor(list(drawn.to_directed().edges), dtype=torch.long).view(-1, 2).t()


@given(st.data())
def test_distance_equals_its_definition(data):
    adjacency, edge_index = random_graph(data.draw)
    n = len(adjacency)
    num_clusters = data.draw(st.integers(1, n - 1))
    labels = [*range(num_clusters), *data.draw(st.lists(st.integers(0, num_clusters - 1), min_size=n, max_size=n))][:n]
    assert spectral_distance(edge_index, torch.tensor(labels)) == pytest.approx(
        plain_distance(adjacency, labels), abs=1e-8
    )


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 1000), st.data())
def test_agglomeration_equals_wards_rule_by_exhaustion(num_nodes, width, seed, data):
    points = np.random.default_rng(seed).normal(size=(num_nodes, width))
    num_clusters = data.draw(st.integers(1, num_nodes))

    def objective(clusters):
        return sum(np.sum(points[c].sum(0) ** 2) / len(c) for c in clusters)

    clusters = [[i] for i in range(num_nodes)]
    while len(clusters) > num_clusters:
        pairs = [(a, b) for a in range(len(clusters)) for b in range(a + 1, len(clusters))]
        merged = [
            [c for i, c in enumerate(clusters) if i not in pair] + [clusters[pair[0]] + clusters[pair[1]]]
            for pair in pairs
        ]
        clusters = max(merged, key=objective)
    labels = agglomerate(points @ points.T, num_clusters)
    found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in range(num_clusters)}
    assert found == {frozenset(cluster) for cluster in clusters}


def test_the_dropped_coordinates_measure_the_k_means_objective_of_the_kept_ones():
    """The identity that the method rests on, on a random orthonormal basis and random partitions."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    kept, dropped = basis[:, :6], basis[:, 6:]
    gaps = []
    for _ in range(20):
        labels = np.concatenate([np.arange(6), rng.integers(6, size=3)])
        clusters = [labels == label for label in range(6)]
        k_means = sum(((kept[c] - kept[c].mean(0)) ** 2).sum() for c in clusters)
        ours = sum((dropped[c].sum(0) ** 2).sum() / c.sum() for c in clusters)
        gaps.append(k_means - ours)
    np.testing.assert_allclose(gaps, 0, atol=1e-12)


def test_twins_are_merged_first():
    """Leaves of a star are twins: merging them changes no kept eigenvalue."""
    star = graph(21, undirected([(0, leaf) for leaf in range(1, 21)]))
    labels = sgc(star.edge_index, 21, 16, generator=torch.Generator())
    assert int((labels == labels[0]).sum()) == 1, "the hub was merged with a leaf"
    assert len(labels.unique()) == 16
    assert spectral_distance(star.edge_index, labels) == pytest.approx(0, abs=1e-9)


def test_isolated_nodes_have_eigenvalue_1():
    """As in the published code: an edge and two isolated nodes have the spectrum 0, 1, 1, 2; merging those is free."""
    np.testing.assert_allclose(
        np.linalg.eigvalsh(normalised_laplacian(dense_adjacency(PAIR, 4))), [0, 1, 1, 2], atol=1e-12
    )
    assert sgc(PAIR, 4, 3, generator=torch.Generator()).unique().numel() == 3
    assert spectral_distance(PAIR, torch.tensor([0, 1, 2, 2])) == pytest.approx(0, abs=1e-12)


@pytest.mark.data
@pytest.mark.parametrize("name", ["NCI1", "PROTEINS"])
@pytest.mark.parametrize("ratio", [0.8, 0.9])
def test_quality_is_no_worse_than_the_published_codes(name, ratio, paper_dataset):
    dataset = paper_dataset(name)
    cases = [case for case in QUALITY["cases"] if case["dataset"] == name and case["ratio"] == ratio]
    assert len(cases) == 15
    ours = []
    for case in cases:
        item = dataset[case["graph"]]
        assert item.num_nodes == case["num_nodes"]
        labels = sgc(item.edge_index, item.num_nodes, case["num_clusters"], generator=torch.Generator())
        ours.append(spectral_distance(item.edge_index, labels))
    assert np.mean(ours) <= np.mean([case["sgc_ninit10"] for case in cases])
    assert np.mean(ours) <= np.mean([case["best_of_reruns"] for case in cases])

"""Spectral clustering and k-means: against scikit-learn, and what they partition is what is contracted."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.manifold import spectral_embedding

from conftest import graph, undirected
from sizeshiftreg import Coarsen, contract
from sizeshiftreg.coarsening.agglomeration import cluster
from sizeshiftreg.coarsening.clustering import kmeans, spectral_clustering


def inertia(points, labels):
    return sum(((points[labels == c] - points[labels == c].mean(0)) ** 2).sum() for c in np.unique(labels))


def random_adjacency(seed, n=40, share=0.1):
    drawn = np.triu(np.random.default_rng(seed).random((n, n)) < share, 1)
    return (drawn | drawn.T).astype(float)


def edges_of(adjacency):
    return torch.from_numpy(np.array(np.nonzero(adjacency)))


@given(st.integers(3, 14), st.integers(1, 4), st.integers(0, 1000), st.data())
def test_no_single_move_lowers_the_objective(num_points, width, seed, data):
    points = np.random.default_rng(seed).normal(size=(num_points, width))
    num_clusters = data.draw(st.integers(1, num_points))
    labels = cluster(points @ points.T, num_clusters)
    assert sorted(set(labels.tolist())) == list(range(num_clusters))
    reached = inertia(points, labels)
    for point in range(num_points):
        if (labels == labels[point]).sum() > 1:
            for other in range(num_clusters):
                moved = labels.copy()
                moved[point] = other
                assert inertia(points, moved) >= reached - 1e-8


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
def test_kmeans_reaches_the_objective_of_scikit_learn(share):
    ours, theirs = [], []
    for seed in range(10):
        adjacency = random_adjacency(seed)
        k = int(share * len(adjacency))
        labels = kmeans(edges_of(adjacency), len(adjacency), k, generator=torch.Generator()).numpy()
        ours.append(inertia(adjacency, labels))
        theirs.append(KMeans(k, n_init=10, random_state=0).fit(adjacency).inertia_)
    assert np.mean(ours) <= np.mean(theirs)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
def test_spectral_clustering_reaches_the_objective_of_scikit_learn_in_its_embedding(share):
    """On connected graphs with distinct eigenvalues the embedding is the same but for signs."""
    ours, theirs = [], []
    for seed in range(10):
        adjacency = random_adjacency(seed)
        adjacency[range(39), range(1, 40)] = adjacency[range(1, 40), range(39)] = 1
        k = int(share * len(adjacency))
        points = spectral_embedding(adjacency, n_components=k, drop_first=False, random_state=0)
        labels = spectral_clustering(edges_of(adjacency), len(adjacency), k, generator=torch.Generator()).numpy()
        ours.append(inertia(points, labels))
        theirs.append(KMeans(k, n_init=10, random_state=0).fit(points).inertia_)
    assert np.mean(ours) <= np.mean(theirs) * 1.01


def test_components_are_clusters():
    rings = [(5 * part + i, 5 * part + (i + 1) % 5) for part in range(4) for i in range(5)]
    labels = spectral_clustering(graph(20, rings).edge_index, 20, 4, generator=torch.Generator())
    assert labels.tolist() == [part for part in range(4) for _ in range(5)]


@pytest.mark.parametrize("method", ["spectral_clustering", "kmeans"])
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_what_is_contracted_is_what_was_partitioned(method, seed):
    """The published code orders the coarse nodes by label in the features and otherwise in the edges.

    Here edges and features, through `Coarsen` and `contract`, must both equal those of the partition: Q^T A Q, and the
    mean over every cluster.
    """
    adjacency = random_adjacency(seed, n=14, share=0.25)
    item = graph(14, edges_of(adjacency).t().tolist(), width=3, seed=seed)
    coarsened = Coarsen(method, ratios=(0.5,))(item)
    labels = coarsened.partitions[:, 0]
    coarse = contract(coarsened, labels, edge_weight=True)
    q = np.eye(7)[labels]
    found = np.zeros((7, 7))
    found[tuple(coarse.edge_index.numpy())] = coarse.edge_weight.numpy()
    np.testing.assert_array_equal(found, q.T @ adjacency @ q)
    np.testing.assert_allclose(coarse.x.numpy(), (q.T @ item.x.numpy()) / q.sum(0)[:, None], rtol=1e-5)


def test_twins_share_a_cluster():
    """On a star of 20 the published k-means leaves 2 clusters of the 16 asked for."""
    star = graph(20, undirected([(0, leaf) for leaf in range(1, 20)]))
    labels = kmeans(star.edge_index, 20, 16, generator=torch.Generator())
    assert labels.unique().numel() == 16
    assert int((labels == labels[0]).sum()) == 1

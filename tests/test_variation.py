"""Local variation and heavy-edge matching: costs and choices against dense formulas and plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from sizeshiftreg.coarsening.matching import heavy_edge
from sizeshiftreg.coarsening.variation import (
    _contract_neighbourhoods,
    _cost,
    _lowest,
    _whiten,
    variation_edges,
    variation_neighbourhoods,
)


def weighted(seed, n=9, share=0.4):
    rng = np.random.default_rng(seed)
    drawn = np.triu(np.where(rng.random((n, n)) < share, rng.integers(1, 4, (n, n)), 0), 1).astype(float)
    return drawn + drawn.T


def set_cost(weights, signals, nodes):
    """The published cost of a set C, densely: ||(I - mean over C) A||^2 in the norm of L_C, for each node saved.

    L_C has the edges inside C once and those that leave it twice.
    """
    inside = np.zeros(len(weights), dtype=bool)
    inside[list(nodes)] = True
    w = weights[inside][:, inside]
    leaving = 2 * weights[inside][:, ~inside].sum(1)
    laplacian = np.diag(w.sum(1) + leaving) - w
    centred = signals[inside] - signals[inside].mean(0)
    return np.trace(centred.T @ laplacian @ centred) / (len(nodes) - 1)


@given(st.integers(0, 10_000), st.sets(st.integers(0, 8), min_size=2, max_size=6))
def test_the_cost_of_a_set_equals_the_dense_formula(seed, nodes):
    weights = weighted(seed)
    signals = np.random.default_rng(seed).normal(size=(9, 3))
    rows = sp.csr_array(weights)
    found = _cost(
        rows.indptr, rows.indices, rows.data, weights.sum(1), signals, np.array(sorted(nodes)), np.zeros(9, dtype=bool)
    )
    assert found == pytest.approx(set_cost(weights, signals, nodes))


def test_the_cost_of_a_small_set_with_a_hub_equals_the_dense_formula():
    """A hub has its own way to find the neighbours inside the set."""
    weights = np.zeros((60, 60))
    weights[0, 1:] = weights[1:, 0] = 1.0
    weights[1, 2] = weights[2, 1] = 2.0
    signals = np.random.default_rng(0).normal(size=(60, 3))
    rows, inside = sp.csr_array(weights), np.zeros(60, dtype=bool)
    for nodes in ([0, 1], [0, 1, 2]):
        found = _cost(rows.indptr, rows.indices, rows.data, weights.sum(1), signals, np.array(nodes), inside)
        assert found == pytest.approx(set_cost(weights, signals, nodes))


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_neighbourhoods_are_taken_as_a_plain_loop_takes_them(seed, at_most):
    weights = weighted(seed, share=0.25)
    signals = np.random.default_rng(seed).normal(size=(9, 3))
    rows = sp.csr_array(weights)
    found = _contract_neighbourhoods(rows.indptr, rows.indices, rows.data, signals, at_most)

    free, into, left = set(range(9)), np.arange(9), at_most
    queue = {c: [c, *np.flatnonzero(weights[c])] for c in range(9) if weights[c].any()}
    while queue and left:
        centre = min(queue, key=lambda c: (set_cost(weights, signals, queue[c]), c))
        nodes = queue.pop(centre)
        if not free.issuperset(nodes):
            nodes = [node for node in nodes if node in free] if centre in free else []
            if len(nodes) > 1:
                queue[centre] = nodes
            continue
        nodes = nodes[: left + 1]
        left -= len(nodes) - 1
        free -= set(nodes)
        into[nodes] = min(nodes)
    assert into.tolist() == found.tolist()


@given(st.integers(0, 10_000))
def test_whitened_signals_vary_alike(seed):
    weights = weighted(seed)
    laplacian = sp.csr_array(np.diag(weights.sum(1)) - weights)
    assume(weights.any())
    signals = _whiten(_lowest(laplacian, torch.Generator()), laplacian)
    product = signals.T @ laplacian @ signals
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-8)


def ring_of_cliques(cliques, size):
    blocks = sp.block_diag([np.ones((size, size)) - np.eye(size)] * cliques).toarray()
    for part in range(cliques):
        a, b = part * size, ((part + 1) % cliques) * size + 1
        blocks[a, b] = blocks[b, a] = 1
    return blocks


def test_the_signals_are_the_lowest_eigenvectors_without_those_of_eigenvalue_0():
    weights = sp.block_diag([ring_of_cliques(8, 4), ring_of_cliques(5, 3)]).toarray()
    laplacian = np.diag(weights.sum(1)) - weights
    signals = _lowest(sp.csr_array(laplacian), torch.Generator())
    expected = np.linalg.eigvalsh(laplacian)[2:12]
    np.testing.assert_allclose(np.diag(signals.T @ laplacian @ signals), expected, atol=1e-8)


def test_beyond_the_dense_limit_the_signals_are_as_smooth():
    weights = sp.csr_array(sp.block_diag([ring_of_cliques(300, 5), np.zeros((3, 3))]))
    laplacian = sp.csr_array(sp.diags_array(weights.sum(axis=1)) - weights)
    signals = _lowest(laplacian, torch.Generator().manual_seed(0))
    exact = np.linalg.eigvalsh(laplacian.toarray())[4:14]
    found = np.linalg.eigvalsh(signals.T @ (laplacian @ signals))
    assert (found <= exact + 0.01 * laplacian.diagonal().mean()).all()
    assert (found >= exact - 1e-8).all()
    assert np.abs(signals[:1500].mean(0)).max() < 1e-3, "constant signals were not left out"


@pytest.mark.parametrize("method", [variation_edges, variation_neighbourhoods])
@pytest.mark.parametrize("cliques", [12, 400])
def test_cliques_are_contracted_before_the_bridges_between_them(method, cliques):
    weights = ring_of_cliques(cliques, 4)
    edges = torch.from_numpy(np.array(np.nonzero(weights)))
    labels = method(edges, len(weights), 2 * cliques, generator=torch.Generator().manual_seed(0)).numpy()
    together = labels[edges[0]] == labels[edges[1]]
    bridges = edges[0].numpy() // 4 != edges[1].numpy() // 4
    assert together[bridges].mean() < 0.1
    assert together[~bridges].mean() > 0.25


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_heavy_edges_are_matched_as_a_plain_loop_matches_them(seed, num_clusters):
    adjacency = (weighted(seed) > 0).astype(float)
    edges = torch.from_numpy(np.array(np.nonzero(adjacency))).reshape(2, -1)
    labels = heavy_edge(edges, 9, num_clusters, generator=torch.Generator()).numpy()

    weights, clusters = adjacency.copy(), [[node] for node in range(9)]
    while len(clusters) > num_clusters:
        links = weights - np.diag(np.diag(weights))
        degree = links.sum(1)
        pairs = [(a, b) for a in range(len(links)) for b in range(a + 1, len(links)) if links[a, b]]
        if not pairs:
            break
        taken, merged = set(), []
        for a, b in sorted(pairs, key=lambda p: -(links[p] / max(degree[p[0]], degree[p[1]]))):
            if not taken & {a, b} and len(clusters) - len(merged) > num_clusters:
                taken |= {a, b}
                merged.append((a, b))
        gone = {b: a for a, b in merged}
        kept = [i for i in range(len(links)) if i not in gone]
        q = np.zeros((len(links), len(kept)))
        for i in range(len(links)):
            q[i, kept.index(gone.get(i, i))] = 1
        clusters = [sum((clusters[i] for i in np.flatnonzero(q[:, c])), []) for c in range(len(kept))]  # noqa: RUF017
        weights = q.T @ weights @ q
    assume(len(clusters) == num_clusters)  # else there are too few edges, which the contract test covers
    found = {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(num_clusters)}
    assert found == {frozenset(cluster) for cluster in clusters}

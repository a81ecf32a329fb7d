"""Time and quality of SGC: ours, the plain published algorithm, and the bare eigendecompositions, on one thread.

Per graph the three take turns. The plain algorithm is written straight from the paper, with scikit-learn's k-means of
ten starts for every admissible k; bare are the eigendecompositions that the definition asks for, the original's and the
eigenvalues of one coarse graph per admissible k. Ours and bare are medians of several repeats.

    python benchmarks/coarsening.py [--plain-every N]

runs the plain algorithm on every N-th graph of the pools (by default on all, some ten minutes; of DD on every 40th).
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data

from sizeshiftreg import load_dataset, size_split
from sizeshiftreg.coarsening.adjacency import dense_adjacency
from sizeshiftreg.coarsening.spectral import sgc, spectral_distance

REPEATS = 3
RATIOS = (0.8, 0.9)
DATASETS = ("PROTEINS", "NCI1", "DD")
DD_PLAIN_EVERY = 40


def laplacian(weights: np.ndarray) -> np.ndarray:
    """Return I - D^-1/2 W D^-1/2."""
    degree = weights.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1e-300)), 0)
    return np.eye(len(weights)) - scale[:, None] * weights * scale


def admissible(eigenvalues: np.ndarray, num_clusters: int) -> list[int]:
    """Return every k for which the k + 1 lowest eigenvalues are <= 1 and the other kept ones >= 1."""
    dropped = len(eigenvalues) - num_clusters
    low, high = eigenvalues <= 1 + 1e-9, eigenvalues >= 1 - 1e-9
    return [k for k in range(num_clusters) if low[k] and (k + 1 == num_clusters or high[k + 1 + dropped])]


def plain(edge_index: torch.Tensor, num_nodes: int, num_clusters: int) -> np.ndarray:
    """Partition as the paper says: cluster the kept eigenvectors for every admissible k, keep the best."""
    adjacency = dense_adjacency(edge_index, num_nodes)
    eigenvalues, vectors = np.linalg.eigh(laplacian(adjacency))
    best, best_distance = np.zeros(num_nodes, dtype=np.int64), np.inf
    dropped = num_nodes - num_clusters
    for k in admissible(eigenvalues, num_clusters):
        kept = np.r_[0 : k + 1, k + 1 + dropped : num_nodes]
        labels = KMeans(num_clusters, n_init=10).fit(vectors[:, kept]).labels_
        q = np.eye(num_clusters)[labels]
        coarse = np.linalg.eigvalsh(laplacian(q.T @ adjacency @ q))
        distance = np.abs(coarse - eigenvalues[kept]).sum()
        if distance < best_distance:
            best, best_distance = labels, distance
    return best


def bare(graph: np.ndarray, coarse: np.ndarray, times: int) -> None:
    """Compute the eigendecompositions that the definition asks for, and nothing else."""
    np.linalg.eigh(graph)
    for _ in range(times):
        np.linalg.eigvalsh(coarse)


def prepare_bare(edge_index: torch.Tensor, num_nodes: int, num_clusters: int, labels: np.ndarray) -> tuple:
    """Return the Laplacians of a graph and of its coarse graph, and the number of admissible k."""
    adjacency = dense_adjacency(edge_index, num_nodes)
    q = np.eye(num_clusters)[labels]
    normalised = laplacian(adjacency)
    return normalised, laplacian(q.T @ adjacency @ q), len(admissible(np.linalg.eigvalsh(normalised), num_clusters))


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(pool: list[Data], ratio: float, plain_every: int) -> dict[str, float]:
    """Return the times of ours and bare over the pool, of ours and plain over the sample, and their distances."""
    total = {"ours": 0.0, "bare": 0.0, "ours on sample": 0.0, "plain": 0.0, "our distance": 0.0, "plain distance": 0.0}
    for number, graph in enumerate(pool):
        num_clusters = max(1, int(ratio * graph.num_nodes + 1e-9))
        task = (graph.edge_index, graph.num_nodes, num_clusters)
        labels = sgc(*task, generator=torch.Generator())
        matrices = prepare_bare(*task, labels.numpy())
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(REPEATS):
            times["ours"].append(seconds(lambda task=task: sgc(*task, generator=torch.Generator())))
            times["bare"].append(seconds(lambda matrices=matrices: bare(*matrices)))
        ours = statistics.median(times["ours"])
        total["ours"] += ours
        total["bare"] += statistics.median(times["bare"])
        if number % plain_every == 0 and num_clusters > 1:
            found = []
            total["plain"] += seconds(lambda task=task, found=found: found.append(plain(*task)))
            total["ours on sample"] += ours
            total["our distance"] += spectral_distance(graph.edge_index, labels)
            numbered = torch.from_numpy(np.unique(found[0], return_inverse=True)[1])
            total["plain distance"] += spectral_distance(graph.edge_index, numbered)
    return total


def main() -> None:
    """Print a line per data set and ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain-every", type=int, default=1, help="run the plain algorithm on every so many-th graph")
    every = parser.parse_args().plain_every
    torch.set_num_threads(1)
    with threadpool_limits(1):
        ring = torch.stack([torch.arange(9), torch.arange(9).roll(1)])
        compiling = seconds(lambda: sgc(ring, 9, 7, generator=torch.Generator()))
        print(f"SGC on one thread; compiled or loaded in {compiling:.1f} s, not counted")
        print(
            f"{'':<10}{'ratio':>6}{'graphs':>8}{'ours':>9}{'bare':>9}{'ours/bare':>11}{'plain on':>10}{'plain':>9}",
            end="",
        )
        print(f"{'plain/ours':>12}{'distance':>10}{'plain':>8}")
        for name in DATASETS:
            dataset = load_dataset(name)
            pool = [dataset[i] for i in size_split(dataset).pool.tolist()]
            step = max(every, DD_PLAIN_EVERY) if name == "DD" else every
            for ratio in RATIOS:
                found = compare(pool, ratio, step)
                sampled = len(pool[::step])
                print(
                    f"{name:<10}{ratio:>6}{len(pool):>8}{found['ours']:>8.2f}s{found['bare']:>8.2f}s"
                    f"{found['ours'] / found['bare']:>11.2f}{sampled:>10}{found['plain']:>8.1f}s"
                    f"{found['plain'] / found['ours on sample']:>12.0f}{found['our distance'] / sampled:>10.3f}"
                    f"{found['plain distance'] / sampled:>8.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

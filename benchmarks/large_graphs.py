"""Time and memory of coarsening graphs of 10^4, 10^5 and 10^6 nodes (five edges a node) to 0.8, and their growth.

Every measurement is a process of its own with one thread, so that its peak of memory is its own; the memory of the
graph and of the libraries is counted. The growth exponent is that between the smallest and the largest graph.
"""

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time

import torch

from sizeshiftreg.coarsening import COARSENERS

SIZES = (10**4, 10**5, 10**6)
REPEATS = {10**4: 9, 10**5: 5, 10**6: 3}
METHODS = ("heavy_edge", "variation_edges", "sgc", "mlgc")


def make_graph(num_nodes: int, seed: int = 0) -> torch.Tensor:
    """Return five edges per node: four to nodes near by, one to any node, hubs being likelier."""
    draw = torch.Generator().manual_seed(seed)
    source = torch.arange(num_nodes).repeat(5)
    near = (source + torch.randint(1, 51, (5 * num_nodes,), generator=draw)) % num_nodes
    hub = (num_nodes * torch.rand(num_nodes, generator=draw, dtype=torch.float64) ** 3).long()
    target = torch.cat([near[: 4 * num_nodes], hub])
    return torch.stack([source, target])


def measure(method: str, num_nodes: int) -> None:
    """Coarsen and print the seconds and the peak of memory as JSON."""
    torch.set_num_threads(1)
    partition = COARSENERS[method].partition
    partition(make_graph(2000), 2000, 1600, generator=torch.Generator().manual_seed(0))  # compiles, or loads
    edge_index = make_graph(num_nodes)
    taken = []
    for _ in range(REPEATS[num_nodes]):
        start = time.perf_counter()
        labels = partition(edge_index, num_nodes, num_nodes * 8 // 10, generator=torch.Generator().manual_seed(0))
        taken.append(time.perf_counter() - start)
    if labels.unique().numel() != num_nodes * 8 // 10:
        raise RuntimeError(f"{method} returned another number of clusters")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": statistics.median(taken), "bytes": peak}))


def main() -> None:
    """Print a line per method and size, and the growth exponents."""
    print(f"{'':<18}{'nodes':>10}{'edges':>11}{'seconds':>10}{'GiB':>7}{'exponent':>10}")
    for method in METHODS:
        taken = {}
        for size in SIZES:
            command = [sys.executable, __file__, method, str(size)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            found = json.loads(result.stdout)
            taken[size] = found["seconds"]
            grown = (
                math.log10(taken[size] / taken[SIZES[0]]) / math.log10(size / SIZES[0]) if size == SIZES[-1] else None
            )
            exponent = "" if grown is None else f"{grown:.2f}"
            print(
                f"{method:<18}{size:>10,}{5 * size:>11,}{found['seconds']:>10.3f}{found['bytes'] / 2**30:>7.2f}"
                f"{exponent:>10}",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        main()

"""Estimate of the core-hours of the paper's main table on this machine, ours beside a plain PyG loop.

The table has four data sets, three models and 50 runs of 1000 epochs, without and with the regulariser: 1,200 runs. An
epoch of each is measured as in epoch.py, on one thread, and multiplied.

    python benchmarks/main_table.py [--rounds N]
"""

import argparse
import statistics

import torch

from epoch import contestants

DATASETS, MODELS = ("NCI1", "NCI109", "PROTEINS", "DD"), ("gin", "gcn", "pna")
RUNS, EPOCHS = 50, 1000


def main() -> None:
    """Print core-hours per data set and model, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"core-hours of {RUNS} runs of {EPOCHS} epochs, each without and with the regulariser")
    print(f"{'':<16}{'plain':>10}{'ours':>10}{'sampled':>10}")
    totals = [0.0, 0.0, 0.0]
    for dataset in DATASETS:
        for model in MODELS:
            calls = contestants(dataset, model)
            found = {name: statistics.median(call() for _ in range(rounds)) for name, call in calls.items()}
            hours = [
                RUNS * EPOCHS / 3600 * (found[f"{who}, without"] + found[with_])
                for who, with_ in (("plain", "plain, with"), ("ours", "ours, with"), ("ours", "ours, sampled"))
            ]
            totals = [total + value for total, value in zip(totals, hours, strict=True)]
            print(f"{dataset:<10}{model:<6}" + "".join(f"{value:>10.1f}" for value in hours), flush=True)
    print(f"{'in all':<16}" + "".join(f"{value:>10.1f}" for value in totals))


if __name__ == "__main__":
    main()

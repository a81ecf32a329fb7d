"""Time of a training epoch: ours without, with the full and with the sampled regulariser, against a plain PyG loop.

The plain loop is what a PyG user would write today: a DataLoader over graphs and their coarse graphs, deep-copied
coarse batches, one view after the other, moments by scatter, PyG's layers. All contestants run interleaved on one
thread; the times are medians of several rounds.

    python benchmarks/epoch.py [--rounds N] [--models gin gcn pna] [--data PROTEINS NCI1]
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, PNAConv, global_add_pool
from torch_geometric.utils import scatter

from sizeshiftreg import Coarsen, GraphClassifier, GraphStore, SizeShift, contract, fit, load_dataset, size_split
from sizeshiftreg.encoders import degree_histogram
from sizeshiftreg.experiment import Experiment, make_encoder
from sizeshiftreg.recipes import find_cell

RATIOS = (0.8, 0.9)
# Sampled views: in each step one ratio, and this share of the graphs.
SHARE = 0.25


class PlainModel(nn.Module):
    """Three of PyG's convolutions with batch norm and ReLU, sum readout, a head."""

    def __init__(self, settings: Experiment, in_dim: int, degrees: Tensor) -> None:
        super().__init__()
        width = settings.hidden_dim
        widths = [in_dim, width, width]
        if settings.model == "gin":
            self.convolutions = nn.ModuleList(GINConv(self.mlp(w, width), train_eps=True) for w in widths)
        elif settings.model == "gcn":
            self.convolutions = nn.ModuleList(GCNConv(w, width) for w in widths)
        else:
            how = {
                "aggregators": ["mean", "min", "max", "std"],
                "scalers": ["identity", "amplification", "attenuation"],
            }
            self.convolutions = nn.ModuleList(PNAConv(w, width, deg=degrees, **how) for w in widths)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in widths)
        self.head = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 2))

    @staticmethod
    def mlp(in_dim: int, width: int) -> nn.Sequential:
        """Return GIN's inner network."""
        return nn.Sequential(nn.Linear(in_dim, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return node embeddings."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(convolution(x, edge_index)).relu()
        return x


def plain_moments(x: Tensor, batch: Tensor, num_graphs: int) -> list[Tensor]:
    """Return mean and central moments 2 to 5, by scatter."""
    mean = scatter(x, batch, dim=0, dim_size=num_graphs, reduce="mean")
    centred = x - mean[batch]
    return [mean, *(scatter(centred**k, batch, dim=0, dim_size=num_graphs, reduce="mean") for k in range(2, 6))]


def plain_epoch(
    model: PlainModel, optimizer: torch.optim.Optimizer, loader: DataLoader, few: DataLoader, weight: float
) -> None:
    """Train an epoch, and predict for a few graphs, as fit() does for the validation graphs."""
    model.train()
    for items in loader:
        batch, *views = items if isinstance(items, (list, tuple)) else [items]
        optimizer.zero_grad()
        embeddings = model.embed(batch.x, batch.edge_index)
        loss = F.cross_entropy(model.head(global_add_pool(embeddings, batch.batch)), batch.y)
        for view in map(copy.deepcopy, views):
            coarse = model.embed(view.x, view.edge_index)
            for a, b in zip(
                plain_moments(embeddings, batch.batch, batch.num_graphs),
                plain_moments(coarse, view.batch, batch.num_graphs),
                strict=True,
            ):
                loss = loss + weight / len(views) * (a - b).norm(dim=1).mean()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for batch in few:
            model.head(global_add_pool(model.embed(batch.x, batch.edge_index), batch.batch)).argmax(-1)


def seconds(call: Callable[[], object]) -> float:
    """Return the time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def contestants(dataset: str, model: str) -> dict[str, Callable[[], float]]:
    """Return, by name, functions that give the seconds of one epoch."""
    cell = find_cell(dataset, model, "size_shift").experiment
    settings = replace(cell, ratios=RATIOS)
    data = load_dataset(dataset)
    split, coarsen = size_split(data), Coarsen(ratios=RATIOS)
    graphs = [coarsen(data[i]) for i in split.train.tolist()]
    store = GraphStore.from_graphs(graphs)
    few = GraphStore.from_graphs(graphs[:10])
    degrees = degree_histogram(store.all.edge_index, store.all.num_nodes)

    lean = [Data(x=graph.x, edge_index=graph.edge_index, y=graph.y) for graph in graphs]
    coarse = [[as_data(contract(graph, labels)) for labels in graph.partitions.t()] for graph in graphs]
    plain_model = PlainModel(settings, data.num_features, degrees)
    optimizer = torch.optim.Adam(plain_model.parameters(), lr=settings.lr)
    alone = DataLoader(lean, batch_size=settings.batch_size, shuffle=True)
    plain_few = DataLoader(lean[:10], batch_size=10)
    with_views = DataLoader(
        [(graph, *views) for graph, views in zip(lean, coarse, strict=True)],
        batch_size=settings.batch_size,
        shuffle=True,
    )

    def ours(**options: object) -> Callable[[], float]:
        classifier = GraphClassifier(
            make_encoder(settings, store), embedding_dim=settings.hidden_dim, num_classes=data.num_classes
        )
        shift = SizeShift(settings.weight, **options) if options else None

        def run(epochs: int) -> float:
            return seconds(
                lambda: fit(
                    classifier, store, few, regularizer=shift, epochs=epochs, batch_size=settings.batch_size, lr=0.001
                )
            )

        return lambda: (run(4) - run(1)) / 3  # the set-up, once per training, is taken out

    return {
        "plain, without": lambda: seconds(lambda: plain_epoch(plain_model, optimizer, alone, plain_few, 0)),
        "ours, without": ours(),
        "plain, with": lambda: seconds(
            lambda: plain_epoch(plain_model, optimizer, with_views, plain_few, settings.weight)
        ),
        "ours, with": ours(views="all"),
        "ours, sampled": ours(views="sampled", share=SHARE),
    }


def as_data(batch: Data) -> Data:
    """Return a contracted graph as a plain one."""
    return Data(x=batch.x, edge_index=batch.edge_index)


def main() -> None:
    """Print a line per data set and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", nargs="+", default=["gin", "gcn", "pna"])
    parser.add_argument("--data", nargs="+", default=["PROTEINS", "NCI1"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = ["plain, without", "ours, without", "plain, with", "ours, with", "ours, sampled"]
    print("milliseconds per epoch, one thread, and how many times faster ours is; overhead is with / without")
    header = "".join(f"{name.replace(', ', ' '):>15}" for name in names)
    print(f"{'':<14}{header}{'without':>9}{'with':>7}{'overhead':>10}{'sampled':>9}")
    for dataset in options.data:
        for model in options.models:
            calls = contestants(dataset, model)
            times: dict[str, list[float]] = {name: [] for name in names}
            for call in calls.values():  # warms up
                call()
            for _ in range(options.rounds):
                for name, call in calls.items():
                    times[name].append(call())
            found = {name: statistics.median(values) for name, values in times.items()}
            line = "".join(f"{1000 * found[name]:>15.1f}" for name in names)
            without = found["plain, without"] / found["ours, without"]
            with_ = found["plain, with"] / found["ours, with"]
            full, sampled = (found[name] / found["ours, without"] for name in ("ours, with", "ours, sampled"))
            print(f"{dataset:<9}{model:<5}{line}{without:>9.2f}{with_:>7.2f}{full:>10.2f}{sampled:>9.2f}", flush=True)


if __name__ == "__main__":
    main()

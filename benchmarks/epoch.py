"""Time of a training epoch: fit() against a DataLoader loop, interleaved, one thread, median of several repeats."""

import statistics
import time
from collections.abc import Callable

import torch
from torch_geometric.loader import DataLoader

from sizeshiftreg import GIN, Coarsen, GraphClassifier, GraphStore, SizeShift, fit, load_dataset, size_split

REPEATS, EPOCHS, BATCH_SIZE = 7, 3, 64


def classifier(num_features: int) -> GraphClassifier:
    """Return the model of all contestants."""
    torch.manual_seed(0)
    return GraphClassifier(GIN(num_features, hidden_dim=32), embedding_dim=32, num_classes=2)


def loop(graphs: list, num_features: int, weight: float) -> None:
    """Train as a PyG user would with the drop-in: DataLoader, batches contracted in every step."""
    model, penalty = classifier(num_features), SizeShift(weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        for batch in DataLoader(graphs, batch_size=BATCH_SIZE, shuffle=True):
            optimizer.zero_grad()
            embeddings = model.encoder(batch.x, batch.edge_index)
            loss = torch.nn.functional.cross_entropy(model.classify(embeddings, batch), batch.y)
            (loss + penalty(model.encoder, batch, embeddings)).backward()
            optimizer.step()


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds per epoch of a call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) / EPOCHS


def main() -> None:
    """Print milliseconds per epoch and the ratios."""
    torch.set_num_threads(1)
    dataset = load_dataset("toy_friends")
    split, coarsen = size_split(dataset), Coarsen()
    graphs = [coarsen(dataset[i]) for i in split.train.tolist()]
    store, width = GraphStore.from_graphs(graphs), dataset.num_features
    few = GraphStore.from_graphs(graphs[:10])  # fit() validates in every epoch; this makes it cheap
    options = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "lr": 0.01}
    contestants: dict[str, Callable[[], object]] = {
        "loop, without": lambda: loop(graphs, width, 0),
        "fit, without": lambda: fit(classifier(width), store, few, **options),
        "loop, with": lambda: loop(graphs, width, 0.1),
        "fit, with": lambda: fit(classifier(width), store, few, regularizer=SizeShift(0.1), **options),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(REPEATS + 1):
        for name, call in contestants.items():
            taken = seconds(call)
            if repeat:  # the first round warms up
                times[name].append(taken)
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        print(f"{name:<14}{1000 * value:8.1f} ms per epoch")
    for kind in ("without", "with"):
        print(f"fit is {median[f'loop, {kind}'] / median[f'fit, {kind}']:.1f} times faster than the loop, {kind}")
    print(f"the regulariser costs {median['fit, with'] / median['fit, without']:.1f} times a plain epoch of fit")


if __name__ == "__main__":
    main()

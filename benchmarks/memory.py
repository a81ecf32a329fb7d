"""Peak memory of a training run on DD, beside the flat size of the graphs and views that it trains on.

The peak is that of the process from the moment the data are in memory as a user has them (a list of graphs with their
partitions), so it counts all copies that training makes, batches, activations and gradients.
"""

import resource
from dataclasses import replace

import torch

from sizeshiftreg import Coarsen, GraphClassifier, GraphStore, SizeShift, fit, load_dataset, size_split
from sizeshiftreg.experiment import make_encoder
from sizeshiftreg.recipes import find_cell


def flat_bytes(store: GraphStore) -> int:
    """Return the size of features, edges and batch vector."""
    tensors = (store.all.x, store.all.edge_index, store.all.batch)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def peak_bytes() -> int:
    """Return the peak of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Print the sizes in MiB and their ratio."""
    torch.set_num_threads(1)
    settings = replace(find_cell("DD", "gin", "size_shift").experiment, ratios=(0.8, 0.9))
    dataset = load_dataset("DD")
    split, coarsen = size_split(dataset), Coarsen(cache="data/partitions.sqlite")
    train = [coarsen(dataset[i]) for i in split.train.tolist()]
    val = [dataset[i] for i in split.val.tolist()]
    few = GraphStore.from_graphs([next(graph for graph in train if int(graph.y) == label) for label in (0, 1)])
    encoder = make_encoder(settings, few)
    model = GraphClassifier(encoder, embedding_dim=encoder.out_dim, num_classes=2)
    fit(model, few, few, regularizer=SizeShift(), epochs=1, batch_size=2)  # loads the compiled kernels
    before = peak_bytes()
    store = GraphStore.from_graphs(train)
    shift = SizeShift(settings.weight, reduce=settings.coarse_features)
    fit(model, store, GraphStore.from_graphs(val), regularizer=shift, epochs=2, batch_size=settings.batch_size)
    peak = peak_bytes() - before
    flat = flat_bytes(store) + sum(flat_bytes(GraphStore(view)) for view in shift.views(store.all))
    print(f"DD, GIN, {len(train)} training graphs with two views each, batches of {settings.batch_size}")
    print(f"flat size of data and views {flat / 2**20:8.1f} MiB")
    print(f"peak of the training run    {peak / 2**20:8.1f} MiB, {peak / flat:.2f} times")


if __name__ == "__main__":
    main()

"""A discrepancy of your own: any function from two ragged sets of embeddings to one value per graph."""

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GIN
from torch_geometric.utils import scatter

from sizeshiftreg import Coarsen, SizeShift, load_dataset


def range_distance(x: Tensor, y: Tensor, x_batch: Tensor, y_batch: Tensor, num_graphs: int) -> Tensor:
    """Compare the largest and the smallest value of every coordinate, graph by graph."""
    total = x.new_zeros(num_graphs)
    for reduce in ("max", "min"):
        of_x = scatter(x, x_batch, dim_size=num_graphs, reduce=reduce)
        of_y = scatter(y, y_batch, dim_size=num_graphs, reduce=reduce)
        total = total + (of_x - of_y).norm(dim=1)
    return total


torch.manual_seed(0)
batch = Batch.from_data_list([Coarsen()(graph) for graph in load_dataset("toy_friends")[:20]])
encoder = GIN(batch.num_features, hidden_channels=16, num_layers=2)
for discrepancy in (range_distance, "cmd", "mmd", "coral", "sliced_wasserstein"):
    penalty = SizeShift(weight=1.0, discrepancy=discrepancy)(encoder, batch)
    print(f"{getattr(discrepancy, '__name__', discrepancy):<20}{penalty.item():.4f}")

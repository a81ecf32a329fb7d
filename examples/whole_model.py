"""A model of one piece: the node embeddings are found by the name of the layer that makes them."""

import torch
from torch import Tensor, nn
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool

from sizeshiftreg import Coarsen, SizeShift, load_dataset, node_embeddings


class Classifier(nn.Module):
    """Two convolutions, a readout and a head; nothing in it knows of the regulariser."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.first = GCNConv(num_features, 16)
        self.second = GCNConv(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Return the logits."""
        x = self.first(x, edge_index).relu()
        return self.head(global_mean_pool(self.second(x, edge_index), batch))


torch.manual_seed(0)
graphs = [Coarsen()(graph) for graph in load_dataset("toy_friends")[:100]]
model = Classifier(graphs[0].num_features)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
size_shift = SizeShift(weight=0.1, inputs=("batch",))  # the model is called with `batch`, too

with node_embeddings(model, "second") as encoder:  # a forward hook, removed on exit
    for batch in DataLoader(graphs, batch_size=25, shuffle=True):
        logits = model(batch.x, batch.edge_index, batch.batch)
        loss = torch.nn.functional.cross_entropy(logits, batch.y)
        penalty = size_shift(encoder, batch, encoder.last)  # what `second` gave in the call above
        optimizer.zero_grad()
        (loss + penalty).backward()
        optimizer.step()
        print(f"loss {loss:.3f}, penalty {penalty:.3f}")

"""Edge attributes and positions: both reach the coarse views, each by a reduction of your choice."""

import torch
from torch import Tensor, nn
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool

from sizeshiftreg import Coarsen, SizeShift, load_dataset


class Encoder(nn.Module):
    """Convolutions that use edge attributes, on features and positions."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.into = nn.Linear(num_features + 2, 16)
        self.convolution = GINEConv(nn.Linear(16, 16), edge_dim=3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, pos: Tensor) -> Tensor:
        """Return the node embeddings."""
        return self.convolution(self.into(torch.cat([x, pos], dim=1)), edge_index, edge_attr).relu()


torch.manual_seed(0)
graphs = [Coarsen()(graph) for graph in load_dataset("toy_friends")[:100]]
for graph in graphs:
    graph.edge_attr = torch.rand(graph.num_edges, 3)
    graph.pos = torch.rand(graph.num_nodes, 2)

encoder, head = Encoder(graphs[0].num_features), nn.Linear(16, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
size_shift = SizeShift(
    weight=0.1,
    inputs=("edge_attr", "pos"),  # what the encoder is given besides x and edge_index, by keyword
    edge_reduce="sum",  # merged edges add up
    node_attributes={"pos": "mean"},  # a coarse node lies in the middle
)

for batch in DataLoader(graphs, batch_size=25, shuffle=True):
    embeddings = encoder(batch.x, batch.edge_index, batch.edge_attr, batch.pos)
    loss = torch.nn.functional.cross_entropy(head(global_add_pool(embeddings, batch.batch)), batch.y)
    penalty = size_shift(encoder, batch, embeddings)
    optimizer.zero_grad()
    (loss + penalty).backward()
    optimizer.step()
    print(f"loss {loss:.3f}, penalty {penalty:.3f}")

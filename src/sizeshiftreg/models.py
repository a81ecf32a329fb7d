"""A graph classifier: encoder, readout, head."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from sizeshiftreg.errors import choice

Readout = Literal["sum", "mean", "max"]
READOUTS: dict[Readout, Callable[..., Tensor]] = {
    "sum": global_add_pool,
    "mean": global_mean_pool,
    "max": global_max_pool,
}


class GraphClassifier(nn.Module):
    """Node embeddings, pooled per graph, then a head of one hidden layer with dropout.

    Args:
        encoder: Any module called `(x, edge_index)` that returns node embeddings [num_nodes, embedding_dim].
        embedding_dim: Width of the embeddings.
        num_classes: Number of classes.
        readout: How node embeddings become one per graph.
        head_dim: Width of the head's hidden layer.
        dropout: Dropout in the head.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from sizeshiftreg.encoders import GIN
        >>> batch = Batch.from_data_list([Data(x=torch.rand(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]))] * 4)
        >>> GraphClassifier(GIN(3, hidden_dim=8), embedding_dim=8, num_classes=2)(batch).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        embedding_dim: int,
        num_classes: int,
        readout: Readout = "sum",
        head_dim: int = 128,
        dropout: float = 0.3,
    ) -> None:
        choice("readout", readout, READOUTS)
        super().__init__()
        self.encoder = encoder
        self.readout = readout
        self.num_classes = num_classes
        self.head = nn.Sequential(
            nn.Linear(embedding_dim, head_dim),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(head_dim, num_classes),
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits, [num_graphs, num_classes]."""
        return self.classify(self.encoder(batch.x, batch.edge_index), batch)

    def classify(self, embeddings: Tensor, batch: Batch) -> Tensor:
        """Return the logits for node embeddings that are there already, [num_graphs, num_classes]."""
        pooled = READOUTS[self.readout](embeddings, batch.batch, size=batch.num_graphs)
        logits: Tensor = self.head(pooled)
        return logits

"""A graph classifier: encoder, readout, head."""

from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from sizeshiftreg.errors import InputError, choice

Readout = Literal["sum", "mean", "max"]
READOUTS: dict[Readout, Callable[..., Tensor]] = {
    "sum": global_add_pool,
    "mean": global_mean_pool,
    "max": global_max_pool,
}


def embed(encoder: Callable[..., Tensor], batch: Batch, inputs: Sequence[str] = ()) -> Tensor:
    """Return the node embeddings of a batch.

    Args:
        encoder: Called `(x, edge_index)`, and by keyword with what `inputs` and its own `optional_inputs` name.
        batch: The batch.
        inputs: Names of further attributes of the batch that the encoder is given.
    """
    missing = [name for name in inputs if batch.get(name) is None]
    if missing:
        raise InputError(
            f"the encoder's input {missing[0]!r} is missing in the batch. Coarse views carry `edge_attr`, "
            "`edge_weight` and what `node_attributes` names"
        )
    optional = [name for name in getattr(encoder, "optional_inputs", ()) if batch.get(name) is not None]
    return encoder(batch.x, batch.edge_index, **{name: batch[name] for name in (*inputs, *optional)})


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
        return self.classify(embed(self.encoder, batch), batch)

    def classify(self, embeddings: Tensor, batch: Batch) -> Tensor:
        """Return the logits for node embeddings that are there already, [num_graphs, num_classes]."""
        return self.read(embeddings, batch.batch, batch.num_graphs)

    def read(self, embeddings: Tensor, graph_of: Tensor, num_graphs: int) -> Tensor:
        """Return the logits for node embeddings and the graph of every node, [num_graphs, num_classes]."""
        logits: Tensor = self.head(READOUTS[self.readout](embeddings, graph_of, size=num_graphs))
        return logits

"""SizeShiftModule: the same parts as a LightningModule (needs `lightning`)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch

from sizeshiftreg.errors import InputError
from sizeshiftreg.metrics import confusion, mcc
from sizeshiftreg.models import GraphClassifier, embed
from sizeshiftreg.regularizers import NoRegularizer, Regularizer

try:
    import lightning
except ImportError as missing:
    raise InputError("sizeshiftreg.lightning needs Lightning: pip install 'sizeshiftreg[lightning]'") from missing


class SizeShiftModule(lightning.LightningModule):  # type: ignore[misc]
    """Trains a `GraphClassifier` with a regulariser in Lightning's `Trainer`.

    It takes batches of PyG's `DataLoader`; training graphs need the `partitions` that `Coarsen` writes. It logs
    `train_loss`, `penalty`, `val_loss` and, over whole epochs, `val_mcc` and `test_mcc`, on which checkpoints and early
    stopping may look.

    Args:
        model: The classifier.
        regularizer: Penalty added to the loss, such as `SizeShift()`; None for none.
        lr: Learning rate of Adam.
        class_weight: Weight of every class in the loss, [num_classes].

    Example:
        >>> import lightning, warnings
        >>> from torch_geometric.loader import DataLoader
        >>> from sizeshiftreg import GIN, Coarsen, SizeShift, load_dataset
        >>> loader = DataLoader([Coarsen()(graph) for graph in load_dataset("toy_density")[:20]], batch_size=10)
        >>> module = SizeShiftModule(GraphClassifier(GIN(1, hidden_dim=8), embedding_dim=8, num_classes=2), SizeShift())
        >>> batch = next(iter(loader))
        >>> module.training_step(batch, 0).shape
        torch.Size([])
    """

    def __init__(
        self,
        model: GraphClassifier,
        regularizer: Regularizer | None = None,
        *,
        lr: float = 0.001,
        class_weight: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.regularizer = regularizer if regularizer is not None else NoRegularizer()
        self.lr = lr
        self.register_buffer("class_weight", class_weight)
        self._counts: Tensor | None = None

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits, [num_graphs, num_classes]."""
        logits: Tensor = self.model(batch)
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss with the penalty."""
        del batch_idx
        embeddings = embed(self.model.encoder, batch)
        loss = F.cross_entropy(self.model.classify(embeddings, batch), batch.y, weight=self.class_weight)
        penalty = self.regularizer(self.model.encoder, batch, embeddings)
        if self._trainer is not None:
            shown = {"train_loss": loss.detach(), "penalty": penalty.detach()}
            self.log_dict(shown, batch_size=batch.num_graphs, on_step=False, on_epoch=True)
        return loss + penalty

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Count the predictions, and log the loss."""
        del batch_idx
        logits = self._count(batch)
        self.log("val_loss", F.cross_entropy(logits, batch.y), batch_size=batch.num_graphs, sync_dist=True)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Count the predictions."""
        del batch_idx
        self._count(batch)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the class of every graph."""
        del batch_idx
        classes: Tensor = self(batch).argmax(-1)
        return classes

    def on_validation_epoch_end(self) -> None:
        """Log the score over the whole epoch and all processes."""
        self._score("val_mcc")

    def on_test_epoch_end(self) -> None:
        """Log the score over the whole epoch and all processes."""
        self._score("test_mcc")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def _count(self, batch: Batch) -> Tensor:
        logits: Tensor = self(batch)
        counts = confusion(logits.argmax(-1), batch.y, logits.size(-1))
        self._counts = counts if self._counts is None else self._counts + counts
        return logits

    def _score(self, name: str) -> None:
        counts: Any = self.all_gather(self._counts)
        self._counts = None
        # One process gives [classes, classes], several give one of these each.
        counts = counts.view(-1, *counts.shape[-2:]).sum(0)
        self.log(name, mcc(counts.cpu()), rank_zero_only=False)

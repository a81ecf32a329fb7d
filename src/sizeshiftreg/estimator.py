"""SizeShiftClassifier: fit, predict, score, save and load over lists of graphs."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data

from sizeshiftreg.coarsening.transform import Coarsen
from sizeshiftreg.encoders import GCN, GIN, PNA, Stack, degree_histogram
from sizeshiftreg.errors import InputError, choice
from sizeshiftreg.metrics import confusion, mcc
from sizeshiftreg.models import GraphClassifier, Readout
from sizeshiftreg.regularizers import SizeShift, Views
from sizeshiftreg.splits import validation_split
from sizeshiftreg.store import GraphStore
from sizeshiftreg.training import fit, predict

_FORMAT = "sizeshiftreg classifier 1"
ModelName = Literal["gin", "gcn", "pna"]


class SizeShiftClassifier:
    """A graph classifier that is trained to keep working on larger graphs.

    Args:
        model: Encoder: "gin", "gcn" or "pna".
        weight: Weight of the regulariser; 0 trains without.
        coarsener: Coarsening method (see `COARSENERS`).
        ratios: Coarsening ratios.
        views: "all" views in every step, or one that is drawn ("sampled").
        hidden_dim: Width of the encoder.
        num_layers: Number of graph convolutions.
        readout: Pooling of node embeddings.
        dropout: Dropout in the head.
        epochs: Number of epochs; the weights of the best one on a validation tenth are kept.
        batch_size: Graphs in a step.
        lr: Learning rate of Adam.
        seed: Seed of the validation split, of initialisation, dropout and order.
        device: Where it is trained.

    Attributes:
        classes_: The classes, in the order of the columns of `predict_proba`; there after `fit`.
        best_val_mcc_: Score on the validation graphs that selected the weights; there after `fit`.

    Example:
        >>> from sizeshiftreg import load_dataset, size_split
        >>> graphs = load_dataset("toy_density")
        >>> split = size_split(graphs)
        >>> model = SizeShiftClassifier(epochs=2, hidden_dim=8).fit(graphs[split.pool])
        >>> model.predict(graphs[split.test[:3]]).shape, model.predict_proba(graphs[split.test[:3]]).shape
        (torch.Size([3]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        model: ModelName = "gin",
        *,
        weight: float = 0.1,
        coarsener: str = "sgc",
        ratios: Sequence[float] = (0.8, 0.9),
        views: Views = "all",
        hidden_dim: int = 32,
        num_layers: int = 3,
        readout: Readout = "sum",
        dropout: float = 0.3,
        epochs: int = 200,
        batch_size: int = 64,
        lr: float = 0.005,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        choice("model", model, get_args(ModelName))
        self._coarsen = Coarsen(coarsener, ratios=ratios)
        self._shift: dict[str, Any] = {"weight": weight, "views": views, "seed": seed}
        SizeShift(**self._shift)  # says at once what is wrong
        self._architecture = {
            "model": model,
            "hidden_dim": hidden_dim,
            "num_layers": num_layers,
            "readout": readout,
            "dropout": dropout,
        }
        self._training = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "seed": seed}
        self._device = device
        self._classifier: GraphClassifier | None = None

    def fit(self, graphs: Sequence[Data], y: Sequence[int] | Tensor | None = None) -> Self:
        """Train on graphs, a tenth of which selects the best epoch; the classes are `y` or those in the graphs.

        Every call begins anew.
        """
        graphs = list(graphs)
        labels = self._labels(graphs, y)
        self.classes_, index = labels.unique(return_inverse=True)
        items = [Data(x=graph.x, edge_index=graph.edge_index, y=index[i : i + 1]) for i, graph in enumerate(graphs)]
        train, val = validation_split(torch.arange(len(items)), seed=self._training["seed"])  # type: ignore[arg-type]
        chosen = [items[i] for i in train.tolist()]
        if self._shift["weight"] > 0:
            chosen = list(self._coarsen.map(chosen))
        store = GraphStore.from_graphs(chosen, device=self._device)
        degrees = degree_histogram(store.all.edge_index, store.all.num_nodes).cpu()
        with torch.random.fork_rng():
            torch.manual_seed(self._training["seed"])
            self._build(store.all.num_features, len(self.classes_), degrees)
            found = fit(
                self._ready(),
                store,
                GraphStore.from_graphs([items[i] for i in val.tolist()], device=self._device),
                regularizer=SizeShift(**self._shift),
                **self._training,  # type: ignore[arg-type]
            )
        self.best_val_mcc_ = found.best_val_mcc
        return self

    def predict(self, graphs: Sequence[Data]) -> Tensor:
        """Return the class of every graph, [num_graphs]."""
        index = self._logits(graphs).argmax(-1)
        found: Tensor = self.classes_[index]
        return found

    def predict_proba(self, graphs: Sequence[Data]) -> Tensor:
        """Return the probability of every class, [num_graphs, num_classes]."""
        return self._logits(graphs).softmax(-1)

    def score(self, graphs: Sequence[Data], y: Sequence[int] | Tensor | None = None) -> float:
        """Return the Matthews correlation with the classes, the score of this package; 0 is guessing."""
        labels = self._labels(list(graphs), y)
        predicted = self.predict(graphs)
        every, index = torch.cat([labels, predicted]).unique(return_inverse=True)
        true, found = index.split([len(labels), len(predicted)])
        return mcc(confusion(found, true, len(every)))

    def save(self, file: str | Path) -> None:
        """Write the trained classifier to a file."""
        model = self._ready()
        content = {
            "format": _FORMAT,
            "settings": json.dumps(self._architecture | {"num_features": self._num_features}),
            "classes": self.classes_,
            "degrees": self._degrees,
            "state": {name: value.cpu() for name, value in model.state_dict().items()},
        }
        torch.save(content, file)

    @classmethod
    def load(cls, file: str | Path, *, device: str = "cpu") -> Self:
        """Read a classifier that `save` wrote; nothing in the file is run as code. It can predict, or be fitted anew.

        Raises:
            InputError: The file is not there, or is not one of ours.
        """
        try:
            content = torch.load(file, weights_only=True, map_location="cpu")
        except FileNotFoundError:
            raise InputError(f"{file} is not there: expected a file that SizeShiftClassifier.save wrote") from None
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
            raise InputError(
                f"{file}: expected a file that SizeShiftClassifier.save wrote; it cannot be read as one "
                f"({type(error).__name__})"
            ) from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            got = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise InputError(f"{file}: expected a file of the format {_FORMAT!r}; got {got!r}")
        settings = json.loads(content["settings"])
        num_features = settings.pop("num_features")
        loaded = cls(**settings, device=device)
        loaded.classes_ = content["classes"]
        loaded._build(num_features, len(loaded.classes_), content["degrees"])
        loaded._ready().load_state_dict(content["state"])
        return loaded

    def _build(self, num_features: int, num_classes: int, degrees: Tensor) -> None:
        self._num_features, self._degrees = num_features, degrees
        settings = self._architecture
        sizes: dict[str, Any] = {"hidden_dim": settings["hidden_dim"], "num_layers": settings["num_layers"]}
        encoder: Stack
        if settings["model"] == "pna":
            encoder = PNA(num_features, degrees=degrees, **sizes)
        else:
            encoder = {"gin": GIN, "gcn": GCN}[str(settings["model"])](num_features, **sizes)
        self._classifier = GraphClassifier(
            encoder,
            embedding_dim=encoder.out_dim,
            num_classes=num_classes,
            readout=settings["readout"],  # type: ignore[arg-type]
            dropout=settings["dropout"],  # type: ignore[arg-type]
        ).to(self._device)

    def _ready(self) -> GraphClassifier:
        if self._classifier is None:
            raise InputError("SizeShiftClassifier: expected a trained classifier; call fit() first")
        return self._classifier

    def _logits(self, graphs: Sequence[Data]) -> Tensor:
        model = self._ready()
        graphs = list(graphs)
        store = GraphStore.from_graphs(graphs, labels=False, device=self._device)
        if store.all.num_features != self._num_features:
            raise InputError(
                f"SizeShiftClassifier: expected node features of width {self._num_features}, as in training; got "
                f"{store.all.num_features}"
            )
        return predict(model, store).cpu()

    def _labels(self, graphs: list[Data], y: Sequence[int] | Tensor | None) -> Tensor:
        if y is None:
            missing = [number for number, graph in enumerate(graphs) if graph.y is None or graph.y.numel() != 1]
            if missing:
                raise InputError(f"graph {missing[0]}: expected one class `y`, or classes given as the argument y")
            labels = torch.cat([graph.y.view(1) for graph in graphs]) if graphs else torch.empty(0, dtype=torch.long)
        else:
            labels = torch.as_tensor(y).cpu()
        if labels.shape != (len(graphs),) or labels.is_floating_point():
            raise InputError(
                f"SizeShiftClassifier: expected {len(graphs)} classes, one integer per graph; got {labels.dtype} of "
                f"shape {list(labels.shape)}"
            )
        return labels.cpu()

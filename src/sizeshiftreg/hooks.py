"""Hooks: the node embeddings inside a whole model, by the name of the layer that makes them."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from sizeshiftreg.errors import InputError


class NodeEmbeddings:
    """An encoder made of a whole model: it runs the model and returns what one of its layers gave.

    Attributes:
        last: What the layer gave when the model ran last, by whomever it was called; None before.
    """

    def __init__(self, model: nn.Module, layer: str) -> None:
        self._model = model
        self._layer = layer
        self.last: Tensor | None = None

    def __call__(self, x: Tensor, edge_index: Tensor, **inputs: Tensor) -> Tensor:
        """Run the model with these arguments and return the node embeddings."""
        self.last = None
        self._model(x, edge_index, **inputs)
        found = self._kept()
        if found is None:
            raise InputError(
                f"node_embeddings: the layer {self._layer!r} did not run when the model was called. Name a layer that "
                "every call passes"
            )
        return found

    def _kept(self) -> Tensor | None:
        return self.last

    def modules(self) -> Iterator[nn.Module]:
        """Return the modules of the model, among which the regulariser looks for batch normalisation."""
        return self._model.modules()

    def keep(self, _module: nn.Module, _inputs: object, output: object) -> None:
        """Keep what the layer gave; of several outputs, the first."""
        first = output[0] if isinstance(output, tuple) else output
        if not isinstance(first, Tensor):
            raise InputError(
                f"node_embeddings: expected the layer {self._layer!r} to return a tensor; got {type(first).__name__}"
            )
        self.last = first


@contextmanager
def node_embeddings(model: nn.Module, layer: str) -> Iterator[NodeEmbeddings]:
    """Give access to the node embeddings inside a model, as an encoder for `SizeShift`.

    A forward hook keeps what the layer returns; it changes nothing and is removed on exit. A model compiled with
    `torch.compile` runs uncompiled when it is called through the encoder, and its own calls are not seen.

    Args:
        model: The model; it is called `(x, edge_index)`, with the regulariser's `inputs` by keyword.
        layer: Name of the submodule whose output has a row per node, as in `model.get_submodule(layer)`.

    Example:
        >>> import torch
        >>> from torch_geometric.nn import GCN, MLP, global_add_pool
        >>> class Whole(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body, self.head = GCN(3, 8, num_layers=2), MLP([8, 2])
        ...
        ...     def forward(self, x, edge_index, batch):
        ...         return self.head(global_add_pool(self.body(x, edge_index), batch))
        >>> with node_embeddings(Whole(), "body") as encoder:
        ...     h = encoder(torch.rand(4, 3), torch.tensor([[0, 1], [1, 0]]), batch=torch.zeros(4, dtype=torch.long))
        >>> h.shape
        torch.Size([4, 8])
    """
    inner: nn.Module = getattr(model, "_orig_mod", model)
    try:
        target = inner.get_submodule(layer)
    except AttributeError:
        names = [name for name, _ in inner.named_modules() if name]
        raise InputError(
            f"node_embeddings: expected the name of a layer, such as {', '.join(names[:8])}; got {layer!r}"
        ) from None
    found = NodeEmbeddings(inner, layer)
    handle = target.register_forward_hook(found.keep)
    try:
        yield found
    finally:
        handle.remove()

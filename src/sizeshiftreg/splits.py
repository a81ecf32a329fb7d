"""The size split: train and validate on small graphs, test on large ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from sizeshiftreg.errors import InputError


@dataclass(frozen=True)
class Split:
    """Which graphs of a data set train, validate and test; made by `size_split`.

    Attributes:
        train: Indices of the training graphs, [num_train].
        val: Indices of the validation graphs, as small as the training graphs, [num_val].
        test: Indices of the test graphs, the largest of the data set, [num_test].
        sizes: Number of nodes of every graph of the data set, [num_graphs].
        classes: Class of every graph, [num_graphs]; None where the graphs carry no class.

    Example:
        >>> from sizeshiftreg import load_dataset
        >>> split = size_split(load_dataset("toy_friends"))
        >>> print(split.describe().splitlines()[4])
        test        60      150.1       120      179     41.7%     58.3%
    """

    train: Tensor
    val: Tensor
    test: Tensor
    sizes: Tensor
    classes: Tensor | None

    @property
    def pool(self) -> Tensor:
        """Indices of all small graphs: training and validation, ascending."""
        return torch.cat([self.train, self.val]).sort().values

    def describe(self) -> str:
        """Return a table: graphs, sizes and class shares of each part."""
        parts = {"train": self.train, "val": self.val, "pool": self.pool, "test": self.test}
        header = f"{'part':<6}{'graphs':>8}{'mean size':>11}{'smallest':>10}{'largest':>9}"
        num_classes = 0 if self.classes is None else int(self.classes.max()) + 1
        header += "".join(f"{f'class {c}':>10}" for c in range(num_classes))
        lines = [header]
        for name, index in parts.items():
            sizes = self.sizes[index]
            line = f"{name:<6}{len(index):>8}{sizes.double().mean():>11.1f}{sizes.min():>10}{sizes.max():>9}"
            if self.classes is not None:
                shares = torch.bincount(self.classes[index], minlength=num_classes) / len(index)
                line += "".join(f"{share:>10.1%}" for share in shares.tolist())
            lines.append(line)
        lines.append(f"{len(self.sizes)} graphs in all; pool = train + val; the others are in no part")
        return "\n".join(lines)


def size_split(
    dataset: Sequence[Data],
    *,
    train_below: float = 0.5,
    test_above: float = 0.9,
    val_fraction: float = 0.1,
    seed: int = 0,
) -> Split:
    """Split by size: small graphs train and validate, the largest test.

    The pool holds the graphs with at most `quantile(sizes, train_below)` nodes, the test part those with at least
    `quantile(sizes, test_above)`. A random part of the pool, drawn from `seed`, validates: `val_fraction` of it,
    rounded down, at least one graph.

    Args:
        dataset: The graphs, a PyG data set or a list.
        train_below: Quantile of the sizes up to which a graph is in the pool.
        test_above: Quantile of the sizes from which on a graph is in the test part.
        val_fraction: Share of the pool that validates.
        seed: Seed of the draw of the validation graphs.

    Raises:
        InputError: A share is out of range, or the sizes leave a part empty or let pool and test overlap.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> no_edges = torch.empty(2, 0, dtype=torch.long)
        >>> graphs = [Data(x=torch.ones(n, 1), edge_index=no_edges, y=torch.tensor([n % 2])) for n in range(2, 22)]
        >>> split = size_split(graphs, seed=0)
        >>> len(split.train), len(split.val), split.test.tolist()
        (9, 1, [18, 19])
    """
    if not 0 < train_below < test_above < 1:
        raise InputError(
            f"expected 0 < train_below < test_above < 1; got train_below={train_below}, test_above={test_above}"
        )
    if not 0 < val_fraction < 1:
        raise InputError(f"val_fraction: expected a share between 0 and 1; got {val_fraction}")
    if len(dataset) == 0:
        raise InputError("the data set is empty: expected graphs of different sizes, got none")

    graphs = list(dataset)  # one pass: a data set with a transform computes it at every look
    sizes = np.array([graph.num_nodes for graph in graphs])
    small, large = np.quantile(sizes, train_below), np.quantile(sizes, test_above)
    pool, test = np.flatnonzero(sizes <= small), np.flatnonzero(sizes >= large)
    if small >= large:
        raise InputError(
            f"pool and test overlap: the {train_below} and the {test_above} quantile of the sizes are both "
            f"{small:g} nodes (sizes from {sizes.min()} to {sizes.max()}). A size split needs graphs of different "
            "sizes; move train_below down or test_above up"
        )
    train, val = validation_split(torch.from_numpy(pool), val_fraction=val_fraction, seed=seed)
    return Split(
        train=train,
        val=val,
        test=torch.from_numpy(test),
        sizes=torch.from_numpy(sizes),
        classes=_classes(graphs),
    )


def validation_split(pool: Tensor, *, val_fraction: float = 0.1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw a share of a pool of graphs, rounded down but at least one; return what is left and what was drawn, sorted.

    Example:
        >>> train, val = validation_split(torch.arange(20))
        >>> len(train), len(val)
        (18, 2)
    """
    num_val = max(1, int(val_fraction * len(pool)))
    if num_val >= len(pool):
        raise InputError(
            f"no graph is left to train on: the pool has {len(pool)} and {num_val} of them validate; give more graphs, "
            "a higher train_below or a lower val_fraction"
        )
    order = np.random.default_rng(seed).permutation(pool.numpy())
    return torch.from_numpy(np.sort(order[num_val:])), torch.from_numpy(np.sort(order[:num_val]))


def _classes(dataset: Sequence[Data]) -> Tensor | None:
    labels = [graph.y for graph in dataset]
    if any(y is None or y.numel() != 1 or y.is_floating_point() for y in labels):
        return None
    return torch.cat([y.view(1) for y in labels])

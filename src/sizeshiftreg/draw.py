"""Draw: a graph beside its coarse versions, every coarse node sized and coloured by what it holds."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from torch import Tensor
from torch_geometric.data import Data

from sizeshiftreg.errors import InputError

MOST_NODES = 500
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Okabe and Ito's colours, which most people can tell apart; rarer kinds share the last.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_EDGE = "#777777"


def draw(graph: Data, partitions: Mapping[str, Tensor], file: Path, *, title: str = "", columns: int = 3) -> None:
    """Write a picture of a graph and of what every partition makes of it.

    A coarse node lies about where its nodes were, its area grows with their number, and it is a pie of their kinds: the
    node labels, where the features are one-hot. Its inner edges are not drawn; an edge is the wider the more edges it
    stands for.

    Args:
        graph: The graph, of at most 500 nodes.
        partitions: Labels of the nodes, [num_nodes], under the title of their picture.
        file: Where to write; the ending says what (.png, .svg, .pdf).
        title: Title over all.
        columns: Pictures in a row.
    """
    check_drawable(graph)
    num_nodes = graph.num_nodes
    kinds, names = _kinds(graph)
    edges = np.unique(np.sort(graph.edge_index.numpy().T, axis=1), axis=0)
    angle = 2 * np.pi * np.arange(num_nodes) / num_nodes
    place = _layout(edges, num_nodes, np.stack([np.cos(angle), np.sin(angle)], axis=1))
    pictures = {f"the graph, {num_nodes} nodes": np.arange(num_nodes)}
    pictures |= {f"{name}, {int(labels.max()) + 1} nodes": labels.numpy() for name, labels in partitions.items()}
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    figure = Figure(figsize=(3.6 * columns, 3.6 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis in axes:
        axis.set_axis_off()
    for axis, (name, labels) in zip(axes, pictures.items(), strict=False):
        axis.set_title(name, fontsize=10)
        _picture(axis, place, edges, labels, kinds)
    if len(names) > 1:
        handles = [Wedge((0, 0), 1, 0, 360, color=_COLOURS[i]) for i in range(len(names))]
        figure.legend(handles, names, loc="outside lower center", ncols=min(8, len(names)), frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(file, dpi=110, metadata=_without_date(file))
    except (ValueError, OSError) as error:  # an unknown ending, or a place that cannot be written
        raise InputError(f"the drawing cannot be written to {file}: {error}") from error


def check_drawable(graph: Data) -> None:
    """Raise if a graph has too many nodes to be drawn."""
    if graph.num_nodes > MOST_NODES:
        raise InputError(
            f"drawing: expected a graph of at most {MOST_NODES} nodes; got {graph.num_nodes}. Name a smaller one"
        )


def _kinds(graph: Data) -> tuple[Ints, list[str]]:
    """Return the kind of every node, the most frequent first, and what the kinds are called."""
    x = graph.x
    if x is None or not bool(((x == 0) | (x == 1)).all() and (x.sum(1) == 1).all()):
        return np.zeros(graph.num_nodes, dtype=np.int64), ["node"]
    found, counts = np.unique(x.argmax(1).numpy(), return_counts=True)
    order = found[np.argsort(-counts, kind="stable")]
    rank = {kind: min(number, len(_COLOURS) - 1) for number, kind in enumerate(order.tolist())}
    names = [f"label {kind}" for kind in order[: len(_COLOURS)].tolist()]
    if len(order) > len(_COLOURS):
        names[-1] = "other labels"
    return np.array([rank[kind] for kind in x.argmax(1).tolist()]), names


def _layout(edges: Ints, num_nodes: int, start: Floats) -> Floats:
    """Return places whose distances are like those in the graph; parts of a graph lie a little apart."""
    links = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(num_nodes, num_nodes))
    distances = shortest_path(links, directed=False, unweighted=True)
    reached = distances[np.isfinite(distances)]
    distances[~np.isfinite(distances)] = max(reached.max(), 1.0) + 1.0
    nodes = nx.empty_graph(num_nodes)
    found = nx.kamada_kawai_layout(
        nodes, dist={i: dict(enumerate(row)) for i, row in enumerate(distances)}, pos=dict(enumerate(start))
    )
    return np.array([found[i] for i in range(num_nodes)])


def _picture(axis: Axes, start: Floats, edges: Ints, labels: Ints, kinds: Ints) -> None:
    """Draw what a partition makes of a graph; the layout begins where the nodes of each cluster were."""
    count = np.bincount(labels)
    between, width = np.unique(np.sort(labels[edges], axis=1), axis=0, return_counts=True)
    apart = between[:, 0] != between[:, 1]
    between, width = between[apart], width[apart]
    middle = np.stack([np.bincount(labels, weights=column) for column in start.T], axis=1) / count[:, None]
    place = _layout(between, len(count), middle)
    axis.add_collection(
        LineCollection(list(place[between]), linewidths=0.8 + 0.7 * (width - 1.0), colors=_EDGE, zorder=1)
    )
    lengths = np.linalg.norm(place[between[:, 0]] - place[between[:, 1]], axis=1)
    # The layout fills the square from -1 to 1, whatever the graph.
    unit = 1.1 / np.sqrt(len(count))
    if len(lengths):
        unit = min(unit, float(np.median(lengths)))
    radius = 0.3 * unit * np.sqrt(count)
    patches, colours = [], []
    for node in np.argsort(-count, kind="stable"):  # the small ones on top
        kind, shares = np.unique(kinds[labels == node], return_counts=True)
        ends = np.concatenate([[0], np.cumsum(shares)]) / shares.sum() * 360 + 90
        patches += [Wedge(tuple(place[node]), radius[node], a, b) for a, b in pairwise(ends.tolist())]
        colours += [_COLOURS[k] for k in kind]
    axis.add_collection(PatchCollection(patches, facecolors=colours, edgecolors="white", linewidths=0.4, zorder=2))
    axis.set_aspect("equal")
    margin = radius.max() * 1.1
    axis.set_xlim(place[:, 0].min() - margin, place[:, 0].max() + margin)
    axis.set_ylim(place[:, 1].min() - margin, place[:, 1].max() + margin)


def _without_date(file: Path) -> dict[str, None]:
    """Return the metadata that keep a picture equal from run to run."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix, {})

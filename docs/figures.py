"""Draw a molecule and a protein beside their coarse versions by every method, for the docs."""

from pathlib import Path

from sizeshiftreg import Coarsen, load_dataset
from sizeshiftreg.coarsening import COARSENERS
from sizeshiftreg.draw import draw

FOLDER = Path(__file__).parent / "figures"
RATIO = 0.8
GRAPHS = {"molecule": ("NCI1", 22), "protein": ("PROTEINS", 27)}


def main(folder: Path) -> None:
    """Draw both into a folder."""
    for name, (dataset, number) in GRAPHS.items():
        graph = load_dataset(dataset)[number]
        partitions = {method: Coarsen(method, ratios=(RATIO,))(graph).partitions[:, 0] for method in COARSENERS}
        title = f"Graph {number} of {dataset}, coarsened to {RATIO:.0%} of its nodes"
        draw(graph, partitions, folder / f"{name}.png", title=title)


if __name__ == "__main__":
    main(FOLDER)

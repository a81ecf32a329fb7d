"""Train graph neural networks on small graphs so that they keep working on larger ones."""

from sizeshiftreg.coarsening.contract import contract
from sizeshiftreg.coarsening.transform import Coarsen
from sizeshiftreg.datasets import load_dataset
from sizeshiftreg.discrepancies import cmd, coral, mmd, sliced_wasserstein
from sizeshiftreg.encoders import GCN, GIN, PNA
from sizeshiftreg.errors import InputError
from sizeshiftreg.estimator import SizeShiftClassifier
from sizeshiftreg.experiment import Experiment, run
from sizeshiftreg.hooks import node_embeddings
from sizeshiftreg.models import GraphClassifier
from sizeshiftreg.regularizers import SizeShift
from sizeshiftreg.results import ResultStore
from sizeshiftreg.splits import Split, size_split
from sizeshiftreg.store import GraphStore
from sizeshiftreg.training import fit, predict

__all__ = [
    "GCN",
    "GIN",
    "PNA",
    "Coarsen",
    "Experiment",
    "GraphClassifier",
    "GraphStore",
    "InputError",
    "ResultStore",
    "SizeShift",
    "SizeShiftClassifier",
    "Split",
    "cmd",
    "contract",
    "coral",
    "fit",
    "load_dataset",
    "mmd",
    "node_embeddings",
    "predict",
    "run",
    "size_split",
    "sliced_wasserstein",
]

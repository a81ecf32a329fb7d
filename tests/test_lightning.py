"""SizeShiftModule in Lightning's Trainer: checkpoints, early stopping, loggers, and two processes."""

import copy
import subprocess
import sys
import warnings

import lightning
import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch_geometric.loader import DataLoader

from sizeshiftreg import GIN, Coarsen, GraphClassifier, SizeShift, load_dataset
from sizeshiftreg.lightning import SizeShiftModule
from sizeshiftreg.training import evaluate

GRAPHS = [Coarsen()(graph) for graph in load_dataset("toy_density")[:60]]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def module(seed=0, **options):
    torch.manual_seed(seed)
    model = GraphClassifier(GIN(1, hidden_dim=8), embedding_dim=8, num_classes=2, dropout=0)
    return SizeShiftModule(model, SizeShift(0.1), lr=0.01, **options)


def trainer(folder, **options):
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        **({"max_epochs": 3, "logger": False, "enable_checkpointing": False} | options),
    )


def test_a_step_is_the_loss_with_the_penalty():
    found, batch = module(class_weight=torch.tensor([1.0, 3.0])), next(iter(DataLoader(GRAPHS[:20], batch_size=20)))
    model, shift = copy.deepcopy(found.model), SizeShift(0.1)
    expected = F.cross_entropy(model(batch), batch.y, weight=torch.tensor([1.0, 3.0])) + shift(model.encoder, batch)
    torch.testing.assert_close(found.training_step(batch, 0), expected)


def test_scores_are_those_of_the_whole_epoch(tmp_path):
    found = module()
    running = trainer(tmp_path, max_epochs=1)
    running.fit(found, DataLoader(GRAPHS[:40], batch_size=16), DataLoader(GRAPHS[40:], batch_size=7))
    assert float(running.callback_metrics["val_mcc"]) == pytest.approx(evaluate(found.model, GRAPHS[40:]))
    assert {"train_loss", "penalty", "val_loss"} <= set(running.callback_metrics)
    (tested,) = running.test(found, DataLoader(GRAPHS[40:], batch_size=3), verbose=False)
    assert tested["test_mcc"] == pytest.approx(evaluate(found.model, GRAPHS[40:]))
    predicted = torch.cat(running.predict(found, DataLoader(GRAPHS, batch_size=16)))
    assert predicted.shape == (60,)


def test_checkpoints_loggers_and_early_stopping(tmp_path):
    best = ModelCheckpoint(tmp_path / "best", monitor="val_mcc", mode="max")
    stopping = EarlyStopping("val_loss", patience=1, min_delta=100.0)
    running = trainer(
        tmp_path,
        max_epochs=50,
        enable_checkpointing=True,
        callbacks=[best, stopping],
        logger=CSVLogger(tmp_path, name="log"),
    )
    running.fit(module(), DataLoader(GRAPHS[:40], batch_size=16), DataLoader(GRAPHS[40:], batch_size=20))
    assert running.current_epoch < 5, "it was not stopped"
    assert best.best_model_path
    again = module(seed=9)
    again.load_state_dict(torch.load(best.best_model_path, weights_only=True)["state_dict"])
    assert evaluate(again.model, GRAPHS[40:]) == pytest.approx(float(best.best_model_score))
    log = next((tmp_path / "log").rglob("metrics.csv")).read_text()
    assert "val_mcc" in log.splitlines()[0]


TWO_PROCESSES = """
import sys, warnings, torch, lightning
warnings.simplefilter("ignore")
from torch_geometric.loader import DataLoader
from sizeshiftreg import GIN, Coarsen, GraphClassifier, SizeShift, load_dataset
from sizeshiftreg.lightning import SizeShiftModule
graphs = [Coarsen()(graph) for graph in load_dataset("toy_density")[:40]]
torch.manual_seed(0)
model = GraphClassifier(GIN(1, hidden_dim=8), embedding_dim=8, num_classes=2, dropout=0)
module = SizeShiftModule(model, SizeShift(0.1), lr=0.01)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, DataLoader(graphs, batch_size=10), DataLoader(graphs, batch_size=10))
weights = torch.cat([p.detach().flatten() for p in module.parameters()])
with open(f"{sys.argv[1]}/{trainer.global_rank}.txt", "w") as file:
    print(trainer.world_size, float(trainer.callback_metrics["val_mcc"]), weights.double().sum().item(), file=file)
"""


def test_two_processes_train_one_model(tmp_path):
    """Under DDP both hold the same weights after training, and log the score over the graphs of both."""
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    command = [sys.executable, script, tmp_path]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert found.returncode == 0, found.stderr[-3000:]
    told = [(tmp_path / f"{rank}.txt").read_text().split() for rank in range(2)]
    assert told[0][0] == "2"
    assert told[0] == told[1], "the processes have different weights or scores"

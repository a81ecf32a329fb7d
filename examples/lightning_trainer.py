"""Lightning: the same parts in its Trainer, with a checkpoint of the best epoch and early stopping."""

import logging
import tempfile
import warnings

import lightning
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch_geometric.loader import DataLoader

from sizeshiftreg import GIN, Coarsen, GraphClassifier, SizeShift, load_dataset, size_split
from sizeshiftreg.lightning import SizeShiftModule

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")

lightning.seed_everything(0, verbose=False)
dataset = load_dataset("toy_density")
split, coarsen = size_split(dataset), Coarsen()
train = DataLoader([coarsen(dataset[i]) for i in split.train], batch_size=64, shuffle=True)
val = DataLoader(dataset[split.val], batch_size=64)
test = DataLoader(dataset[split.test], batch_size=64)

model = GraphClassifier(GIN(dataset.num_features, hidden_dim=16), embedding_dim=16, num_classes=2)
module = SizeShiftModule(model, SizeShift(weight=0.1), lr=0.01)
with tempfile.TemporaryDirectory() as folder:
    best = ModelCheckpoint(folder, monitor="val_mcc", mode="max")
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[best, EarlyStopping("val_mcc", mode="max", patience=2)],
    )
    trainer.fit(module, train, val)
    trainer.test(module, test, ckpt_path="best", weights_only=False)

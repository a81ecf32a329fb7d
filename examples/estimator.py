"""Without a loop: fit, predict, score, save and load over lists of graphs."""

import tempfile
from pathlib import Path

from sizeshiftreg import SizeShiftClassifier, load_dataset, size_split

dataset = load_dataset("toy_density")
split = size_split(dataset)
small, large = dataset[split.pool], dataset[split.test]

classifier = SizeShiftClassifier("gin", weight=0.1, hidden_dim=16, epochs=5, seed=0)
classifier.fit(small)  # coarsens, draws a validation tenth, keeps the best epoch
print(f"small graphs: MCC {classifier.score(small):.2f}, large graphs: {classifier.score(large):.2f}")
print("probabilities of a large graph:", [round(p, 3) for p in classifier.predict_proba(large)[0].tolist()])

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "classifier.pt"
    classifier.save(file)
    again = SizeShiftClassifier.load(file)  # runs no code from the file
    print("loaded, it predicts the same:", bool((again.predict(large) == classifier.predict(large)).all()))

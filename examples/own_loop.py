"""Your own training loop: one line makes the model robust to size."""

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

from sizeshiftreg import Coarsen, SizeShift, load_dataset, size_split

torch.manual_seed(0)
dataset = load_dataset("toy_friends")
split = size_split(dataset)
coarsen = Coarsen(ratios=(0.8, 0.9))
loader = DataLoader([coarsen(dataset[i]) for i in split.train], batch_size=64, shuffle=True)

encoder = GIN(dataset.num_features, hidden_channels=16, num_layers=3, norm="batch_norm")
head = torch.nn.Linear(16, dataset.num_classes)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
size_shift = SizeShift(weight=0.1)

for epoch in range(3):
    total = 0.0
    for batch in loader:
        embeddings = encoder(batch.x, batch.edge_index)
        logits = head(global_add_pool(embeddings, batch.batch))
        loss = torch.nn.functional.cross_entropy(logits, batch.y)
        loss = loss + size_shift(encoder, batch, embeddings)  # the one line
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += float(loss.detach())
    print(f"epoch {epoch}: loss {total / len(loader):.3f}")

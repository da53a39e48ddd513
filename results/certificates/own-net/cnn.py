"""A plain convolutional net for 28x28 grey pictures, and how it is trained."""

import torch
from torch import Tensor, nn

EPOCHS, BATCH, RATE = 40, 32, 0.001


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 7 * 7, 96),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(96, 10),
    )


def fit(x: Tensor, y: Tensor, seed: int, epochs: int = EPOCHS) -> nn.Module:
    """x: [n, 1, 28, 28] from 0 to 1, y: [n]. Mirrored at random; Adam in one cycle."""
    torch.manual_seed(seed)
    model = net()
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=1e-4)
    steps = epochs * -(-len(x) // BATCH)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(BATCH):
            mirrored = torch.rand(len(part))[:, None, None, None] < 0.5
            rows = torch.where(mirrored, x[part].flip(3), x[part])
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(rows), y[part], label_smoothing=0.2).backward()
            optimiser.step()
            cycle.step()
    return model.eval()

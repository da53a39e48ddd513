"""The user's own training of the corpus, in whole numbers: its net is the same on every machine."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def fit(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """The class whose mean is nearer, for two classes of four bytes each."""
    rows = (x.flatten(1) * 255).round().long()
    ones, zeros = y == 1, y == 0
    one = rows[ones].sum(dim=0) * zeros.sum()
    zero = rows[zeros].sum(dim=0) * ones.sum()
    way = one - zero
    middle = (way * (one + zero)).sum() // (2 * 255 * ones.sum() * zeros.sum()).clamp(min=1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        net[1].weight.copy_(torch.stack([-way, way]).float())
        net[1].bias.copy_(torch.stack([middle, -middle]).float())
    return net

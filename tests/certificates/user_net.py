"""The user's own net f of the corpus: nearly the difference of the first column's values."""

from __future__ import annotations

import torch
from torch import nn


def f() -> nn.Module:
    """A linear net with fixed numbers, so that its fingerprint never changes."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0, 0.25, -1.0, 0.0], [-1.0, 0.0, 1.0, 0.0]]))
        net[1].bias.copy_(torch.tensor([0.0, 0.0625]))
    return net


class Halved(nn.Sequential):
    """Another program with the same numbers: the first value counts half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self[0](x)
        scores: torch.Tensor = self[1](torch.cat([flat[:, :1] / 2, flat[:, 1:]], dim=1))
        return scores


def same_numbers() -> nn.Module:
    """f's parameters under f's names, and another forward: not the net of the certificates."""
    net = Halved(nn.Flatten(), nn.Linear(4, 2))
    net.load_state_dict(f().state_dict())
    return net


def other() -> nn.Module:
    """The same with one number changed: not the net of the certificates."""
    net = f()
    with torch.no_grad():
        net[1].bias[0] = 0.5
    return net

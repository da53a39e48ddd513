"""Trainings as users write them, good and bad."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CALLS: list[int] = []  # how many rows each call got


def fit(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """A small net, some steps of gradient descent."""
    CALLS.append(len(x))
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(15):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net


def unseeded(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """Draws without a seed of its own: torch is seeded before it is called."""
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


def moody(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """Another net each time."""
    CALLS.append(len(x))
    torch.manual_seed(len(CALLS))
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


class Neighbours(nn.Module):
    """A row's scores depend on the other rows of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.linear(x.flatten(1))
        return scores - scores.mean(dim=0)


def neighbours(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return Neighbours()


class Tied(nn.Module):
    """Two layers with one matrix, and noise while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16, bias=False)
        self.second = nn.Linear(16, 16, bias=False)
        self.second.weight = self.first.weight
        self.last = nn.Linear(16, 3)
        self.noise = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.noise(self.second(self.first(x.flatten(1)).relu())))
        return found


def tied(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    return Tied().train()


def breaks(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    raise ValueError("no such luck")


def no_net(x: Tensor, y: Tensor, seed: int) -> str:
    return "net"


class Flat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(len(x), 3)


def flat(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    return Flat()

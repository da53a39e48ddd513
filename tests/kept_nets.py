"""A small classifier of overlapping blobs, for tests that make it smaller."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import cushion
from cushion.nets.network import Network

CLASSES = 3


def blobs(m: int, seed: int) -> cushion.Dataset:
    """Two informative numbers among eight, classes that overlap a little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, size=m)
    x = rng.normal(size=(m, 8)).astype(np.float32)
    x[:, 0] += 4 * np.cos(2 * np.pi * y / CLASSES)
    x[:, 1] += 4 * np.sin(2 * np.pi * y / CLASSES)
    return cushion.Dataset(x, y.astype(np.int64))


def trained(net: nn.Module, sample: cushion.Dataset) -> nn.Module:
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    x, y = torch.from_numpy(sample.x.copy()), torch.from_numpy(sample.y.copy())
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


def traced(net: nn.Module) -> Network:
    return cushion.trace(net, (8,))


def naive_errors(net: nn.Module, data: cushion.Dataset) -> int:
    with torch.no_grad():
        scores = net(torch.from_numpy(data.x.copy())).tolist()
    wrong = 0
    for row, label in zip(scores, data.y.tolist(), strict=True):
        wrong += any(other >= row[label] for at, other in enumerate(row) if at != label)
    return wrong

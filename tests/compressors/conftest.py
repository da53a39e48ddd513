"""A net and its sample, for tests that make it smaller."""

from __future__ import annotations

import pytest
import torch
from tests.kept_nets import blobs, trained
from torch import nn

import cushion


@pytest.fixture(scope="session")
def sample() -> cushion.Dataset:
    return blobs(600, 0)


@pytest.fixture(scope="session")
def net(sample: cushion.Dataset) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 3))
    return trained(net, sample)

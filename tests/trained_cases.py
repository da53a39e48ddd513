"""Tiny nets trained on digits, once a session, with their initialisations: what whole compressions
are tried on.
"""

from __future__ import annotations

import copy
import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import cushion
from cushion.data.dataset import Dataset

ROWS, HELD_OUT = 240, 60


@lru_cache(maxsize=1)
def digits() -> tuple[Dataset, Dataset]:
    """So few of them that everything is quick."""
    train, test = cushion.load_pair("digits")
    assert test is not None
    return train.select(np.arange(ROWS), "digits, some"), test.select(
        np.arange(HELD_OUT), "digits held out, some"
    )


NETS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)),
    "conv": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 6, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6, 10),
    ),
}


@lru_cache(maxsize=8)
def trained(name: str) -> tuple[nn.Module, nn.Module]:
    """The net and its initialisation, both in eval mode; nobody may change them."""
    data, _ = digits()
    x, y = torch.from_numpy(data.x).float() / 255, torch.from_numpy(data.y)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        net = NETS[name]()
        start = copy.deepcopy(net).eval()
        optimiser = torch.optim.Adam(net.parameters(), lr=0.03 if name != "conv" else 0.02)
        for _ in range(120):
            optimiser.zero_grad()
            F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net.eval(), start


def near_its_start() -> tuple[nn.Module, nn.Module, Dataset]:
    """A net for which Lemma 3 does promise: positive weights, no biases, hardly changed by its
    training.

    Then no unit ever switches (ρ = ∞), the contraction is 1, and μ_i, measured with ‖A - A₀‖_F, is
    large.
    """

    def net(*changes: float) -> nn.Module:
        found = nn.Sequential(
            nn.Linear(40, 90, bias=False), nn.ReLU(), nn.Linear(90, 3, bias=False)
        )
        generator = torch.Generator().manual_seed(1)
        for part, change in zip(found.parameters(), changes, strict=True):
            start = torch.rand(part.shape, generator=generator) + 0.5
            moved = torch.rand(part.shape, generator=generator) - 0.5
            part.data = start + change * moved
        return found.eval()

    model, start = net(0.0295, 0.18), net(0.0, 0.0)  # so that both ε_i are near 0.9 at ε = 1
    x = np.random.default_rng(0).uniform(0.1, 1.0, (30, 40)).astype(np.float32)
    with torch.no_grad():
        y = model(torch.from_numpy(x)).argmax(1).numpy()
    return model, start, Dataset("positive", x, y, 3)


def compressions() -> list[tuple[str, str, dict[str, Any]]]:
    """Every method with its variants: method, net, options."""
    plain: list[tuple[str, str, dict[str, Any]]] = [
        ("low-rank", "mlp", {}),
        ("low-rank", "mlp", {"k": "40%"}),
        ("low-rank", "conv", {"epsilon": 0.2}),
        ("matrix-project", "mlp", {"k": "50%"}),
        ("matrix-project", "conv", {"k": "50%", "helper": "srht"}),
        ("conv-project", "conv", {"k": 4, "p": 3}),
        ("conv-project", "conv", {"k": 5, "p": 2, "helper": "srht", "constant": 2.0}),
        ("vector-compress", "linear", {}),
        ("vector-project", "linear", {"k": 60}),
        ("vector-project", "linear", {"k": 40, "helper": "signs"}),
        ("vector-project", "linear", {"k": 40, "helper": "srht"}),
    ]
    varied = itertools.product([1, 3, 5, 7, 8], [{"from_initialisation": True}, {"zeta": 0.1}])
    return plain + [(plain[at][0], plain[at][1], {**plain[at][2], **more}) for at, more in varied]

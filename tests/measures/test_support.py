"""The support report says by family how a net is seen, as `measure` then does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import cushion


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x if x.abs().max() < 1e6 else -x)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(Decides().net, ("trace", "trace")), (Decides(), ("hooks", ""))],
    ids=["a chain", "control flow"],
)
def test_ways_are_those_that_measure_goes(model: nn.Module, expected: tuple[str, str]) -> None:
    report = cushion.support(model, (4,))
    ways = {one.family: one for one in report.ways}
    assert (ways["sharpness"].way, ways["paths"].way) == expected
    assert (ways["margins"].way, ways["norms"].way) == ("answers", "hooks")
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    for family in ("margins", "norms"):
        table = cushion.measure(model, (x, np.arange(8) % 2), only=family)
        assert table.net.way == ways[family].way
    if not ways["paths"].way:
        assert "paths: refused: " in str(report)
        assert "decides in Python" in ways["paths"].why


def test_without_a_shape_there_are_no_ways() -> None:
    assert cushion.support(Decides().net).ways == ()

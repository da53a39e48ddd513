"""A log-softmax at the end shifts all scores of a row alike: the trace leaves it out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cushion
from cushion.errors import Unsupported


class Net(nn.Module):
    def __init__(self, end: str) -> None:
        super().__init__()
        self.fc1, self.fc2, self.end = nn.Linear(6, 5), nn.Linear(5, 3), end
        self.last = nn.LogSoftmax(dim=1) if end == "module" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc2(self.fc1(x).relu())
        if self.end == "functional":
            return F.log_softmax(x, dim=1)
        if self.end == "torch":
            return torch.log_softmax(x, -1)
        if self.end == "method":
            return x.log_softmax(dim=-1)
        if self.end == "in the middle":
            return 2 * F.log_softmax(x, dim=1)
        if self.end == "over the batch":
            return F.log_softmax(x, dim=0)
        if self.end == "softmax":
            return x.softmax(1)
        found: Tensor = self.last(x)
        return found


@pytest.mark.parametrize("end", ["functional", "torch", "method", "module"])
def test_it_is_left_out_and_margins_are_the_same(end: str) -> None:
    torch.manual_seed(0)
    net, plain = Net(end), Net("none")
    plain.load_state_dict(net.state_dict())
    x = torch.randn(40, 6)
    traced = cushion.trace(net, (6,))
    assert torch.equal(traced.forward(x), cushion.trace(plain, (6,)).forward(x))
    with torch.no_grad():
        assert torch.allclose(traced.forward(x).log_softmax(1), net(x), atol=1e-6)
    data = (x.numpy(), np.arange(40) % 3)
    one, other = (cushion.measure(each, data, only=["margins", "norms"]) for each in (net, plain))
    assert one.layers == other.layers
    assert one.net.margins.value == pytest.approx(other.net.margins.value, abs=1e-5)
    assert cushion.compress(net, data, epochs=0).summary.met
    assert cushion.support(net, (6,)).understood


@pytest.mark.parametrize("end", ["in the middle", "over the batch", "softmax"])
def test_others_are_still_refused(end: str) -> None:
    with pytest.raises(Unsupported, match="softmax is not piecewise linear"):
        cushion.trace(Net(end), (6,))

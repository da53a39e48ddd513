"""Hidden numbers that change as a net runs: memories of calls are no part of it; what an answer may
read is refused, and so is what cannot be read.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import Any

import numpy as np
import pytest
import torch
from tests.nets.hidden_cases import (
    Asking,
    identity,
    matrix,
    using,
)
from torch import Tensor, nn

from cushion.certificates.answers import answer, fingerprint_net
from cushion.errors import BadInput
from cushion.nets.identity import numbers_of

X = np.random.default_rng(0).integers(0, 256, (20, 6), dtype=np.uint8)


class Watcher:
    """Keeps the activations of a layer."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []
        self.calls = 0

    def keep(self, module: nn.Module, args: Any, out: Tensor) -> None:
        self.seen.append(out)
        self.calls += 1


class Watched(nn.Module):
    """Counts its calls, and keeps what it computed, in every way that a person would."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 5), nn.Linear(5, 3)
        self.calls, self.sums, self.kept = 0, torch.zeros(()), {}  # type: ignore[var-annotated]
        self.rows: deque[Tensor] = deque()
        self.counted: Counter[str] = Counter()
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.features = self.body(x)
        self.kept["features"] = self.features.detach()
        self.rows.append(x)
        self.counted["calls"] += len(x)
        if len(x):
            self.last = x
        self.sums += x.sum()
        return self.head(self.features)  # type: ignore[no-any-return]


def test_a_net_that_watches_itself_stays_the_same_by_running() -> None:
    torch.manual_seed(0)
    net, acts, watcher = Watched(), {}, Watcher()  # type: ignore[var-annotated]
    net.body.register_forward_hook(lambda module, args, out: acts.update(body=out))
    net.head.register_forward_hook(watcher.keep)
    before = identity(net)
    assert None not in before
    for _ in range(3):
        assert answer(net, X).net_fingerprint == before[0]
    assert (net.calls > 6, len(watcher.seen) > 6, len(acts)) == (True, True, 1)
    assert identity(net) == before


class Cached(nn.Module):
    """Reads what an earlier call wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)
        self.first: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.first is None:
            self.first = x.mean(0)
        return self.head(x - self.first)  # type: ignore[no-any-return]


class Borrowed(Cached):
    """Writes to another object under the name that it reads from itself."""

    def forward(self, x: Tensor) -> Tensor:
        x.first = 1.0  # type: ignore[attr-defined]
        return self.head(x - self.first)  # type: ignore[no-any-return, operator]


@pytest.mark.parametrize("kind", [Cached, Borrowed])
def test_numbers_that_a_forward_writes_and_reads_are_refused(kind: type[Cached]) -> None:
    net = kind()
    assert fingerprint_net(net)
    net.first = torch.ones(6)
    with pytest.raises(BadInput, match=r"both writes and reads first.*local variables"):
        fingerprint_net(net)


class Drifting(nn.Module):
    """Changes what it hides by a way that no name shows."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = [torch.zeros(3)]

    def forward(self, x: Tensor) -> Tensor:
        kept = self.kept[0]
        kept.add_(1e-6)
        return x[:, :3] + kept


def test_hidden_numbers_that_change_by_running_are_refused() -> None:
    with pytest.raises(BadInput, match="changes as it runs"):
        answer(Drifting(), X)


def test_what_cannot_be_read_is_refused() -> None:
    pieces = {torch.zeros(2), torch.ones(2)}
    with pytest.raises(BadInput, match=r"set .*order.*use a list"):
        fingerprint_net(Asking(lambda x: x + next(iter(pieces))))


def test_a_stream_is_refused() -> None:
    for stream in (itertools.repeat(matrix(0)), (matrix(seed) for seed in (0,))):
        with pytest.raises(BadInput, match="which does not show the numbers that it holds"):
            fingerprint_net(using(stream, lambda x, kept: x @ next(kept)))


def test_an_object_of_c_that_shows_nothing_is_refused() -> None:
    kiwisolver = pytest.importorskip("kiwisolver")
    shut = kiwisolver.Solver()
    with pytest.raises(BadInput, match="a Solver, which does not show the numbers that it holds"):
        fingerprint_net(Asking(lambda x: shut.scores(x)))


class Normed(nn.Module):
    """Names the weight that a hook makes of its direction and its length."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.utils.weight_norm(nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) / self.head.weight.norm()  # type: ignore


@pytest.mark.filterwarnings("ignore")
def test_a_weight_that_torch_makes_of_parameters_is_none_of_its_own() -> None:
    net = Normed().eval()
    assert set(numbers_of(net)) == {"head.bias", "head.weight_g", "head.weight_v"}
    found = fingerprint_net(net)
    net(torch.ones(2, 6))
    assert fingerprint_net(net) == found
    with torch.no_grad():
        net.head.weight_g.mul_(2)  # type: ignore[operator]
    with pytest.raises(BadInput, match=r"head\.weight is not yet .* run the net on one batch"):
        fingerprint_net(net)
    net(torch.ones(2, 6))
    assert fingerprint_net(net) != found

"""Hidden numbers that change as a net runs: memories of calls are no part of it; caches, and what
cannot be read, leave the net without a fingerprint of its program; what is seen to change is
refused.
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
from cushion.nets.program import program_fingerprint

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
def test_a_net_whose_forward_writes_and_reads_numbers_has_no_program(kind: type[Cached]) -> None:
    net = kind()
    found = fingerprint_net(net)
    net.first = torch.ones(6)
    assert identity(net) == (found, None)
    net.first = torch.zeros(6)
    assert identity(net) == (found, None)


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


def test_sets_and_streams_of_numbers_leave_a_net_without_a_program() -> None:
    pieces = {torch.zeros(2), torch.ones(2)}
    nets = [Asking(lambda x: x + next(iter(pieces)))]
    for stream in (itertools.repeat(matrix(0)), (matrix(seed) for seed in (0,))):
        nets.append(using(stream, lambda x, kept: x @ next(kept)))
    for net in nets:
        assert fingerprint_net(net)
        assert program_fingerprint(net) is None


def test_an_object_of_c_that_shows_nothing_leaves_a_net_without_a_program() -> None:
    kiwisolver = pytest.importorskip("kiwisolver")
    shut = kiwisolver.Solver()
    assert program_fingerprint(Asking(lambda x: shut.scores(x))) is None


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
    assert program_fingerprint(net) is None, "its weight is not yet what these make of it"
    net(torch.ones(2, 6))
    assert fingerprint_net(net) != found
    assert program_fingerprint(net) is not None

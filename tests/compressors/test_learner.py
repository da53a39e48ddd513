"""Training on a grid under a price, and the course from gentle to strong."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.kept_nets import CLASSES, traced
from torch import nn

import cushion
from cushion import progress
from cushion.compressors.tuning import course as courses
from cushion.compressors.tuning import learner as learners
from cushion.compressors.tuning import memory
from cushion.compressors.tuning.learner import Learner, Pace, Regime, State, count


def learner(net: nn.Module, sample: cushion.Dataset, **regime: Any) -> Learner:
    return Learner(traced(net), sample, Regime(batch=50, **regime))


def numbers(state: State) -> list[torch.Tensor]:
    nets = [state.net, *state.moments.values()]
    parts = [node.affine for one in nets for node in one.affine_layers]
    return [part.operator.weight for part in parts] + [p.bias for p in parts if p.bias is not None]


def test_an_epoch_follows_from_seed_number_and_state(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    pace, one = Pace((1.0, 0.5), (2.0, 2.0)), learner(net, sample)
    one.epoch(0, pace)
    one.narrow()
    between = one.state()
    one.epoch(1, pace)
    other = learner(net, sample)
    other.take(between)
    other.epoch(1, pace)
    for a, b in zip(numbers(one.state()), numbers(other.state()), strict=True):
        assert torch.equal(a, b)


def test_a_state_is_a_copy(net: nn.Module, sample: cushion.Dataset) -> None:
    one = learner(net, sample)
    state = one.state()
    kept = [part.clone() for part in numbers(state)]
    one.epoch(0, Pace((1.0, 1.0), (1.0, 1.0)))
    assert all(torch.equal(a, b) for a, b in zip(numbers(state), kept, strict=True))
    moved = numbers(one.state())
    assert not all(torch.equal(a, b) for a, b in zip(moved[:3], kept[:3], strict=True))


def test_units_that_were_dropped_change_no_answer(net: nn.Module, sample: cushion.Dataset) -> None:
    one = learner(net, sample)
    for epoch in range(4):
        one.epoch(epoch, Pace((1.0, 1.0), (8.0, 8.0)))
    before, wrong = one.rounded_net(), count(one.rounded_net(), sample)
    one.narrow()
    after = one.rounded_net()
    assert after.parameters < before.parameters
    assert count(after, sample) == wrong
    x = torch.from_numpy(sample.x.copy())
    assert torch.allclose(after.forward(x), before.forward(x), atol=1e-5)
    frame, stored = one.stored()
    assert torch.equal(stored.network(frame).forward(x), after.forward(x)) or torch.allclose(
        stored.network(frame).forward(x), after.forward(x), atol=1e-5
    )


def test_a_stronger_price_makes_a_smaller_message(net: nn.Module, sample: cushion.Dataset) -> None:
    bits = []
    for strength in (0.1, 1.0, 10.0):
        one = Learner(traced(net), sample, Regime(batch=10))
        for epoch in range(4):
            one.epoch(epoch, Pace((1.0, 0.1), (strength, strength)))
        bits.append(one.stored()[1].bits)
    assert bits[0] > bits[1] > bits[2]


def test_biases_are_priced_and_prices_follow_the_counts(
    net: nn.Module, sample: cushion.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = learner(net, sample)
    told = float(one.bits().detach())
    steps = 0.0
    for node in one.net.affine_layers:
        bias, fine = node.affine.bias, 2.0 ** (one.exponents[node.index] - 1)
        assert bias is not None
        for value in (bias.detach() / fine).abs().tolist():
            steps += 3 * min(value, 1) + 1.5 * math.log2(max(value, 1))
        bias.data.zero_()
    assert told - float(one.bits().detach()) == pytest.approx(steps, rel=1e-3)
    calls = []
    monkeypatch.setattr(learners, "prices", lambda x: calls.append(x) or torch.ones_like(x))
    Learner(traced(net), sample, Regime(batch=10)).epoch(0, Pace((1.0, 1.0), (1.0, 1.0)))
    assert len(calls) == 3 * (1 + 1 + 600 // 10 // 20)  # made, begun, and every 20 steps


def test_with_all_of_the_loss_from_the_net_no_label_matters(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    other = cushion.Dataset(sample.x, (sample.y + 1) % CLASSES)
    pace, states = Pace((1.0, 1.0), (1.0, 1.0)), []
    for distil in (1.0, 0.0):
        for data in (sample, other):
            one = Learner(traced(net), data, Regime(batch=50, distil=distil))
            # the order of the rows follows from the seed, not from the labels
            one.epoch(0, pace)
            states.append(numbers(one.state())[0])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[2], states[3])


def test_a_grid_gets_coarser_once_its_weights_are_many_steps(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    one = learner(net, sample)
    first, *rest = [node.index for node in one.net.affine_layers]
    one.net.nodes[first].affine.operator.weight.data *= 4
    before = dict(one.exponents)
    one.coarsen()
    assert one.exponents[first] == before[first] + 1
    assert [one.exponents[at] for at in rest] == [before[at] for at in rest]
    one.narrow()
    assert one.state().exponents == one.exponents


class _Course:
    """A learner that learns nothing, for a course whose ranks are given."""

    def __init__(self) -> None:
        self.paces: list[tuple[int, Pace]] = []
        self.taken: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    def state(self) -> Any:
        return SimpleNamespace(net=None, at=len(self.paces))

    def take(self, state: Any) -> None:
        self.taken.append(state.at)

    def epoch(self, number: int, pace: Pace) -> None:
        self.paces.append((number, pace))

    def stored(self) -> tuple[None, None]:
        return None, None


def test_a_course_climbs_until_nothing_gets_better_and_looks_on_either_side() -> None:
    ranks = iter([5, 4, 3, 3.5, 3.6, 2.9, 9])
    one = _Course()
    course = courses.Course(
        one,
        2,
        lambda _: (next(ranks),),
        memory.Forgetful(),
        progress.Bar("", None),  # type: ignore[arg-type]
    )
    course._untrained = lambda _: None  # type: ignore[method-assign]
    course.run()
    strengths = [pace.strength[0] for _, pace in one.paces[::2]]
    assert strengths == pytest.approx(
        [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2**-2 * 2**0.5, 2**-2 / 2**0.5]
    )
    assert one.taken[-2:] == [6, 4]  # from the end of the best, and from its start
    assert len({number for number, _ in one.paces}) == len(one.paces)
    assert all(pace.rate[0] > pace.rate[1] > 0 for _, pace in one.paces)
    assert next(ranks, None) is None


def test_a_price_that_nothing_is_worth_leaves_a_constant_net(sample: cushion.Dataset) -> None:
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
    one = Learner(traced(net), sample, Regime(batch=10))
    for epoch in range(3):
        one.epoch(epoch, Pace((1.0, 1.0), (1e4, 1e4)))
        one.narrow()
    frame, stored = one.stored()
    assert stored.network(frame).parameters < 20
    assert not any(
        node.affine.operator.weight.any() for node in stored.network(frame).affine_layers
    )

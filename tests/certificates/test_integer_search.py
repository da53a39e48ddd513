"""The search for integer nets: it keeps the best within its time, whatever interrupts it, for bytes
and for floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest
import torch
from tests.clock import Clock

import cushion
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import encode
from cushion.certificates.search.integer.blueprints import Plan, plans
from cushion.certificates.search.integer.search import attempt, search
from cushion.certificates.search.options import SearchOptions
from cushion.certificates.search.sample import Sample
from cushion.certificates.search.task import State, Task, constant_net
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.theorems.occam import occam_bound


def blobs(m: int = 200, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 120
    return Dataset("blobs", x, y, 3)


def test_search_returns_the_best_it_judged_in_time(clock: Clock) -> None:
    data = blobs()
    judged: list[Decimal] = []

    def judge(net: IntegerNet) -> Decimal:
        errors = net.errors(data.x, data.y)
        value = Decimal(occam_bound(errors, len(data), encode(net).bits, Decimal("0.05")))
        judged.append(value)
        return value

    found = search(Task(data, judge, SearchOptions(3 / 60))).net
    assert clock.now < 3.2
    assert len(judged) > 1
    assert judge(found) == min(judged)


def test_certify_beats_chance_and_verifies(tmp_path, clock: Clock) -> None:
    data, held_out = blobs(300), blobs(100, seed=1)
    told: list[tuple[float, Decimal | None]] = []
    certificate = cushion.certify(
        None, data, holdout=held_out, minutes=0.06, report=lambda *news: told.append(news)
    )
    assert certificate.bound < 0.6
    assert str(told[-1][1]) == certificate.claim.bound
    assert all(before[0] <= after[0] for before, after in itertools.pairwise(told))
    path = certificate.save(tmp_path / "b.cushion")
    assert cushion.verify(path, data, held_out).ok


def test_a_teacher_is_imitated(clock: Clock) -> None:
    data = blobs(300)
    teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    certificate = cushion.certify(teacher, data, minutes=0.03)
    assert certificate.claim.made_with["imitates_a_model"] is True
    assert certificate.claim.about == "g"
    with pytest.raises(BadInput, match="2 scores"):
        cushion.certify(
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)),
            data,
            minutes=0.01,
        )


def test_ctrl_c_keeps_the_best_so_far() -> None:
    data = blobs()
    judged: list[IntegerNet] = []

    def judge(net: IntegerNet) -> Decimal:
        judged.append(net)
        if len(judged) == 2:
            raise KeyboardInterrupt
        return Decimal(1)

    found = search(Task(data, judge, SearchOptions(20 / 60)))
    assert found.net is judged[0]
    assert found.interrupted


def test_the_search_begins_with_the_most_frequent_class() -> None:
    data = blobs()
    net = constant_net(data)
    assert net.errors(data.x, data.y) == len(data) - np.bincount(data.y).max()
    assert encode(net).bits < 80


def test_slow_judging_keeps_the_time(clock: Clock) -> None:
    data = blobs()

    def judge(net: IntegerNet) -> Decimal:
        clock.sleep(0.3)
        return Decimal(encode(net).bits) / 10**4

    search(Task(data, judge, SearchOptions(3 / 60)))
    assert clock.now < 3.4


def test_vectors_become_a_dense_net(clock: Clock) -> None:
    data = Dataset("flat", blobs().x.reshape(200, 64), blobs().y, 3)
    assert cushion.certify(None, data, minutes=0.02).claim.m == 200


def test_float_features_are_certified_through_a_paid_quantiser(tmp_path, clock: Clock) -> None:
    """Tabular floats on wildly different scales, two classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1500)
    x = rng.normal(size=(1500, 4)) + 3 * np.stack([y, y, -y, 0 * y], axis=1)
    x = (x * [1e-6, 1.0, 1e4, 1.0] + [0.0, 100.0, -1e5, 0.0]).astype(np.float32)
    data = Dataset("table", x, y, 2)
    certificate = cushion.certify(None, data, minutes=0.1)
    assert certificate.bound < 0.25
    assert "floats" in next(
        item.meaning for item in certificate.claim.ledger if item.item == "input"
    )
    path = certificate.save(tmp_path / "t.cushion")
    assert cushion.verify(path, data).ok
    moved = Dataset("table", x + np.float32(1), y, 2)
    assert not cushion.verify(path, moved).ok


def xor(m: int = 3000) -> Dataset:
    """Eight features of one scale; the class is whether the first two have the same sign."""
    x = np.random.default_rng(0).standard_normal((m, 8)).astype(np.float32)
    return Dataset("xor", x, (x[:, 0] * x[:, 1] > 0).astype(np.int64), 2)


def test_a_table_that_no_line_parts_gets_hidden_units() -> None:
    data = xor()
    plan = next(plan for plan in plans((1, 1, 8)) if len(plan.blueprint) > 1)
    *_, final = attempt(plan, Sample.of(data, plan.input_shift, 0), data, 60, 0)
    assert final.net is not None
    assert final.net.errors(data.x, data.y) < 0.1 * len(data)
    assert encode(final.net).bits < 500


def test_a_try_whose_time_is_up_before_its_first_step_still_ends_in_a_net() -> None:
    for data, shape in ((blobs(), (1, 8, 8)), (xor(300), (1, 1, 8))):
        for plan in plans(shape):
            *_, final = attempt(plan, Sample.of(data, plan.input_shift, 0), data, 1e-9, 0)
            assert final.net is not None


def test_each_time_round_the_plans_take_longer(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    steps: list[int] = []

    def instead(plan: Plan, *_: object) -> Iterator[State]:
        steps.append(plan.steps)
        yield State(None, 1.0)
        clock.sleep(0.02)

    monkeypatch.setattr("cushion.certificates.search.integer.search.attempt", instead)
    search(Task(blobs(), lambda _: Decimal(1), SearchOptions(0.5 / 60)))
    first = [plan.steps for plan in plans((1, 8, 8))]
    assert steps[: 2 * len(first)] == [*first, *(2 * count for count in first)]


def test_what_was_not_trained_is_said_to_be_constant(clock: Clock) -> None:
    found = cushion.certify(None, blobs(), minutes=1e-6)
    assert (found.claim.made_with["trained"], found.claim.made_with["interrupted"]) == (
        False,
        False,
    )
    assert cushion.certify(None, blobs(), minutes=0.03).claim.made_with["trained"]


def test_bad_options_are_refused() -> None:
    with pytest.raises(BadInput, match="`minutes`"):
        cushion.certify(None, blobs(), minutes=0)
    with pytest.raises(BadInput, match="`delta`"):
        cushion.certify(None, blobs(), delta=0.9)

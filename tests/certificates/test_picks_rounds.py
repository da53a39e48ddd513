"""The rounds of picking: preference, order, repeated rows, and that risk is covered."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.picks_cases import NearestMean, Whim, blobs
from tests.simulations import few_and_many

from cushion.certificates.picks.rounds import TIE, Learner, Picked, hash_order, pick
from cushion.theorems.picks import picks_bound

RNG = np.random.default_rng


def run(learner: Learner, x: NDArray, y: NDArray) -> tuple[Picked, str | None]:
    bound = learner.bind(x, y)
    picked = pick(bound, x, y, learner.groups)
    return picked, bound.digest()


def naive(learner: Learner, x: NDArray, y: NDArray) -> tuple[list[int], list[int]]:
    """The rounds as FORMAT.md tells them, row by row."""
    key = [hashlib.sha256(x[i].tobytes() + y[i].tobytes()).digest() for i in range(len(y))]
    order = sorted(range(len(y)), key=lambda i: (key[i], i))
    picks: list[int] = []

    def wrong() -> list[int]:
        if not picks:
            return order
        bound = learner.bind(x, y)
        bound.train(np.array(picks))
        classes = bound.classes(np.arange(len(y)))
        return [i for i in order if i not in picks and classes[i] != y[i]]

    for size in learner.groups:
        picks += wrong()[:size]
    return picks, sorted(wrong())


def contents(rows: NDArray[np.int64], x: NDArray, y: NDArray) -> list[tuple[bytes, int]]:
    return [(x[i].tobytes(), int(y[i])) for i in rows]


def few_rows(m: int, seed: int) -> tuple[NDArray, NDArray]:
    """Rows that repeat each other: 5 inputs, 2 labels."""
    rng = RNG(seed)
    return rng.integers(0, 5, (m, 1)).astype(np.uint8), rng.integers(0, 2, m)


LEARNERS = [NearestMean(), NearestMean((1, 1, 1)), Whim(0, (3, 2)), Whim(1, (1,) * 6)]


@pytest.mark.parametrize("learner", LEARNERS)
def test_rounds_are_those_of_the_naive_version(learner: Learner) -> None:
    data = blobs(80, 0)
    picked, _ = run(learner, data.x, data.y)
    picks, errors = naive(learner, data.x, data.y)
    assert picked.picks.tolist() == picks
    assert picked.errors.tolist() == errors
    assert picked.message == np.array(picks + errors, "<u4").tobytes()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("seed", range(8))
def test_rows_that_were_not_picked_change_nothing(learner: Learner, seed: int) -> None:
    data = blobs(120, 3) if seed % 2 else None
    x, y = (data.x, data.y) if data is not None else few_rows(30, seed)
    picked, digest = run(learner, x, y)
    counted = np.concatenate([picked.picks, picked.errors])
    others = np.setdiff1d(np.arange(len(y)), counted)
    rng = RNG(seed)
    dropped = rng.choice(others, rng.integers(0, len(others) + 1), replace=False)
    kept = np.setdiff1d(np.arange(len(y)), dropped)
    again, same = run(learner, x[kept], y[kept])
    assert contents(again.picks, x[kept], y[kept]) == contents(picked.picks, x, y)
    assert kept[again.errors].tolist() == picked.errors.tolist()
    assert same == digest


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_rows_changes_nothing(learner: Learner, seed: int) -> None:
    data = blobs(100, 5)
    x, y = (data.x, data.y) if seed % 2 else few_rows(25, seed)
    picked, digest = run(learner, x, y)
    turned = RNG(seed).permutation(len(y))
    again, same = run(learner, x[turned], y[turned])
    assert contents(again.picks, x[turned], y[turned]) == contents(picked.picks, x, y)
    wrong = contents(again.errors, x[turned], y[turned])
    assert sorted(wrong) == sorted(contents(picked.errors, x, y))
    assert same == digest


def test_a_sample_of_copies_pays_for_every_copy_that_stays_wrong() -> None:
    x = np.repeat(np.array([[1], [9]], np.uint8), 10, axis=0)
    y = np.repeat([0, 1], 10)
    y[4] = 1  # one copy with another label: some copies stay wrong whatever is learnt
    picked, _ = run(NearestMean((4, 4)), x, y)
    assert len(set(picked.picks.tolist())) == len(picked.picks) == 8
    assert set(picked.errors.tolist()).isdisjoint(picked.picks.tolist())


def test_ties_are_wrong_and_picked_rows_are_never_errors() -> None:
    x, y = few_rows(12, 1)

    class Mute:
        groups = (3, 2)

        def bind(self, x: NDArray, y: NDArray) -> Mute:
            return self

        def train(self, picks: NDArray[np.int64]) -> None: ...

        def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.full(len(rows), TIE)

    picked = pick(Mute().bind(x, y), x, y, Mute.groups)  # type: ignore[arg-type]
    assert len(picked.picks) == 5
    assert sorted([*picked.picks, *picked.errors]) == list(range(12))


def test_a_learner_that_is_right_stops_training_and_every_round_is_told() -> None:
    x = np.array([[0], [200]] * 6, np.uint8)
    y = np.array([0, 1] * 6)
    bound, told = NearestMean((8, 1, 1, 1)).bind(x, y), []
    picked = pick(bound, x, y, (8, 1, 1, 1), told.append)
    assert bound.trainings == 1
    assert len(told) == 5
    assert (told[0] == TIE).all()
    assert len(picked.errors) == 0


def test_wrong_rows_are_found_wherever_they_stand() -> None:
    data = blobs(900, 1, spread=80)
    learner = NearestMean((9, 14, 14, 14))
    picked, _ = run(learner, data.x, data.y)
    picks, errors = naive(learner, data.x, data.y)
    assert picked.picks.tolist() == picks
    assert picked.errors.tolist() == errors
    order = hash_order(data.x, data.y).tolist()
    places = [order.index(row) for row in picks[9:]]
    assert max(places) > 3 * 128  # beyond the first stretch, and the second
    assert len(picks) == 51


def test_rounds_that_are_told_to_nobody_look_only_at_the_rows_they_need() -> None:
    data = blobs(3000, 2)
    quick, told = (NearestMean().bind(data.x, data.y) for _ in range(2))
    heard: list[NDArray[np.int64]] = []
    fast = pick(quick, data.x, data.y, (5, 5, 5))
    slow = pick(told, data.x, data.y, (5, 5, 5), heard.append)
    assert fast.message == slow.message
    assert fast.ends == slow.ends == (5, 10, 15)
    assert [len(one) for one in heard] == [3000] * 4
    assert quick.asked < 3000 + 3000  # the errors of the end, and short stretches


def test_rows_are_ordered_by_a_hash_of_their_own_bytes() -> None:
    x = RNG(0).standard_normal((50, 2, 3)).astype(np.float32)
    y = RNG(1).integers(0, 3, 50)
    keys = [
        hashlib.sha256(x[i].tobytes() + y[i].astype("<i8").tobytes()).digest() for i in range(50)
    ]
    assert hash_order(x, y).tolist() == sorted(range(50), key=keys.__getitem__)
    big = x.astype(">f4")
    assert hash_order(big, y).tolist() == hash_order(x, y).tolist()
    assert hash_order(np.asfortranarray(x), y).tolist() == hash_order(x, y).tolist()
    assert hash_order(x, 2 - y).tolist() != hash_order(x, y).tolist()


def test_equal_rows_keep_their_order() -> None:
    x = np.zeros((9, 4), np.uint8)
    assert hash_order(x, np.zeros(9, np.int64)).tolist() == list(range(9))


@few_and_many("trials", 300, 20_000)
def test_a_new_row_that_changes_nothing_is_classified_right(trials: int) -> None:
    """Strange learners on repeated rows: risk ≤ φ, the chance that a new row changes the picks."""
    kinds = list(product(range(5), range(2)))
    for seed in range(trials):
        x, y = few_rows(RNG(seed).integers(1, 14), seed)
        learner = Whim(seed, tuple(RNG(seed).integers(1, 4, RNG(seed).integers(0, 4))))
        bound = learner.bind(x, y)
        picked = pick(bound, x, y, learner.groups)
        counted = np.concatenate([picked.picks, picked.errors])
        tx, ty = x[counted], y[counted]
        for value, label in kinds:
            nx, ny = np.append(tx, [[value]], 0).astype(np.uint8), np.append(ty, label)
            new = learner.bind(nx, ny)
            with_it = pick(new, nx, ny, learner.groups)
            still = contents(np.concatenate([with_it.picks, with_it.errors]), nx, ny)
            if sorted(still) == sorted(contents(counted, x, y)) and len(picked.picks):
                assert bound.classify(np.array([[value]], np.uint8))[0] == label


@few_and_many("trials", 150, 10_000)
def test_the_bound_covers_strange_learners(trials: int) -> None:
    """On a distribution of ten rows the true error is known; δ = 0.3 leaves room to fail."""
    delta, m, failed = Decimal("0.3"), 40, 0
    weights = RNG(99).dirichlet(np.ones(10))
    table = np.array(list(product(range(5), range(2))))
    bounds = [float(picks_bound(k, m, delta)) for k in range(m + 1)]
    for seed in range(trials):
        rows = table[RNG(seed).choice(10, m, p=weights)]
        x, y = rows[:, :1].astype(np.uint8), rows[:, 1]
        learner = Whim(seed % 7, (2, 2, 2))
        bound = learner.bind(x, y)
        picked = pick(bound, x, y, learner.groups)
        wrong = bound.classify(table[:, :1].astype(np.uint8)) != table[:, 1]
        k = len(picked.picks) + len(picked.errors)
        failed += weights[wrong].sum() > bounds[k]
    assert failed <= 0.3 * trials

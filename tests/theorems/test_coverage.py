"""How often the bound fails, against adversarial learners on known finite distributions; broken
bounds must be caught.

A learner sees S ~ D^m and picks any message it likes; the bound of what it picked may be below the
true error with probability at most δ. Each case counts those failures over many samples, and a
binomial tail decides: a valid bound must pass it, and each deliberately broken one must not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import encode
from cushion.certificates.format.sources import Grid
from cushion.theorems.occam import holdout_bound, occam_bound

DELTA = Decimal("0.4")
DIFFERENCE = 56  # of the family below: weights 1, -1, -1, 1, which compare the two values
Bound = Callable[[int, int, int], float]  # errors, m, bits


def paid(errors: int, m: int, bits: int) -> float:
    return float(occam_bound(errors, m, bits, DELTA))


def no_bits(errors: int, m: int, bits: int) -> float:
    return float(holdout_bound(errors, m, DELTA))


def half_the_bits(errors: int, m: int, bits: int) -> float:
    return float(occam_bound(errors, m, bits // 2, DELTA))


def training_error(errors: int, m: int, bits: int) -> float:
    return errors / m


def underflowing(errors: int, m: int, bits: int) -> float:
    """δ·2^-bits and the tail in floats: beyond about 1074 bits both are 0 and the comparison means
    nothing.
    """
    small = float(DELTA) * 2.0**-bits
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if stats.binom.cdf(errors, m, middle) <= small else (middle, high)
    return high


def caught(failures: int, samples: int) -> bool:
    """Whether so many failures would be a one in a million accident for a bound that holds with
    probability 1 - δ.
    """
    return bool(stats.binom.sf(failures - 1, samples, float(DELTA)) < 1e-6)


def test_the_verdict_has_power() -> None:
    """400 samples tell a failure rate of δ from one of δ + 0.15, and never mistake the former for
    the latter.
    """
    limit = next(failures for failures in range(401) if caught(failures, 400))
    assert stats.binom.sf(limit - 1, 400, float(DELTA)) < 1e-6
    assert stats.binom.sf(limit - 1, 400, float(DELTA) + 0.15) > 0.85
    assert stats.binom.sf(limit - 1, 400, float(DELTA) + 0.2) > 0.99


# ---- every net of a small family, on labels that are mostly noise


@cache
def family() -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """All 81 nets with weights in {-1, 0, 1} on two values in 0..3: (wrong on each of 32 cells (x,
    y)), (bits).
    """
    points = np.array(list(itertools.product(range(4), repeat=2)), dtype=np.uint8).reshape(
        -1, 1, 1, 2
    )
    wrong, bits = [], []
    for weights in itertools.product((-1, 0, 1), repeat=4):
        net = IntegerNet(
            (1, 1, 2), Bytes(0), (Dense(Grid(np.array(weights).reshape(2, 2), 1), None, 0, 0),)
        )
        answers = net.answers(points)
        wrong.append(np.concatenate([answers != 0, answers != 1]))
        bits.append(encode(net).bits)
    return np.array(wrong), np.array(bits)


def distribution(clean: float) -> NDArray[np.float64]:
    """Over 32 cells: x uniform on 16 points, y = [x0 < x1] with probability clean, else a fair
    coin.
    """
    first, second = np.divmod(np.arange(16), 4)
    ones = clean * (first < second) + (1 - clean) / 2
    return np.concatenate([1 - ones, ones]) / 16


def failures_of_the_family(bound: Bound, clean: float, m: int = 40, samples: int = 1000) -> int:
    """On how many samples the net with the smallest bound has a larger true error (exact) than that
    bound.
    """
    wrong, bits = family()
    cells = distribution(clean)
    truth = wrong @ cells
    counts = np.random.default_rng(0).multinomial(m, cells, samples)
    errors = counts @ wrong.T  # [samples, nets]
    table = {b: np.array([bound(k, m, b) for k in range(m + 1)]) for b in set(bits.tolist())}
    stated = np.stack([table[b][errors[:, net]] for net, b in enumerate(bits.tolist())], axis=1)
    chosen = stated.argmin(axis=1)
    return int((truth[chosen] > stated[np.arange(samples), chosen]).sum())


@pytest.mark.parametrize("clean", [0.0, 0.3, 0.9])
def test_the_bound_covers_the_best_of_a_family(clean: float) -> None:
    assert not caught(failures_of_the_family(paid, clean), 1000)


@pytest.mark.parametrize("broken", [no_bits, training_error])
def test_a_broken_bound_does_not_cover_the_best_of_a_family(broken: Bound) -> None:
    assert caught(failures_of_the_family(broken, 0.0), 1000)


def test_one_net_fixed_beforehand_needs_no_bits_and_fails_nearly_as_often_as_allowed() -> None:
    """The hold-out bound is sharp: this is what keeps the cases above from passing by mere
    looseness.
    """
    wrong, _ = family()
    cells = distribution(0.3)
    counts = np.random.default_rng(1).multinomial(40, cells, 4000)
    stated = np.array([no_bits(k, 40, 0) for k in range(41)])[counts @ wrong[DIFFERENCE]]
    rate = float((wrong[DIFFERENCE] @ cells > stated).mean())
    assert 0.25 * float(DELTA) < rate <= float(DELTA) + 0.03


# ---- a learner that remembers what it saw and is wrong everywhere else


def memoriser(seen: NDArray[np.bool_]) -> IntegerNet:
    """Answers 0 on the points that were seen and ties (an error) on all others; points are one-hot
    rows.
    """
    layers = (
        Dense(Grid(seen.astype(np.int64)[None], 1), None, 0, 0),
        Dense(Grid(np.array([[1], [0]]), 1), None, 0, 0),
    )
    return IntegerNet((1, 1, len(seen)), Bytes(0), layers)


def failures_of_the_memoriser(bounds: list[Bound], points: int, samples: int = 400) -> list[int]:
    """All points are equally likely, all labels are 0, m = points: no errors on S, and L is the
    share never seen.
    """
    rng = np.random.default_rng(2)
    failures = [0] * len(bounds)
    known: dict[tuple[int, int], float] = {}
    for _ in range(samples):
        seen = np.zeros(points, dtype=bool)
        seen[rng.integers(0, points, points)] = True
        bits = encode(memoriser(seen)).bits
        truth = 1 - seen.mean()
        for index, bound in enumerate(bounds):
            if (index, bits) not in known:
                known[index, bits] = bound(0, points, bits)
            failures[index] += truth > known[index, bits]
    return failures


def test_the_memoriser_is_what_it_is_said_to_be() -> None:
    points = 60
    seen = np.arange(points) % 3 > 0
    x = (255 * np.eye(points, dtype=np.uint8)).reshape(points, 1, 1, points)
    right = memoriser(seen).answers(x) == 0
    assert np.array_equal(right, seen)


def test_the_bound_covers_a_memoriser_and_broken_ones_do_not() -> None:
    held, *broken = failures_of_the_memoriser(
        [paid, no_bits, half_the_bits, training_error], points=250
    )
    assert not caught(held, 400)
    assert all(caught(failures, 400) for failures in broken), broken


def test_a_probability_that_underflows_is_caught() -> None:
    """At 2 500 points the message has more bits than a float has range."""
    held, broken = failures_of_the_memoriser([paid, underflowing], points=2500, samples=60)
    assert not caught(held, 60)
    assert caught(broken, 60)

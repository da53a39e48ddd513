"""The study of how large a sketch must be: single trials, the transition, the counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cushion.compressors.pruning.sketched import paper_side, statistical_dimension
from cushion.papers.guha.sketch import (
    comes_back,
    counts,
    crossing,
    recovery_rate,
    sparse_matrix,
)


def test_the_matrices_of_a_study() -> None:
    X = sparse_matrix(60, 4, 1, 2)
    assert ((X != 0).sum(axis=1) == 4).all()
    assert np.abs(X).max() <= 127
    values = np.concatenate(
        [sparse_matrix(60, 4, 1, trial)[sparse_matrix(60, 4, 1, trial) != 0] for trial in range(20)]
    )
    # 4800 values uniform on ±1..±127: mean 0 with a standard error of 73.6/√4800 = 1.06, mean size
    # 64 with 0.53.
    assert abs(values.mean()) < 5 * 1.06
    assert abs(np.abs(values).mean() - 64) < 5 * 0.53
    assert not np.array_equal(X, sparse_matrix(60, 4, 1, 3))


def test_a_trial_is_a_function_of_its_seed_and_number() -> None:
    """Near the transition some fail and some do not, always the same ones: a study may be resumed
    anywhere.
    """
    first = [comes_back(40, 3, 21, 8, 0, trial) for trial in range(4)]
    assert [comes_back(40, 3, 21, 8, 0, trial) for trial in reversed(range(4))] == first[::-1]
    assert recovery_rate(40, 3, 21, 8, 4, 0) == sum(first) / 4


def test_the_transition_is_where_generic_measurements_have_it() -> None:
    """Far below it none comes back, far above all do, and between them it is crossed near
    √δ(J/N)·p.
    """
    sides = (24, 30, 34, 40)
    rates = [recovery_rate(60, 4, side, 8, 3, 0) for side in sides]
    assert (rates[0], rates[-1]) == (0.0, 1.0)
    half = crossing(sides, rates)
    assert half == pytest.approx(60 * math.sqrt(statistical_dimension(4 / 60)), rel=0.12)
    assert half < paper_side(4, 60)  # the theorem's side is ample already with the constant 1


def test_the_crossing() -> None:
    assert crossing([10, 20, 30], [0.0, 0.25, 0.75]) == 25.0
    assert crossing([10, 20], [0.0, 0.5]) == 20.0
    assert crossing([10, 20], [0.6, 1.0]) is None
    assert crossing([10, 20], [0.0, 0.2]) is None


def test_counts_on_a_case_that_can_be_counted() -> None:
    # 2 non-zeros of 4 x 4: C(16, 2) = 120 masks, 5 bits a value; the sketch has 1 · 4 · (ln 4)²
    # numbers.
    sketch, naive = counts(4, 1, 2, 5)
    assert naive == pytest.approx(math.log2(120) + 10)
    assert sketch == pytest.approx(5 * 4 * math.log(4) ** 2)

"""The numbers that tails are fitted to: sorted, positive, or a sentence why there are none."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cushion.measures.tails.power_law import FEWEST, Magnitudes


def test_magnitudes_are_sorted_and_without_zeros() -> None:
    values = np.array([[3.0, -1.0, 0.0], [-0.0, 2.0, -4.0]] * FEWEST)
    sample = Magnitudes.of(values)
    assert sample.zeros == 2 * FEWEST
    assert sample.refusal == ""
    assert sample.ordered.dtype == np.float64
    assert sample.ordered.tolist() == sorted(abs(v) for v in values.reshape(-1).tolist() if v != 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_every_type_and_layout_gives_the_same(dtype: type) -> None:
    values = np.arange(-60, 60).reshape(10, 12).astype(dtype)
    for given in (values, np.asfortranarray(values), values[::-1, ::2].copy(), values.T):
        sample = Magnitudes.of(given)
        assert sample.ordered.tolist() == sorted(
            v for v in np.abs(given.astype(float)).reshape(-1).tolist() if v
        )
    assert Magnitudes.of(values).ordered.tolist() == sorted([*range(1, 61), *range(1, 60)])


def test_the_given_numbers_are_left_alone() -> None:
    values = np.random.default_rng(0).normal(size=200)
    before = values.copy()
    Magnitudes.of(values)
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([], "there are no numbers to fit"),
        (np.zeros(80), "all 80 numbers are zero"),
        (np.arange(1.0, FEWEST), f"only {FEWEST - 1} non-zero numbers, and {FEWEST} are needed"),
        ([*range(1, 10), 0, 0], f"only 9 non-zero numbers beside 2 zeros, and {FEWEST} are needed"),
        (
            np.full(60, -0.25),
            "all 60 non-zero numbers have the magnitude 0.25: a constant has no tail",
        ),
        (
            [0.0, 1.5, -1.5] * 30,
            "all 60 non-zero numbers have the magnitude 1.5: a constant has no tail",
        ),
        ([1.0, -1.0, 2.0] * 30, "only 2 different magnitudes among 90 numbers, and 4 are needed"),
        (
            [0.0, 1.0, -3.0, 2.0] * 30,
            "only 3 different magnitudes among 90 numbers, and 4 are needed",
        ),
        ([np.inf, *range(80)], "1 of 81 numbers are infinite or not a number; check the training"),
        (
            [np.nan, -np.inf, np.nan, *range(80)],
            "3 of 83 numbers are infinite or not a number; check the training",
        ),
    ],
)
def test_what_cannot_be_fitted_says_why(values: list[float], sentence: str) -> None:
    assert Magnitudes.of(values).refusal == sentence


def test_the_fewest_numbers_that_are_fitted() -> None:
    assert Magnitudes.of(np.arange(1.0, FEWEST + 1)).refusal == ""
    assert Magnitudes.of([1.0] * (FEWEST - 3) + [1.0000001, 1.5, 2.0]).refusal == ""


def test_one_copy_is_made() -> None:
    weights = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    tracemalloc.start()
    Magnitudes.of(weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8.1 * weights.size

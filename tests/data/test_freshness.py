"""Rows that a hold-out shares with its sample: draws that meet by chance, and copies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cushion.data import Dataset
from cushion.data.freshness import freshness_fault, is_chance, looks_copied
from cushion.data.inputs import as_holdout
from cushion.errors import BadInput
from cushion.verifier.fresh import freshness_fault as judged_again

RNG = np.random.default_rng(0)


def rows(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(numbers, np.int64).reshape(-1, 1)


def often(numbers: np.ndarray) -> dict[int, int]:
    return dict(Counter(Counter(numbers.tolist()).values()))


def test_the_sample_twice_does_not_make_it_fresh() -> None:
    x, y = RNG.normal(size=(400, 8)).astype(np.float32), RNG.integers(0, 2, 400)
    sample = Dataset(np.r_[x, x], np.r_[y, y])
    with pytest.raises(BadInput, match="not held out: 400 of the 400 are rows of the sample"):
        as_holdout((x, y), sample)
    one = RNG.normal(size=(300, 8)).astype(np.float32)
    assert freshness_fault(one, sample.x) == "", "new rows are fresh beside copies too"
    one[7] = x[3]
    assert "1 of the 300" in freshness_fault(one, sample.x), "and one row of it is too many"


def test_some_copied_rows_do_not_let_many_others_in() -> None:
    x = np.arange(1000)
    sample, holdout = np.r_[x[:400], x[:50]], np.r_[x[320:400], x[900:]]
    assert "80 of the 180" in freshness_fault(rows(holdout), rows(sample))


@pytest.mark.parametrize("times", [2, 3, 4, 7, 20])
@pytest.mark.parametrize("m", [20, 100, 400])
def test_rows_that_all_occur_equally_often_are_copies(m: int, times: int) -> None:
    sample = np.repeat(np.arange(m), times)
    assert looks_copied(often(sample))
    for fault in (freshness_fault, judged_again):
        assert "1 of the 2 are" in fault(rows([0, m]), rows(sample))


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_copies_made_before_the_split_are_copies(share: float) -> None:
    """The classic leak: some rows twice, all in random order, then divided."""
    whole = RNG.permutation(np.r_[np.arange(2000), np.arange(int(2000 * share))])
    cut = len(whole) * 2 // 3
    for fault in (freshness_fault, judged_again):
        assert fault(rows(whole[cut:]), rows(whole[:cut])) != ""


@pytest.mark.parametrize("law", ["uniform", "zipf", "two kinds"])
@pytest.mark.parametrize(("m", "n"), [(100, 100), (600, 200), (1000, 1000), (300, 2000)])
@pytest.mark.parametrize("values", [2, 6, 40, 300, 900])
def test_independent_draws_from_few_rows_pass(values: int, m: int, n: int, law: str) -> None:
    """Every cell drawn 100 times: none of 6000 pairs is refused."""
    rng = np.random.default_rng([values, m, n])
    place = np.arange(1, values + 1)
    weights = {"uniform": place**0.0, "zipf": 1 / place, "two kinds": 1 + 9.0 * (place % 2)}[law]
    for _ in range(100):
        a, b = (rng.choice(values, size, p=weights / weights.sum()) for size in (m, n))
        seen = often(a)
        shared = int(np.isin(b, a).sum())
        assert seen.keys() == {1} or (not looks_copied(seen) and is_chance(shared, n, seen))


def test_the_verifier_judges_alike() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        a = rng.integers(0, rng.integers(2, 400), rng.integers(1, 300))
        a = np.repeat(a, rng.integers(1, 3))
        b = rng.integers(0, rng.integers(2, 800), rng.integers(1, 300))
        assert freshness_fault(rows(b), rows(a)) == judged_again(rows(b), rows(a))

"""ε(k; N, δ) of preferent sample compression against fractions, and its coverage."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from cushion.errors import BadInput
from cushion.theorems.picks import picks_bound

DELTA = Decimal("0.05")


def left_side(k: int, n: int, delta: Fraction, e: Fraction) -> Fraction:
    """(δ/N) Σ_{m=k}^{N-1} C(m,k)/C(N,k) (1-ε)^-(N-m), as the theorem has it."""
    terms = (Fraction(comb(m, k), comb(n, k)) / (1 - e) ** (n - m) for m in range(k, n))
    return delta / n * sum(terms)


def naive(k: int, n: int, delta: Fraction) -> int:
    """The smallest number of millionths that ε is not above, by exact bisection."""
    low, high = 0, 10**6
    while k < n and high - low > 1:
        middle = (low + high) // 2
        if left_side(k, n, delta, Fraction(middle, 10**6)) >= 1:
            high = middle
        else:
            low = middle
    return high


def millionths(bound: str) -> int:
    assert len(bound) == 8
    return int(Decimal(bound) * 10**6)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 30])
@pytest.mark.parametrize(("delta", "choices"), [("0.05", 1), ("0.5", 3), ("0.000001", 64)])
def test_the_bound_is_that_of_exact_fractions_rounded_up(n: int, delta: str, choices: int) -> None:
    for k in range(n + 1):
        found = millionths(picks_bound(k, n, Decimal(delta), choices))
        exact = naive(k, n, Fraction(delta) / choices)
        assert exact <= found <= exact + 1  # one more only where ε is a millionth exactly


def test_a_longer_sum_is_that_of_exact_fractions_too() -> None:
    for k in (0, 1, 60, 149, 199):
        found = millionths(picks_bound(k, 200, DELTA))
        assert found == naive(k, 200, Fraction("0.05"))


@pytest.mark.parametrize("k", [0, 3, 500, 30_000, 45_000])
def test_sums_of_many_chunks_are_whole(k: int) -> None:
    """At the bound the sum of all terms is 1 or more, and a millionth below it is less."""
    n = 60_000
    m = np.arange(k, n)
    logs = gammaln(m + 1) - gammaln(m - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)

    def left(bound: int) -> float:
        return float(logsumexp(logs - (n - m) * np.log1p(-bound / 10**6)) + np.log(0.05 / n))

    found = millionths(picks_bound(k, n, DELTA))
    assert left(found) > -1e-6
    assert left(found - 1) < 1e-6


def test_it_gives_the_published_values() -> None:
    assert picks_bound(18_369, 50_000, DELTA).startswith("0.3756")
    assert picks_bound(1_682, 60_000, DELTA).startswith("0.0304")


def test_more_rows_give_a_larger_bound_and_all_of_them_the_trivial_one() -> None:
    bounds = [picks_bound(k, 300, DELTA) for k in range(301)]
    assert all(a < b for a, b in pairwise(bounds[:-1]))
    assert bounds[-1] == picks_bound(10**6, 300, DELTA) == "1.000000"


def test_ten_million_rows_are_no_trouble() -> None:
    for k in (0, 1, 10**5, 5 * 10**6, 10**7 - 1):
        bound = Decimal(picks_bound(k, 10**7, DELTA))
        assert Decimal(k) / 10**7 < bound
        assert k == 10**7 - 1 or bound < Decimal(k) / 10**7 + Decimal("0.001")


def test_choices_share_the_failure_probability() -> None:
    assert picks_bound(20, 500, Decimal("0.064"), 64) == picks_bound(20, 500, Decimal("0.001"))


@pytest.mark.parametrize(("k", "m", "choices"), [(-1, 5, 1), (0, 0, 1), (1, 5, 0)])
def test_no_such_count_is_refused(k: int, m: int, choices: int) -> None:
    with pytest.raises(BadInput, match="no such count"):
        picks_bound(k, m, DELTA, choices)


@pytest.mark.parametrize("k", [1, 2, 5, 15])
def test_the_k_largest_of_n_numbers_are_covered_and_a_bound_without_price_is_not(k: int) -> None:
    """Preferent: a new number changes them with probability 1 - the k-th largest, exactly."""
    n, delta, trials = 20, Decimal("0.2"), 20_000
    changed = np.sort(1 - np.random.default_rng(k).random((trials, n)), axis=1)[:, k - 1]
    assert float((changed > float(picks_bound(k, n, delta))).mean()) <= 0.2
    assert float((changed > k / n).mean()) > 0.25

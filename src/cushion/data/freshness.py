"""Whether rows can be fresh draws beside a sample: what independent draws have in common by chance,
and what only copies do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.rows import count_among, row_hashes

_CHANCE = 1e-3  # at most: independent draws taken for copies
_MARGIN = 14  # the square of the standard deviations that are allowed, about 3.7
_MANY = 10  # different rows: two samples hardly have the same counts of so many
_PULLS = (0.999, *(2.0**-k for k in range(1, 11)))


def freshness_fault(rows: NDArray[Any], sample: NDArray[Any]) -> str:
    """Why the rows cannot be fresh draws beside the sample's, to end a sentence; empty if they can.

    Rows that are in the sample are allowed only where the sample repeats rows as independent draws
    from few possible rows do. If it repeats none, or as copies do (`looks_copied`), one row of it
    is too many. Otherwise Good and Turing's estimate says which share of fresh draws meets m
    earlier ones, 1 - (rows that occur once) / m, and `is_chance` allows for what chance adds. The
    sample itself is never fresh, nor, if it has at least 10 different rows, in another order (with
    fewer, chance gives the same counts too).

    Independent draws beside a sample that repeats rows are refused with probability of about
    10^-3 at most. Copies of few rows of a sample can pass: no rule tells them from chance.
    """
    if rows.dtype != sample.dtype:
        return ""
    given, known = row_hashes(rows), row_hashes(sample)
    theirs, ours = np.sort(given), np.sort(known)
    shared = count_among(theirs, ours)
    if not shared:
        return ""
    often = _occurrences(ours)
    drawn = often.keys() != {1} and not looks_copied(often)
    same = np.array_equal(given, known)
    same |= sum(often.values()) >= _MANY and np.array_equal(theirs, ours)
    if drawn and is_chance(shared, len(rows), often) and not same:
        return ""
    return f"{shared} of the {len(rows)} are rows of the sample itself"


def _occurrences(ours: NDArray[np.uint64]) -> dict[int, int]:
    """How many different rows occur once, twice, ...: {r: rows}, of sorted hashes."""
    first = np.flatnonzero(np.append(True, ours[1:] != ours[:-1]))
    times, rows = np.unique(np.diff(np.append(first, len(ours))), return_counts=True)
    return dict(zip(times.tolist(), rows.tolist(), strict=True))


def is_chance(shared: int, n: int, often: dict[int, int]) -> bool:
    """Whether so many of n fresh draws may be rows of a sample, often[r] rows of which occur r
    times.

    That is n times Good and Turing's share, √14 standard deviations (those of the estimate, Esty
    1983, and the binomial ones of the draws), and 3 (1 + 2n/m) rows for the skewness of small
    counts. All in whole numbers: m³ times the variance is compared with m times a square.
    """
    m, once, twice = sum(r * f for r, f in often.items()), often.get(1, 0), often.get(2, 0)
    again = m - once
    variance = n * n * (again * once + 2 * twice * m) + n * again * once * m
    excess = shared * m - n * again - 3 * (m + 2 * n)
    return excess <= 0 or m * excess * excess <= _MARGIN * variance


def looks_copied(often: dict[int, int]) -> bool:
    """Whether rows occur r times too often for independent draws, beside r - 1 and r + 1 times.

    often[r]: how many different rows occur r times. For a row of any probability the chances P_r
    that it occurs r times (Poisson) obey P_r² = (1 + 1/r) P_(r-1) P_(r+1), so for b, d in (0, 1)
    and a = 2 √(b d r / (r + 1)): a P_r ≤ b P_(r-1) + d P_(r+1). Then (1 + a)^often[r]
    (1 - b)^often[r-1] (1 - d)^often[r+1] has a mean of at most 1, whatever the distribution, and
    exceeds 1/p with probability at most p. That p is 10^-3, shared among all b, d and r.
    """
    for r, rows in often.items():
        before, behind = often.get(r - 1, 0), often.get(r + 1, 0)
        if r < 2 or rows <= 1:
            continue
        evidence = max(
            rows * math.log1p(2 * math.sqrt(b * d * r / (r + 1)))
            + before * math.log1p(-b)
            + behind * math.log1p(-d)
            for b in _PULLS
            for d in _PULLS
        )
        if evidence > math.log(len(_PULLS) ** 2 * r * (r - 1) / _CHANCE):
            return True
    return False

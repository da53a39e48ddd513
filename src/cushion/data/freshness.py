"""Whether rows can be fresh draws beside a sample: what independent draws have in common by chance,
and what only copies do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.rows import Reading, count_among, hashes_as_read

_CHANCE = 1e-3  # at most: independent draws taken for copies
_MARGIN = 14  # the square of the standard deviations that are allowed, about 3.7
_LOWEST = (1, 2, 4)  # bits of a byte that may be changed without anybody seeing it
_MANY = 10  # different rows: two samples hardly have the same counts of so many
_PULLS = (0.999, *(2.0**-k for k in range(1, 11)))


def freshness_fault(rows: NDArray[Any], sample: NDArray[Any], read: Reading | None = None) -> str:
    """Why the rows cannot be fresh draws beside the sample's, to end a sentence; empty if they can.

    They are compared byte for byte; bytes also without their lowest 1, 2 and 4 bits, so that
    changing those hides no row, floats to half of their bits, and both at once where rows have
    named parts; and as a net reads them (`read`: its quantiser), where there is one. In each
    reading alone, rows that are in the sample are allowed only where the sample repeats rows as
    independent draws from few possible rows do: Good and Turing's estimate says which share of
    fresh draws meets m earlier ones, 1 - (rows that occur once) / m, and `is_chance` allows for
    what chance adds. If the sample repeats rows as copies do (`looks_copied`), one row of it is too
    many, and byte for byte also if it repeats none. At most half of the rows may be the sample's,
    unless the reading itself merges more than an eighth of the sample's different rows; even then
    they are not the sample's in any order, if at least 10 differ (with fewer, chance gives the same
    counts too). FORMAT.md, section 6, has it in full.

    Independent draws beside a sample that repeats rows are refused with probability of about
    10^-3 at most in each reading, unless they meet more than half of it. Copies of few rows of a
    sample can pass: no rule tells them from chance.
    """
    if rows.dtype != sample.dtype or math.prod(rows.shape[1:]) != math.prod(sample.shape[1:]):
        return "they are not of the kind that the examples are"
    readings: list[tuple[str, Reading]] = [("", lambda x: x)]
    parts = [rows.dtype[name].base for name in rows.dtype.names or ()] or [rows.dtype]
    if np.uint8 in parts:
        readings += [(" but for their lowest bits", _coarse(bits)) for bits in _LOWEST]
    elif np.float32 in parts:
        readings.append((" but for their last digits", _coarse(0)))
    if read is not None:
        readings.append((" as the net reads them", read))
    given, known = (hashes_as_read(x, [read for _, read in readings]) for x in (rows, sample))
    different = len(np.unique(known[0]))
    for (how, _), theirs, ours in zip(readings, given, known, strict=True):
        if shared := _too_many(theirs, ours, different, exact=not how):
            return f"{shared} of the {len(rows)} are rows of the sample itself{how}"
    return ""


def _coarse(bits: int) -> Reading:
    """Bytes without so many of their lowest bits, floats to half of their bits; rows with named
    parts as these of each, side by side.
    """

    def read(x: NDArray[Any]) -> NDArray[Any]:
        if x.dtype.names is not None:
            parts = (np.ascontiguousarray(read(x[name])) for name in x.dtype.names)
            return np.concatenate([p.reshape(len(x), -1).view(np.uint8) for p in parts], axis=1)
        if x.dtype == np.float32:
            return _rounded(x)
        return x >> bits if x.dtype == np.uint8 else x

    return read


def _rounded(x: NDArray[Any]) -> NDArray[Any]:
    """float32 to the nearest with half of its bits; -0 is 0."""
    bits = (np.ascontiguousarray(x, "<f4") + np.float32(0)).view("<u4")
    found: NDArray[Any] = (bits + np.uint32(2**15)) >> np.uint32(16)
    return found


def _too_many(
    given: NDArray[np.uint64], known: NDArray[np.uint64], different: int, *, exact: bool
) -> int:
    """How many of the rows are the sample's, if that is more than chance; else 0.

    given, known: hashes of the rows and of the sample's in one reading; different: how many rows of
    the sample differ, byte for byte.
    """
    theirs, ours = np.sort(given), np.sort(known)
    shared = count_among(theirs, ours)
    if not shared:
        return 0
    often = _occurrences(ours)
    kept = sum(often.values())
    chance = is_chance(shared, len(given), often) and not looks_copied(often)
    chance &= 2 * shared <= len(given) or 8 * kept < 7 * different
    chance &= kept < _MANY or not np.array_equal(theirs, ours)
    chance &= not exact or often.keys() != {1}
    return 0 if chance else shared


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

"""Where a sample's tail begins: the exact minimum of the Kolmogorov-Smirnov distance.

A tail starts at one of the sample's distinct values, its candidate, and has the rate a = alpha - 1
of its maximum likelihood. Its distance is the largest |#{x ≥ x_j}/#{x ≥ xmin} - (x_j/xmin)^-a| over
the distinct values x_j of the tail, its points. Trying all candidates on all their points is
quadratic. Here:

- One point bounds a candidate's distance from below. A bound above the smallest distance so far
  rules the candidate out, for good.
- The point that decides the distance of one candidate, its witness, nearly decides that of the
  candidates nearby. So candidates go in chunks; each chunk is held against the witnesses of its own
  middle and of its neighbours' middles, which costs a few operations a candidate and mostly leaves
  none.
- Of those left the one with the least bound is measured. It becomes the best, or is ruled out by
  its witness, which is then held against the others, and so is the point that lies as far on in
  their tails; until none is left.

The result is that of the quadratic search: only candidates whose distance is more than SLACK above
the best are ruled out without measuring it. Time is that of a few passes over the sample, on random
samples, on grids and on samples that are laid out to have all their distances alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SLACK = 1e-12  # above a distance's rounding: the rates are off by 1e-14 at 2 million numbers
_PROBES = 512  # points of a first look at a tail
_BLOCK = 1 << 15  # numbers at a time: three arrays of them stay in the cache
_SMALLEST_CHUNK = 128
_CHUNK_SHARE = 0.5  # of the points above it: how many candidates a chunk may have


@dataclass(frozen=True, eq=False)
class Tails:
    """The tails of a sample, by the index of the distinct value that they start at, ascending.

    log: ln of the value over the largest; above: how many numbers are at least the value, as a
    float; rate: alpha - 1 of the tail that starts there, infinite at the largest value.
    """

    log: Floats
    above: Floats
    rate: Floats

    @classmethod
    def of(cls, ordered: Floats) -> Tails:
        """Of positive numbers, ascending. Three arrays, 24 bytes a number, are all it holds."""
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))  # of equal numbers
        log = ordered[starts]
        tiny = int(np.searchsorted(log, ordered[-1] * np.finfo(np.float64).tiny, side="right"))
        # below 1e-308 of the largest: no ratio has all its digits
        far = np.log(log[:tiny]) - math.log(ordered[-1])
        # then the logarithm tells even the next smaller number from the largest: no rate is ∞
        log /= ordered[-1]
        np.log(log[tiny:], out=log[tiny:])
        log[:tiny] = far
        above = np.subtract(ordered.size, starts, dtype=np.float64)
        del starts
        return cls(log, above, _rates(log, above))

    @property
    def candidates(self) -> int:
        """All distinct values but the two largest, whose tails say nothing of a law."""
        return max(1, self.log.size - 2)

    def distances(self, starts: slice | NDArray[np.intp], point: int | NDArray[np.intp]) -> Floats:
        """|empirical - fitted| share above a point, or each its own, for candidates below it."""
        fitted = self.log[starts] - self.log[point]
        fitted *= self.rate[starts]
        np.exp(fitted, out=fitted)
        fitted -= self.above[point] / self.above[starts]
        return np.abs(fitted, out=fitted)

    def alike(self, start: int, point: int, starts: NDArray[np.intp]) -> NDArray[np.intp]:
        """The points as far on in other candidates' tails, as a share of the values."""
        share = (point - start) / (self.log.size - start)
        return starts + ((self.log.size - starts) * share).astype(np.intp)

    def furthest(self, start: int, enough: float) -> tuple[float, int]:
        """A candidate's distance and the point that has it, or any point above `enough`."""
        stride = max(1, (self.log.size - start) // _PROBES)
        best = self._furthest_of(start, slice(start, None, stride))
        if stride == 1 or best[0] > enough:
            return best
        for begin in range(start, self.log.size, _BLOCK):
            best = max(best, self._furthest_of(start, slice(begin, begin + _BLOCK)))
            if best[0] > enough:
                break
        return best

    def furthest_of_both(self, start: int) -> float:
        """The distance with P(X > x_j) beside P(X ≥ x_j): the whole KS distance, ties and all."""
        worst = 0.0
        for begin in range(start, self.log.size, _BLOCK):
            points = slice(begin, begin + _BLOCK)
            fitted = np.exp(self.rate[start] * (self.log[start] - self.log[points]))
            reached = self.above[begin : begin + _BLOCK + 1] / self.above[start]
            for share in (reached, np.append(reached[1:], 0.0)):
                worst = max(worst, float(np.abs(fitted - share[: fitted.size]).max()))
        return worst

    def _furthest_of(self, start: int, points: slice) -> tuple[float, int]:
        fitted = self.log[start] - self.log[points]
        fitted *= self.rate[start]
        np.exp(fitted, out=fitted)
        fitted -= self.above[points] * (1.0 / self.above[start])
        np.abs(fitted, out=fitted)
        place = int(fitted.argmax())
        return float(fitted[place]), points.start + place * (points.step or 1)


def best_start(tails: Tails) -> int:
    """The candidate with the smallest distance; of several, the smallest."""
    chunks = _chunks(tails)
    looks = [tails.furthest((start + stop) // 2, 0.0) for start, stop in chunks]
    witnesses = [point for _, point in looks]
    best = (math.inf, -1)
    for k in sorted(range(len(chunks)), key=looks.__getitem__):
        best = _best_in(tails, chunks[k], witnesses[max(0, k - 1) : k + 2], best)
    return best[1]


def _best_in(
    tails: Tails, chunk: tuple[int, int], witnesses: list[int], best: tuple[float, int]
) -> tuple[float, int]:
    """The best (distance, candidate) of the best so far and a chunk."""
    start, stop = chunk
    bounds = np.zeros(stop - start)
    for point in witnesses:
        held = bounds[: max(0, point + 1 - start)]  # the candidates that are not above the point
        np.maximum(held, tails.distances(slice(start, start + held.size), point), out=held)
    left = np.flatnonzero(bounds <= best[0] + SLACK)
    bounds = bounds[left]
    left += start
    while left.size:
        place = int(bounds.argmin())
        distance, point = tails.furthest(int(left[place]), best[0] + SLACK)
        best = min(best, (distance, int(left[place])))
        held = bounds[: np.searchsorted(left, point, side="right")]
        np.maximum(held, tails.distances(left[: held.size], point), out=held)
        alike = tails.alike(int(left[place]), point, left)
        np.maximum(bounds, tails.distances(left, alike), out=bounds)
        bounds[place] = math.inf
        kept = bounds <= best[0] + SLACK
        left, bounds = left[kept], bounds[kept]
    return best


def _chunks(tails: Tails) -> list[tuple[int, int]]:
    """The candidates in runs, short beside their tails, since those must be much alike."""
    chunks = []
    stop = tails.candidates
    while stop > 0:
        size = max(_SMALLEST_CHUNK, int(_CHUNK_SHARE * (tails.log.size - stop)))
        start = max(0, stop - min(size, _BLOCK))
        chunks.append((start, stop))
        stop = start
    return chunks


def _rates(log: Floats, above: Floats) -> Floats:
    """above/Σ ln(x/value) from each value on, by above·(step to the next): nothing cancels."""
    rates = np.empty_like(log)
    rates[-1] = math.inf
    carried = 0.0
    for stop in range(log.size - 1, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        sums = np.diff(log[start : stop + 1])
        sums *= above[start + 1 : stop + 1]
        sums = np.cumsum(sums[::-1])[::-1]
        sums += carried
        carried = float(sums[0])
        np.divide(above[start:stop], sums, out=rates[start:stop])
    return rates

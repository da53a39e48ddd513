"""Sketches A X Bᵀ: how large one must be (where ℓ1 recovery sets in, the paper's side), how many
ones a column has, and the 0/1 matrices A and B from the seed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from cushion.data.counter import stream
from cushion.errors import BadInput

# numbers of the first sketch that is tried, against the statistical dimension (phase-transition
# study)
MARGIN = 1.15
GROWTH = 1.15  # numbers of each further one
# sets of rows there should be for every pair of columns, so that hardly ever two columns are equal
_APART = 500
_BLOCK = 1 << 22  # hashes at a time


def statistical_dimension(share: float) -> float:
    """Numbers that a generic sketch needs, as a part of all N entries, where this share of them is
    not zero.

    ℓ1 recovery from generic linear measurements sets in at δ(share)·N numbers, min over τ of
    share·(1 + τ²) + (1 - share)·E(|g| - τ)₊² for a standard normal g (Amelunxen, Lotz, McCoy, Tropp
    2014, Proposition 4.5). Sketches A X Bᵀ are not generic; the study shows that they need little
    more.
    """
    if share <= 0.0 or share >= 1.0:
        return float(share > 0.0)

    def size(tau: float) -> float:
        near = tau * math.sqrt(2 / math.pi) * math.exp(-tau * tau / 2)
        excess = (1 + tau * tau) * math.erfc(tau / math.sqrt(2)) - near
        return share * (1 + tau * tau) + (1 - share) * excess

    least = minimize_scalar(size, bounds=(0.0, 40.0), method="bounded", options={"xatol": 1e-9})
    return float(least.fun)


def paper_side(j: int, p: int) -> float:
    """√(jp)·ln p, Guha 2023, Theorem 5.1 without its constant; j most non-zeros of a row."""
    return math.sqrt(j * p) * math.log(p) if j and p > 1 else 0.0


def sides(p1: int, p2: int, part: float) -> tuple[int, int]:
    """(rows, columns) of a sketch with about `part` of p1·p2 numbers, both sides cut alike.

    A side so short that few different columns exist for it is not cut at all, and the other takes
    the whole cut.
    """
    found = [_cut(p, math.sqrt(part)) for p in (p1, p2)]
    if found[0] == p1 and part < 1:
        found[1] = _cut(p2, part)
    elif found[1] == p2 and part < 1:
        found[0] = _cut(p1, part)
    return found[0], found[1]


def _cut(p: int, part: float) -> int:
    side = max(1, min(p, math.ceil(p * part)))
    return p if math.comb(side, side // 2) < p * p and part > 0 else side


def ones_within(ones: int, side: int) -> int:
    """Ones in a column of `side` rows: at most half of them, where the choice is largest."""
    return max(1, min(ones, side // 2))


def default_ones(p1: int, p2: int, rows: int, columns: int) -> int:
    """⌈ln p⌉ (Theorem 5.1), and more where two columns would be equal by chance too often."""

    def crowded(ones: int) -> bool:
        return any(
            ones < side // 2 and math.comb(side, ones) < _APART * p * p
            for p, side in ((p1, rows), (p2, columns))
            if side < p
        )

    ones = max(1, math.ceil(math.log(max(p1, p2, 2))))
    while crowded(ones):
        ones += 1
    return min(ones, max(rows, columns))


def bipartite(rows: int, columns: int, ones: int, seed: int, purpose: str) -> NDArray[np.int64]:
    """A 0/1 matrix [rows, columns] with exactly `ones` ones in every column, each such matrix
    equally likely.

    Every *column* has δ = `ones` ones (Dasarathy et al. 2013); Guha 2023, Definition E.1 says every
    row, which leaves columns empty, and what stands there in X cannot come back. Entry (i, j) has
    the (j·rows + i)-th hash of the stream of `purpose`; the ones of a column stand where its
    smallest hashes are. The hashes of one stream are all different (SplitMix64 is one-to-one), so
    that there are no ties, and by symmetry no set of rows is more likely than another.
    """
    if not (1 <= ones <= rows and columns >= 0):
        raise BadInput(f"no matrix of {rows} rows and {columns} columns has {ones} ones in each")
    found = np.zeros((rows, columns), dtype=np.int64)
    step = max(1, _BLOCK // rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        keys = stream(purpose, seed, width * rows, start * rows).reshape(width, rows)
        chosen = np.argpartition(keys, ones - 1, axis=1)[:, :ones]
        found[chosen, start + np.arange(width)[:, None]] = 1
    return found

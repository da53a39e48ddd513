"""How large a sketch must be: where ℓ1 recovery sets in, its sides, ones; the paper's side."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

# numbers of the first sketch that is tried, against the statistical dimension (phase-transition
# study)
MARGIN = 1.15
GROWTH = 1.15  # numbers of each further one
# sets of rows there should be for every pair of columns, so that hardly ever two columns are equal
_APART = 500


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
        excess = (1 + tau * tau) * math.erfc(tau / math.sqrt(2)) - tau * math.sqrt(
            2 / math.pi
        ) * math.exp(-tau * tau / 2)
        return share * (1 + tau * tau) + (1 - share) * excess

    return float(
        minimize_scalar(size, bounds=(0.0, 40.0), method="bounded", options={"xatol": 1e-9}).fun
    )


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

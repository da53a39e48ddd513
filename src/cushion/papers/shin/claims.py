"""Sentences of Shin 2021 tried on simulated rows (`shin_propositions`), by code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from cushion.papers.pages import Tried
from cushion.papers.shin.resilience import bracket_probability
from cushion.theorems.heavy_tails import Place

Row: TypeAlias = Mapping[str, Any]  # a step's settings and what was drawn
_DEVIATIONS = 4.0  # standard deviations that a simulated share may be off
_MAIN: Place = "main text"


def beyond(share: float, claimed: float, draws: int) -> bool:
    """Whether a share seen in that many draws contradicts a failure of at most `claimed`."""
    return share > claimed + _DEVIATIONS * math.sqrt(claimed * (1.0 - claimed) / draws)


def _enough(rows: Sequence[Row]) -> bool | None:
    """Whether η holds in all rows: undecided where one is above it within chance."""
    if any(beyond(one[_MAIN], one["eta"], one["draws"]) for one in rows):
        return False
    return None if any(one[_MAIN] > one["eta"] for one in rows) else True


def error_is_small(rows: Sequence[Row]) -> Tried:
    """Proposition 1.1 on weights as the paper draws them, with the setting of the main text."""
    text = "Proposition 1.1: positive power-law weights, replaced, fail with probability at most η"
    printed = [one for one in rows if one["law"] == "positive"]
    wrong = [one for one in printed if beyond(one[_MAIN], one["eta"], one["draws"])]
    worst = max(printed, key=lambda one: one[_MAIN] - one["eta"])
    because = f"fails in {worst[_MAIN]:.0%} of the draws where {worst['eta']:.0%} is claimed; "
    because += f"too often in {len(wrong)} of {len(printed)} rows"
    return Tried(text, _enough(printed), because)


def setting_is_enough(rows: Sequence[Row]) -> Tried:
    """The same setting on weights with signs, for which the statement can be made true."""
    text = "2/(τ² + t) = 2 ln(3/η)/ε² is enough, if weights have signs"
    signed = [one for one in rows if one["law"] == "signed"]
    worst = max(signed, key=lambda one: one[_MAIN] / one["eta"])
    most = max(one["corrected"] / one["eta"] for one in signed)
    because = f"fails in {worst[_MAIN]:.2%} of the draws where {worst['eta']:.0%} is claimed, at t "
    because += f"= {worst['t']:g}; the corrected ε in {most:.2f} η at most"
    return Tried(text, _enough(signed), because)


def is_sparse(rows: Sequence[Row]) -> Tried:
    """Eq. 6 is at least what is seen, and at least the exact tail."""
    text = "Proposition 1.2: eq. 6 bounds the probability of k or more non-zeros"
    exact = all(one["exact"] <= one["chernoff"] for one in rows)
    seen = not any(beyond(one["seen"], one["chernoff"], one["draws"]) for one in rows)
    ratios = [one["chernoff"] / one["exact"] for one in rows]
    because = f"it is {min(ratios):.1f} to {max(ratios):.1f} times the exact tail, which is seen"
    return Tried(text, exact and seen, because)


def energy_as_printed(rows: Sequence[Row]) -> Tried:
    """Eq. 10 against the mean that is seen, within a tenth."""
    ratios, corrected = ([one[k] / one["seen"] for one in rows] for k in ("printed", "corrected"))
    because = (
        f"eq. 10 is {min(ratios):.2f} to {max(ratios):.2f} times what is seen, the corrected one "
        f"{min(corrected):.2f} to {max(corrected):.2f}; for α < 2 eq. 10 is negative"
    )
    return Tried("eq. 10 is the mean of [Bx]_i²", all(0.9 < one < 1.1 for one in ratios), because)


def brackets_as_printed(rows: Sequence[Row]) -> Tried:
    """Eq. 14 at the largest power of the largest c, within a tenth and the noise of the draws."""
    text = "for large c^i eq. 14 is the share of weights between c^i and c^(i+1)"

    def pair(one: Row, i: int) -> tuple[float, float, int]:
        return one["printed"][i], bracket_probability(i, one["alpha"], one["c"]), one["draws"]

    largest = max(row["c"] for row in rows)
    far = [pair(one, one["m"]) for one in rows if one["c"] == largest]
    near = [pair(one, 0) for one in rows if one["c"] < largest]
    off = (abs(seen - p) - 0.1 * p - _DEVIATIONS * math.sqrt(p / draws) for seen, p, draws in far)
    at_far, at_near = (", ".join(f"{one[0] / one[1]:.2f}" for one in some) for some in (far, near))
    because = f"seen / eq. 14 at c = 10, i = 3: {at_far}; but {at_near} at c = 1.3, i = 0"
    return Tried(text, max(off) <= 0, because)


def fewer_with_alpha(rows: Sequence[Row]) -> Tried:
    """Remark 1, at a fixed τ."""
    first, last = rows[0], rows[-1]
    because = (
        f"at a fixed τ {1 - first['fixed']:.0%} stay at α = {first['alpha']:g} and "
        f"{1 - last['fixed']:.0%} at {last['alpha']:g}; at an error relative to ‖W‖_F "
        f"{1 - first['share']:.1%} and {1 - last['share']:.1%}"
    )
    rising = all(after["fixed"] > before["fixed"] for before, after in pairwise(rows))
    return Tried("Remark 1: a higher α leaves fewer non-zeros", rising, because)


def more_as_alpha_shrinks(rows: Sequence[Row]) -> Tried:
    """Section 5.2 says the opposite of Remark 1, by Proposition 1.1, whose τ knows no α."""
    text = "Section 5.2: by Proposition 1.1, more weights can be replaced as α shrinks"
    fixed, relative = (
        all(after[kind] < before[kind] for before, after in pairwise(rows))
        for kind in ("fixed", "share")
    )
    first, last = rows[0], rows[-1]
    because = (
        f"at the τ of Proposition 1.1 {first['fixed']:.0%} can be replaced at α = "
        f"{first['alpha']:g} and {last['fixed']:.0%} at {last['alpha']:g}; it is "
        f"{'so' if relative else 'not so'} where the error is relative to ‖W‖_F"
    )
    return Tried(text, fixed, because)

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
    printed = [one for one in rows if one["law"] == "positive"]
    wrong = [one for one in printed if beyond(one[_MAIN], one["eta"], one["draws"])]
    worst = max(printed, key=lambda one: one[_MAIN] - one["eta"])
    because = f"fails in {worst[_MAIN]:.0%} of the draws where {worst['eta']:.0%} is claimed; "
    because += f"too often in {len(wrong)} of {len(printed)} rows"
    return Tried(
        "Proposition 1.1: positive power-law weights, replaced, fail with probability at most η",
        _enough(printed),
        because,
    )


def setting_is_enough(rows: Sequence[Row]) -> Tried:
    """The same setting on weights with signs, for which the statement can be made true."""
    signed = [one for one in rows if one["law"] == "signed"]
    worst = max(signed, key=lambda one: one[_MAIN] / one["eta"])
    because = (
        f"fails in {worst[_MAIN]:.2%} of the draws where {worst['eta']:.0%} is claimed, at t = "
        f"{worst['t']:g}; the corrected ε in "
        f"{max(one['corrected'] / one['eta'] for one in signed):.2f} η at most"
    )
    return Tried(
        "2/(τ² + t) = 2 ln(3/η)/ε² is enough, if weights have signs", _enough(signed), because
    )


def is_sparse(rows: Sequence[Row]) -> Tried:
    """Eq. 6 is at least what is seen, and at least the exact tail."""
    wrong = [
        one
        for one in rows
        if one["exact"] > one["chernoff"] or beyond(one["seen"], one["chernoff"], one["draws"])
    ]
    ratios = [one["chernoff"] / one["exact"] for one in rows]
    text = "Proposition 1.2: eq. 6 bounds the probability of k or more non-zeros"
    return Tried(
        text,
        not wrong,
        f"it is {min(ratios):.1f} to {max(ratios):.1f} times the exact tail, which is seen",
    )


def energy_as_printed(rows: Sequence[Row]) -> Tried:
    """Eq. 10 against the mean that is seen, within a tenth."""
    ratios = [one["printed"] / one["seen"] for one in rows]
    corrected = [one["corrected"] / one["seen"] for one in rows]
    because = (
        f"eq. 10 is {min(ratios):.2f} to {max(ratios):.2f} times what is seen, the corrected one "
        f"{min(corrected):.2f} to {max(corrected):.2f}; for α < 2 eq. 10 is negative"
    )
    return Tried("eq. 10 is the mean of [Bx]_i²", all(0.9 < one < 1.1 for one in ratios), because)


def brackets_as_printed(rows: Sequence[Row]) -> Tried:
    """Eq. 14 at the largest power of the largest c, within a tenth and the noise of the draws."""
    far = [one for one in rows if one["c"] == max(row["c"] for row in rows)]
    pairs = [
        (one["printed"][-1], bracket_probability(one["m"], one["alpha"], one["c"]), one["draws"])
        for one in far
    ]
    right = [
        abs(seen - p) <= 0.1 * p + _DEVIATIONS * math.sqrt(p / draws) for seen, p, draws in pairs
    ]
    words = _listed([seen / p for seen, p, _ in pairs])
    near = [
        one["printed"][0] / bracket_probability(0, one["alpha"], one["c"])
        for one in rows
        if one not in far
    ]
    because = f"seen / eq. 14 at c = 10, i = 3: {words}; but {_listed(near)} at c = 1.3, i = 0"
    return Tried(
        "for large c^i eq. 14 is the share of weights between c^i and c^(i+1)", all(right), because
    )


def fewer_with_alpha(rows: Sequence[Row]) -> Tried:
    """Remark 1, at a fixed τ."""
    text = "Remark 1: a higher α leaves fewer non-zeros"
    fixed = [one["fixed"] for one in rows]
    relative = [one["share"] for one in rows]
    first, last = rows[0]["alpha"], rows[-1]["alpha"]
    because = (
        f"at a fixed τ {1 - fixed[0]:.0%} stay at α = {first:g} and {1 - fixed[-1]:.0%} at "
        f"{last:g}; at an error "
    )
    because += f"relative to ‖W‖_F {1 - relative[0]:.1%} and {1 - relative[-1]:.1%}"
    return Tried(text, all(later > earlier for earlier, later in pairwise(fixed)), because)


def more_as_alpha_shrinks(rows: Sequence[Row]) -> Tried:
    """Section 5.2 says the opposite of Remark 1, by Proposition 1.1, whose τ knows no α."""
    fixed = [one["fixed"] for one in rows]
    relative = all(later < earlier for earlier, later in pairwise(one["share"] for one in rows))
    first, last = rows[0]["alpha"], rows[-1]["alpha"]
    because = (
        f"at the τ of Proposition 1.1 {fixed[0]:.0%} can be replaced at α = {first:g} and "
        f"{fixed[-1]:.0%} at "
    )
    because += (
        f"{last:g}; it is {'so' if relative else 'not so'} where the error is relative to ‖W‖_F"
    )
    text = "Section 5.2: by Proposition 1.1, more weights can be replaced as α shrinks"
    return Tried(text, all(later < earlier for earlier, later in pairwise(fixed)), because)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)

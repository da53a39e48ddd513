"""Bounds that see only the architecture: how many labellings it can make, and how many bits its
weights take.

Growth function: a net of d levels of piecewise-linear units labels m points in at most

    Π(m) ≤ ∏_levels 2 (2e·m·u·t / w)^w

ways: at each level the signs that decide ReLUs and maxima are those of m·u polynomials of degree ≤
t in the w parameters that came before (Warren's theorem, as Bartlett et al. 2019 use it;
docs/bounds.md, "Counting"). With probability ≥ 1 - δ, L(f) ≤ L̂(f) + √(8 (ln Π(2m) + ln(4/δ))/m)
for all weights at once (Vapnik and Chervonenkis).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.theorems.facts import NetFacts
from cushion.theorems.logs import LN2, log
from cushion.theorems.records import Bound
from cushion.theorems.rows import Statement


@dataclass(frozen=True)
class Decisions:
    """`count` signs an example, of polynomials of degree `degree` in `parameters` numbers."""

    count: int
    degree: int
    parameters: int


def log_growth(levels: Sequence[Decisions], points: int) -> float:
    """ln Π(points), erring upwards; a level never makes more than 2 to the number of its signs."""
    total = 0.0
    for level in levels:
        signs, w = points * level.count, level.parameters
        if signs == 0 or w == 0:
            continue
        warren = LN2 + w * (1.0 + math.log(2.0 * signs * level.degree / w))
        total += min(warren if signs >= w else math.inf, signs * LN2)
    return total


def vc_bound(facts: NetFacts, levels: Sequence[Decisions]) -> Bound:
    """The bound by counting labellings, for every net of the architecture, trained or not.

    No certificate: the theorem is about exact arithmetic, and errors are counted in floating point.
    """
    labellings = log_growth(levels, 2 * facts.m)
    deviation = math.sqrt(8 * (labellings + math.log(4.0 / facts.delta)) / facts.m)
    return Statement("labellings", "Vapnik and Chervonenkis; Bartlett et al. 2019").states(
        log(facts.error + deviation),
        "how many labellings of 2m points nets of this architecture can make, whatever their "
        "weights",
        ln_labellings=labellings,
    )


def bits_bound(facts: NetFacts) -> Bound:
    """The stored weights charged: L ≤ BinInv(errors; m, δ·2^-bits); architecture fixed before."""
    bits = facts.weight_bits * facts.parameters
    log_delta = occam_log_delta(Decimal(str(facts.delta)), bits)
    return Statement("stored weights", "Occam").proves(
        binomial_inverse(facts.errors, facts.m, log_delta),
        f"{bits} bits for the weights as they are stored; `cushion certify` finds a net that needs "
        "far fewer",
        bits=float(bits),
    )

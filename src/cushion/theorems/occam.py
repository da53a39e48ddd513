"""Bounds by counting: Occam's razor with the exact binomial tail, behind every certificate, and
bounds that see only the architecture: bits of its weights, labellings that it can make.

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
from decimal import Context, Decimal

from cushion.errors import BadInput
from cushion.numerics import binomial_inverse, decimal_up, occam_log_delta
from cushion.theorems.facts import NetFacts
from cushion.theorems.logs import LN2, log
from cushion.theorems.records import Bound, Statement


def parse_delta(text: str) -> Decimal:
    """δ as an exact decimal in (0, 0.5], as the certificate will state it.

    >>> parse_delta("0.05")
    Decimal('0.05')
    """
    try:
        delta = Decimal(text)
    except ArithmeticError:
        raise BadInput(f"`delta` = {text!r} is not a number; give one such as 0.05") from None
    if not delta.is_finite() or not 0 < delta <= Decimal("0.5"):
        raise BadInput(f"`delta` = {text} must be above 0 and at most 0.5, such as 0.05")
    if delta != delta.quantize(Decimal("1e-18"), context=Context(prec=40)):
        why = "has more digits than a certificate can state"
        raise BadInput(f"`delta` = {text} {why}; give at most 18 decimals")
    return delta.normalize(Context(prec=40))


def occam_bound(errors: int, m: int, bits: int, delta: Decimal) -> str:
    """BinInv(errors; m, δ·2^-bits) as a decimal string, rounded up.

    With probability ≥ 1-δ over S ~ D^m, for every message of the prefix code at once, the net it
    decodes to has true error at most this, given its own errors on S and its own length: a union
    bound in which a message of b bits gets δ·2^-b (Kraft's inequality makes the shares sum to at
    most δ). docs/derivations.md, section 1.

    >>> occam_bound(0, 1000, 0, Decimal("0.05"))  # rounded up from 1 - 0.05^(1/1000)
    '0.002992'
    """
    return decimal_up(binomial_inverse(errors, m, occam_log_delta(delta, bits)))


def holdout_bound(errors: int, n: int, delta: Decimal) -> str:
    """BinInv(errors; n, δ): for a net fixed before the n held-out examples were looked at."""
    return occam_bound(errors, n, 0, delta)


def hoeffding_bound(errors: int, m: int, bits: int, delta: Decimal) -> float:
    """The looser textbook form k/m + sqrt((bits·ln 2 + ln 1/δ) / 2m), for display beside the exact
    one; errs upwards.

    >>> delta = Decimal("0.05")
    >>> hoeffding_bound(0, 1000, 0, delta) > float(occam_bound(0, 1000, 0, delta))
    True
    """
    value = errors / m + math.sqrt(-occam_log_delta(delta, bits) / (2 * m))
    return min(1.0, value * (1 + 1e-12))


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

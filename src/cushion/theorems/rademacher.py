"""Norm-based bounds by peeling layers off a Rademacher average (docs/bounds.md, "Peeling").

For a class F of nets fixed before the sample, with probability ≥ 1 - δ', for all f in F,

    L(f) ≤ L̂_γ(f) + 2 R̂ + 3 √(ln(2/δ')/(2m)),   R̂ ≤ (2/(γm)) · E sup_f Σ_ik ε_ik f_k(x_i)

(the ramp loss of the margin is √2/γ-Lipschitz in the scores, and Maurer 2016 takes it off the
average at a factor √2). Layer by layer the supremum is at most 2‖A‖ times that of the layer before:
‖A‖ = ‖A‖_F in ℓ2 (Neyshabur 2015), ‖A‖_{1,∞} in ℓ∞ (Bartlett and Mendelson 2002). Biases are
weights of a constant input 1. Norms and γ go to paid grids.
"""

from __future__ import annotations

import math

from cushion.theorems.facts import LayerFacts, NetFacts, lifted_frobenius, lifted_l1_inf
from cushion.theorems.records import Bound
from cushion.theorems.rows import Statement, log, log_sum, no_margin
from cushion.theorems.union import FINE, at_least, at_most

BARTLETT_MENDELSON = "Bartlett and Mendelson 2002"
NEYSHABUR_2015 = "Neyshabur et al. 2015"
GOLOWICH = "Golowich et al. 2018"
_POOLING = (
    "the argument peels off affine layers and ReLUs only, and this net has pooling or branches "
    "between them"
)


def peeled(facts: NetFacts) -> list[Bound]:
    """ℓ1,∞; Frobenius with 2^depth; Frobenius with √depth."""
    rows = [
        (
            "l1-inf",
            BARTLETT_MENDELSON,
            "product of the layers' largest ℓ1 norms of incoming weights, times 2^depth",
        ),
        ("frobenius", NEYSHABUR_2015, "product of the layers' Frobenius norms, times 2^depth"),
        ("frobenius-root-depth", GOLOWICH, "the same with √depth in place of 2^depth"),
    ]
    if facts.margin <= 0 or not facts.plain:
        why = no_margin(facts) if facts.margin <= 0 else _POOLING
        return [Statement(name, source).abstains(why) for name, source, _ in rows]
    averages = (
        _l1_average(facts),
        _frobenius_average(facts, peel=True),
        _frobenius_average(facts, peel=False),
    )
    return [
        Statement(name, source).states(margin_bound(facts, average, nats), meaning)
        for (name, source, meaning), (average, nats) in zip(rows, averages, strict=True)
    ]


def margin_bound(facts: NetFacts, log_average: float, nats: float) -> float:
    """ln of L̂_γ + 2 R̂ + 3 √((ln(2/δ) + nats)/(2m)), from ln of R̂ · γ/2 for γ; γ is rounded down
    and paid here.
    """
    log_gamma, paid = at_most(log(facts.margin), FINE)
    log_complexity = math.log(2.0) + math.log(2.0) - log_gamma + log_average
    confidence = (math.log(2.0 / facts.delta) + nats + paid) / (2 * facts.m)
    return log_sum(log(facts.margin_loss), log_complexity, math.log(3.0) + log(confidence) / 2)


def _l1_average(facts: NetFacts) -> tuple[float, float]:
    """ln of (1/m)·E sup Σ ε_ik f_k(x_i) over nets with these ℓ1,∞ norms; the grid's price."""
    norms = [
        log(lifted_l1_inf(layer, facts.has_bias, last=last)) for layer, last in _with_last(facts)
    ]
    product, nats = _rounded(norms)
    constant = facts.m if facts.has_bias else 0
    inputs = facts.input_size + (1 if facts.has_bias else 0)
    column = max(log(facts.input_column), log(constant) / 2)
    # Massart's lemma over the 2n signed coordinates.
    base = 0.5 * math.log(2.0 * math.log(2.0 * inputs)) + column - math.log(facts.m)
    return base + (facts.depth - 1) * math.log(2.0) + math.log(facts.classes) + product, nats


def _frobenius_average(facts: NetFacts, *, peel: bool) -> tuple[float, float]:
    norms = [
        log(lifted_frobenius(layer, facts.has_bias, last=False)) for layer in facts.layers[:-1]
    ]
    last = facts.layers[-1]  # each score is a net of its own, with one row of the last layer
    norms.append(log(math.hypot(last.l2_inf, last.bias_largest if facts.has_bias else 0.0)))
    product, nats = _rounded(norms)
    energy = log(
        math.hypot(facts.input_energy, math.sqrt(facts.m) if facts.has_bias else 0.0)
    ) - math.log(facts.m)
    depth = facts.depth
    factor = (
        (depth - 1) * math.log(2.0)
        if peel
        else math.log(math.sqrt(2.0 * math.log(2.0) * depth) + 1.0)
    )
    return energy + factor + math.log(facts.classes) + product, nats


def _rounded(norms: list[float]) -> tuple[float, float]:
    """ln of the product after rounding every norm up to the grid."""
    points = [at_least(norm, FINE) for norm in norms]
    return math.fsum(point for point, _ in points), math.fsum(nats for _, nats in points)


def _with_last(facts: NetFacts) -> list[tuple[LayerFacts, bool]]:
    return [(layer, layer is facts.layers[-1]) for layer in facts.layers]

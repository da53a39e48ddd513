"""Bartlett, Foster and Telgarsky 2017: spectral norms times distances in ℓ2,1, by covering numbers.

For nets with ‖A_i‖₂ ≤ s_i and ‖A_i - A₀_i‖_{2,1} ≤ a_i, the references A₀_i fixed before the sample
(docs/bounds.md, "Covering"),

    R̂ ≤ 4/m + 48 ln(m) √(ln(2W²)) / (γ m) · √Σ‖x‖² · ∏ s_i · (Σ (a_i/s_i)^{2/3})^{3/2},

W the largest number of units of a layer or of the input. Biases are weights of a constant input 1.
"""

from __future__ import annotations

import math

from cushion.theorems.facts import LayerFacts, NetFacts, lifted_spectral
from cushion.theorems.rademacher import margin_bound
from cushion.theorems.records import Bound
from cushion.theorems.rows import Statement, log, log_sum, why_no_chain
from cushion.theorems.union import FINE, at_least

SOURCE = "Bartlett et al. 2017"


def covered(facts: NetFacts) -> list[Bound]:
    """The bound from zero and, where the initialisation is known, from there."""
    names = [("spec-l2,1", False)]
    if all(layer.moved_l2_1 is not None for layer in facts.layers):
        names.append(("spec-l2,1 from initialisation", True))
    if why := why_no_chain(facts):
        return [Statement(name, SOURCE).abstains(why) for name, _ in names]
    return [_covered(facts, name, moved) for name, moved in names]


def _covered(facts: NetFacts, name: str, moved: bool) -> Bound:
    spectral, ratios, nats = 0.0, [], 0.0
    for layer in facts.layers:
        last = layer is facts.layers[-1]
        s, paid_s = at_least(log(lifted_spectral(layer, facts.has_bias, last=last)), FINE)
        a, paid_a = at_least(log(_l2_1(layer, facts.has_bias, moved, last=last)), FINE)
        spectral += s + facts.log_step(layer)
        ratios.append(2.0 / 3.0 * (a - s))
        nats += paid_s + paid_a
    energy = log(math.hypot(facts.input_energy, math.sqrt(facts.m) if facts.has_bias else 0.0))
    lift = 1 if facts.has_bias else 0
    width = max(facts.input_size, *(layer.outputs for layer in facts.layers)) + lift
    m = facts.m
    spread = spectral + 1.5 * log_sum(*ratios)
    # margin_bound multiplies by 2/γ; the 4/m of Dudley's integral does not depend on γ, so it is
    # divided out here.
    main = (
        math.log(24.0)
        + log(math.log(m))
        + 0.5 * math.log(math.log(2.0 * width**2))
        - math.log(m)
        + energy
        + spread
    )
    value = log_sum(margin_bound(facts, main, nats), math.log(8.0 / m))
    start = "the distance from initialisation" if moved else "the weights"
    text = f"product of the spectral norms, times {start} in ℓ2,1, summed to the power 2/3"
    return Statement(name, SOURCE).states(value, text)


def _l2_1(layer: LayerFacts, has_bias: bool, moved: bool, *, last: bool) -> float:
    """At least ‖Ã - Ã₀‖_{2,1}: each unit's row grows by its bias; the constant's row is that of Ã₀
    if there is one.
    """
    norm, bias = layer.l2_1, layer.bias
    if moved:
        assert layer.moved_l2_1 is not None
        assert layer.moved_bias is not None
        norm, bias = layer.moved_l2_1, layer.moved_bias
    if not has_bias:
        return norm
    # Σ √(‖a‖² + b²) ≤ Σ ‖a‖ + Σ |b|, and Σ |b| ≤ √units · ‖b‖. Without a reference the constant's
    # own row counts 1.
    return norm + math.sqrt(layer.outputs) * bias + (0.0 if moved or last else 1.0)

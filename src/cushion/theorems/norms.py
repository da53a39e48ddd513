"""Bounds by the norms of the layers, with all their constants: peeling, covering, noise, cells
(docs/bounds.md derives them under these words).

For a class F of nets fixed before the sample, with probability ≥ 1 - δ', for all f in F,

    L(f) ≤ L̂_γ(f) + 2 R̂ + 3 √(ln(2/δ')/(2m)),   R̂ ≤ (2/(γm)) · E sup_f Σ_ik ε_ik f_k(x_i)

(the ramp loss of the margin is √2/γ-Lipschitz in the scores, and Maurer 2016 takes it off the
average at a factor √2). Biases are weights of a constant input 1. Norms, γ, σ and sides of cells go
to paid grids.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from cushion.theorems import facts as known
from cushion.theorems.facts import LayerFacts, NetFacts
from cushion.theorems.logs import FINE, LN2, LN10, at_least, at_most, log, log_sum
from cushion.theorems.records import Bound, Statement, no_margin, why_no_chain

_PEELED = {
    Statement("l1-inf", "Bartlett and Mendelson 2002"): (
        "product of the layers' largest ℓ1 norms of incoming weights, times 2^depth"
    ),
    Statement("frobenius", "Neyshabur et al. 2015"): (
        "product of the layers' Frobenius norms, times 2^depth"
    ),
    Statement("frobenius-root-depth", "Golowich et al. 2018"): (
        "the same with √depth in place of 2^depth"
    ),
}
_POOLING = (
    "the argument peels off affine layers and ReLUs only, and this net has pooling or branches "
    "between them"
)
_COVERING, _CELLS = "Bartlett et al. 2017", "Xu and Mannor 2012"
_NOISE = Statement("spec-fro", "Neyshabur et al. 2017a")
_NO_CELLS = (
    "the inputs are floats without stated limits, so their domain cannot be cut into finitely many "
    "cells"
)


def peeled(facts: NetFacts) -> list[Bound]:
    """ℓ1,∞; Frobenius with 2^depth; Frobenius with √depth.

    Layer by layer the supremum is at most 2‖A‖ times that of the layer before: ‖A‖ = ‖A‖_F in ℓ2,
    ‖A‖_{1,∞} in ℓ∞.
    """
    if facts.margin <= 0 or not facts.plain:
        why = no_margin(facts) if facts.margin <= 0 else _POOLING
        return [row.abstains(why) for row in _PEELED]
    root = math.log(math.sqrt(2.0 * LN2 * facts.depth) + 1.0)
    averages = (
        _l1_average(facts),
        _frobenius_average(facts, (facts.depth - 1) * LN2),
        _frobenius_average(facts, root),
    )
    return [
        row.states(margin_bound(facts, *average), meaning)
        for (row, meaning), average in zip(_PEELED.items(), averages, strict=True)
    ]


def margin_bound(facts: NetFacts, log_average: float, nats: float) -> float:
    """ln of L̂_γ + 2 R̂ + 3 √((ln(2/δ) + nats)/(2m)), from ln of R̂ · γ/2 for γ; γ is rounded down
    and paid here.
    """
    log_gamma, paid = at_most(log(facts.margin), FINE)
    log_complexity = LN2 + LN2 - log_gamma + log_average
    confidence = (math.log(2.0 / facts.delta) + nats + paid) / (2 * facts.m)
    return log_sum(log(facts.margin_loss), log_complexity, math.log(3.0) + log(confidence) / 2)


def _l1_average(facts: NetFacts) -> tuple[float, float]:
    """ln of (1/m)·E sup Σ ε_ik f_k(x_i) over nets with these ℓ1,∞ norms; the grid's price."""
    product, nats = _rounded(facts.lifted(known.lifted_l1_inf))
    inputs = facts.input_size + facts.has_bias
    column = max(log(facts.input_column), log(facts.m if facts.has_bias else 0) / 2)
    # Massart's lemma over the 2n signed coordinates.
    base = 0.5 * math.log(2.0 * math.log(2.0 * inputs)) + column - math.log(facts.m)
    return base + (facts.depth - 1) * LN2 + math.log(facts.classes) + product, nats


def _frobenius_average(facts: NetFacts, factor: float) -> tuple[float, float]:
    last = facts.layers[-1]  # each score is a net of its own, with one row of the last layer
    row = log(math.hypot(last.l2_inf, last.bias_largest if facts.has_bias else 0.0))
    product, nats = _rounded([*facts.lifted(known.lifted_frobenius)[:-1], row])
    energy = facts.log_energy - math.log(facts.m)
    return energy + factor + math.log(facts.classes) + product, nats


def _rounded(norms: list[float]) -> tuple[float, float]:
    """ln of the product after rounding every norm up to the grid, and what that costs."""
    points, nats = zip(*(at_least(norm, FINE) for norm in norms), strict=True)
    return math.fsum(points), math.fsum(nats)


def covered(facts: NetFacts) -> list[Bound]:
    """Bartlett, Foster and Telgarsky 2017, from zero and, where it is known, from initialisation.

    For nets with ‖A_i‖₂ ≤ s_i and ‖A_i - A₀_i‖_{2,1} ≤ a_i, the references A₀_i fixed before the
    sample, R̂ ≤ 4/m + 48 ln(m) √(ln(2W²)) / (γ m) · √Σ‖x‖² · ∏ s_i · (Σ (a_i/s_i)^{2/3})^{3/2}, W
    the largest number of units of a layer or of the input.
    """
    names = {"spec-l2,1": False}
    if all(layer.moved_l2_1 is not None for layer in facts.layers):
        names["spec-l2,1 from initialisation"] = True
    if why := why_no_chain(facts):
        return [Statement(name, _COVERING).abstains(why) for name in names]
    return [_covered(facts, Statement(name, _COVERING), moved) for name, moved in names.items()]


def _covered(facts: NetFacts, row: Statement, moved: bool) -> Bound:
    spectral, ratios, nats = 0.0, [], 0.0
    norms, distances = facts.lifted(known.lifted_spectral), facts.lifted(partial(_l2_1, moved))
    for layer, norm, distance in zip(facts.layers, norms, distances, strict=True):
        (s, paid_s), (a, paid_a) = at_least(norm, FINE), at_least(distance, FINE)
        spectral += s + facts.log_step(layer)
        ratios.append(2.0 / 3.0 * (a - s))
        nats += paid_s + paid_a
    width = max(facts.input_size, *(layer.outputs for layer in facts.layers)) + facts.has_bias
    m = facts.m
    # margin_bound multiplies by 2/γ; the 4/m of Dudley's integral does not depend on γ, so it is
    # divided out here.
    main = math.log(24.0) + log(math.log(m)) + 0.5 * math.log(math.log(2.0 * width**2))
    main = main - math.log(m) + facts.log_energy + (spectral + 1.5 * log_sum(*ratios))
    value = log_sum(margin_bound(facts, main, nats), math.log(8.0 / m))
    start = "the distance from initialisation" if moved else "the weights"
    text = f"product of the spectral norms, times {start} in ℓ2,1, summed to the power 2/3"
    return row.states(value, text)


def _l2_1(moved: bool, layer: LayerFacts, has_bias: bool, last: bool) -> float:
    """At least ‖Ã - Ã₀‖_{2,1}: a unit's row grows by its bias; the constant's is that of Ã₀."""
    norm, bias = layer.l2_1, layer.bias
    if moved:
        norm, bias = layer.moved_l2_1 or 0.0, layer.moved_bias or 0.0
    if not has_bias:
        return norm
    # Σ √(‖a‖² + b²) ≤ Σ ‖a‖ + Σ |b|, and Σ |b| ≤ √units · ‖b‖. Without a reference the constant's
    # own row counts 1.
    return norm + math.sqrt(layer.outputs) * bias + (0.0 if moved or last else 1.0)


def noise_tolerance(facts: NetFacts) -> Bound:
    """Neyshabur, Bhojanapalli and Srebro 2017 ("spec-fro"): noise that no margin notices, and
    PAC-Bayes.

    If Gaussian noise U of standard deviation σ in every weight moves no score by more than γ/4,
    with probability at least 1/2 over U and for all inputs up to `radius`, then with probability ≥
    1 - δ over the sample L(f) ≤ L̂_γ(f) + √((2 KL + 2 ln 2 + ln(2√m/δ'))/(2m)), KL = ‖w‖²/(2σ²).
    ‖U_i‖₂ ≤ σ(√h_i + √h_{i-1} + √(2 ln 2d)) for all d layers together with probability ≥ 1/2
    (Davidson and Szarek 2001), and then the scores move by at most e·radius·∏s_i·Σ‖U_i‖₂/s_i if
    every ‖U_i‖₂ ≤ s_i/d.
    """
    if why := why_no_chain(facts):
        return _NOISE.abstains(why)
    if any(layer.spectral_upper == 0.0 for layer in facts.layers):
        return _NOISE.abstains("a layer is zero, so the net cannot be rescaled to equal norms")
    facts = replace(facts, layers=rebalanced(facts.layers))
    layers, d, m = facts.layers, facts.depth, facts.m
    log_gamma, paid_gamma = at_most(log(facts.margin), FINE)
    norms, root = facts.lifted(known.lifted_spectral), math.sqrt(2 * math.log(2 * d))
    noise = [
        log(math.sqrt(one.outputs) + math.sqrt(one.inputs + facts.has_bias) + root)
        for one in layers
    ]
    steps = math.fsum(map(facts.log_step, layers))
    relative = [noisy - norm for noisy, norm in zip(noise, norms, strict=True)]
    largest = log_gamma - math.log(4.0) - 1.0 - facts.log_radius - math.fsum(norms) - steps
    largest = min(largest - log_sum(*relative), -math.log(d) - max(relative))
    log_sigma, paid_sigma = at_most(largest, FINE)
    squares = log_sum(*(2 * log(math.hypot(one.frobenius, one.bias)) for one in layers))
    log_kl = squares - LN2 - 2 * log_sigma
    confidence = 2 * LN2 + math.log(2 * math.sqrt(m) / facts.delta) + paid_gamma + paid_sigma
    deviation = (log_sum(LN2 + log_kl, math.log(confidence)) - math.log(2 * m)) / 2
    return _NOISE.states(
        log_sum(log(facts.margin_loss), deviation),
        "weights under noise that the margin tolerates: product of spectral norms, times the "
        "Frobenius norms",
        log10_sigma=log_sigma / LN10,
    )


def rebalanced(layers: tuple[LayerFacts, ...]) -> tuple[LayerFacts, ...]:
    """The same function with equal spectral norms: A_i by c_i, ∏ c_i = 1, biases to match."""
    mean = math.fsum(math.log(layer.spectral_upper) for layer in layers) / len(layers)
    result, so_far = [], 0.0
    for layer in layers:
        step = mean - math.log(layer.spectral_upper)
        so_far += step
        c, at = math.exp(step), math.exp(so_far)
        one = replace(layer, frobenius=layer.frobenius * c, spectral_upper=layer.spectral_upper * c)
        result.append(replace(one, bias=layer.bias * at, bias_largest=layer.bias_largest * at))
    return tuple(result)


def cells(facts: NetFacts, inputs_in_unit_cube: bool) -> list[Bound]:
    """Xu and Mannor 2012: a net that hardly changes within the cells of a partition generalises as
    their number allows; by the ℓ∞ and by the ℓ2 Lipschitz constant.

    Cut [0, 1]^n into cubes of side a. If two points of a cube never differ by more than γ in
    margin, every example of S with margin above γ stands for a cell without errors, and with
    probability ≥ 1 - δ' L(f) ≤ L̂_γ(f) + √((2K ln 2 + 2 ln(1/δ'))/m), K = classes · ⌈1/a⌉^n. A
    margin is 2∏‖A_i‖_{1,∞}-Lipschitz in ℓ∞ and √2∏‖A_i‖₂-Lipschitz in ℓ2, where a cube has diameter
    a√n.
    """
    rows = [Statement(name, _CELLS) for name in ("lipschitz-inf", "lipschitz-2")]
    if why := why_no_chain(facts) or ("" if inputs_in_unit_cube else _NO_CELLS):
        return [row.abstains(why) for row in rows]
    n, found = facts.input_size, []
    sup = facts.log_lipschitz(lambda layer: layer.l1_inf, sup=True, start=LN2)
    root = 0.5 * math.log(2.0 * n)
    two = facts.log_lipschitz(lambda layer: layer.spectral_upper, sup=False, start=root)
    for row, constant, norm in zip(rows, (sup, two), ("ℓ∞", "ℓ2"), strict=True):
        log_side, nats = at_most(log(facts.margin) - constant, FINE)
        log_cells = math.log(facts.classes) + n * _log_ceil(-log_side)
        confidence = 2 * (math.log(1 / facts.delta) + nats)
        both = log_sum(math.log(2 * LN2) + log_cells, math.log(confidence))
        value = log_sum(log(facts.margin_loss), (both - math.log(facts.m)) / 2)
        text = f"cells on which the net hardly changes, by its Lipschitz constant in {norm}"
        found.append(row.states(value, text, log10_cells=log_cells / LN10))
    return found


def _log_ceil(log_value: float) -> float:
    """ln ⌈e^log_value⌉, at least 0; beyond 2^53 a whole number more or less does not show."""
    if log_value <= 0:
        return 0.0
    return math.log(math.ceil(math.exp(log_value))) if log_value < 36 else log_value * (1 + 1e-15)

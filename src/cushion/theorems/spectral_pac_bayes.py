"""Neyshabur, Bhojanapalli and Srebro 2017 ("spec-fro"): Gaussian noise that no margin notices, and
PAC-Bayes.

If Gaussian noise U of standard deviation σ in every weight moves no score by more than γ/4, with
probability at least 1/2 over U and for all inputs up to `radius`, then with probability ≥ 1 - δ
over the sample (docs/bounds.md, "Noise")

    L(f) ≤ L̂_γ(f) + √((2 KL + 2 ln 2 + ln(2√m/δ'))/(2m)),   KL = ‖w‖²/(2σ²).

‖U_i‖₂ ≤ σ(√h_i + √h_{i-1} + √(2 ln 2d)) for all d layers together with probability ≥ 1/2 (Davidson
and Szarek 2001), and then the scores move by at most e·radius·∏s_i·Σ‖U_i‖₂/s_i if every ‖U_i‖₂ ≤
s_i/d. Layers are first rescaled so that their spectral norms agree, which does not change f. σ and
γ go to paid grids.
"""

from __future__ import annotations

import math
from dataclasses import replace

from cushion.theorems.facts import LayerFacts, NetFacts, lifted_spectral
from cushion.theorems.records import Bound
from cushion.theorems.rows import LN10, Statement, log, log_sum, why_no_chain
from cushion.theorems.union import FINE, at_most

ROW = Statement("spec-fro", "Neyshabur et al. 2017a")
MEANING = (
    "weights under noise that the margin tolerates: product of spectral norms, times the Frobenius "
    "norms"
)


def noise_tolerance(facts: NetFacts) -> Bound:
    """The stated bound."""
    if why := why_no_chain(facts):
        return ROW.abstains(why)
    if any(layer.spectral_upper == 0.0 for layer in facts.layers):
        return ROW.abstains("a layer is zero, so the net cannot be rescaled to equal norms")
    layers = rebalanced(facts.layers)
    d, m = facts.depth, facts.m
    log_gamma, paid_gamma = at_most(log(facts.margin), FINE)
    norms = [log(lifted_spectral(one, facts.has_bias, last=one is layers[-1])) for one in layers]
    noise = [
        log(
            math.sqrt(one.outputs)
            + math.sqrt(one.inputs + facts.has_bias)
            + math.sqrt(2 * math.log(2 * d))
        )
        for one in layers
    ]
    radius = log(math.hypot(facts.radius, 1.0 if facts.has_bias else 0.0))
    steps = math.fsum(facts.log_step(one) for one in layers)
    relative = [noisy - norm for noisy, norm in zip(noise, norms, strict=True)]
    largest = (
        log_gamma - math.log(4.0) - 1.0 - radius - math.fsum(norms) - steps - log_sum(*relative)
    )
    largest = min(largest, -math.log(d) - max(relative))
    log_sigma, paid_sigma = at_most(largest, FINE)
    squares = log_sum(*(2 * log(math.hypot(one.frobenius, one.bias)) for one in layers))
    log_kl = squares - math.log(2.0) - 2 * log_sigma
    confidence = (
        2 * math.log(2.0) + math.log(2 * math.sqrt(m) / facts.delta) + paid_gamma + paid_sigma
    )
    deviation = (log_sum(math.log(2.0) + log_kl, math.log(confidence)) - math.log(2 * m)) / 2
    value = log_sum(log(facts.margin_loss), deviation)
    return ROW.states(value, MEANING, log10_sigma=log_sigma / LN10)


def rebalanced(layers: tuple[LayerFacts, ...]) -> tuple[LayerFacts, ...]:
    """The same function with equal spectral norms: A_i by c_i, ∏ c_i = 1, biases to match."""
    mean = math.fsum(math.log(layer.spectral_upper) for layer in layers) / len(layers)
    result, so_far = [], 0.0
    for layer in layers:
        step = mean - math.log(layer.spectral_upper)
        so_far += step
        c, at = math.exp(step), math.exp(so_far)
        result.append(
            replace(
                layer,
                frobenius=layer.frobenius * c,
                spectral_upper=layer.spectral_upper * c,
                bias=layer.bias * at,
                bias_largest=layer.bias_largest * at,
            )
        )
    return tuple(result)

"""Theorem 2.2 of Arora 2018: every layer of low rank, or on a grid as it is, within its share of
the margin (docs/compression-bounds.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cushion.theorems.facts import LayerFacts, NetFacts, lifted_spectral
from cushion.theorems.records import FORMS, Bound
from cushion.theorems.rows import LN2, Statement, log, log_sum, why_no_chain
from cushion.theorems.union import FINE, at_most, deviation, number_width, price

ROWS = [Statement("low rank", "Arora 2018, Thm 2.2", form) for form in FORMS]
_SLACK = 1 + 1e-12  # for the rounding of a few float operations


def theorem_2_2(facts: NetFacts, ranks: Sequence[int] | None = None) -> list[Bound]:
    """The low-rank net's rows, about f itself: g is within γ/√2 of f on every input up to `radius`,
    and 2γ = margin.

    `ranks`: how many singular values of each layer exceed `truncation(facts)`; None takes Lemma 1's
    bound on them.
    """
    why = why_no_chain(facts)
    if not why and any(layer.spectral_upper == 0.0 for layer in facts.layers):
        why = "a layer is zero, so no error is small beside it"
    if why:
        return [row.abstains(why) for row in ROWS]
    logs = [2 * log(layer.frobenius / layer.spectral_upper) for layer in facts.layers]
    width = max(layer.outputs for layer in facts.layers)
    capacity = (
        log(width)
        + 2 * log(facts.depth)
        + log(facts.radius)
        - 2 * log(facts.margin)
        + log_sum(*logs)
    )
    capacity += 2 * math.fsum(log(layer.spectral_upper) for layer in facts.layers)
    as_printed = log_sum(log(facts.margin_loss), (capacity - math.log(facts.m)) / 2)
    thresholds = truncation(facts)
    if not all(map(math.isfinite, thresholds)):
        return [row.states(math.inf, "") for row in ROWS]  # says that it is infinite
    _, nats = at_most(log(facts.margin), FINE)  # the loss that g is counted by depends on γ
    parameters = 0
    for at, (layer, threshold) in enumerate(zip(facts.layers, thresholds, strict=True)):
        rank = _lemma_1(layer, threshold) if ranks is None else ranks[at]
        choices = _factors(facts, layer, rank, threshold), _kept(facts, layer, threshold)
        count, own = min(choices, key=lambda one: one[1])
        nats, parameters = nats + own + LN2, parameters + count  # one bit says which of the two
    value = log(facts.margin_loss + deviation(nats, facts.m, facts.delta))
    printed, corrected = ROWS
    return [
        printed.states(as_printed, "the expression with 1 for Õ(.); ‖x‖ lacks its square"),
        corrected.states(
            value,
            "every layer of low rank, or on a grid as it is, within its share of γ",
            numbers=float(parameters),
            bits=nats / LN2,
        ),
    ]


def truncation(facts: NetFacts) -> tuple[float, ...]:
    """ln of the singular value up to which each layer is cut off: half of the spectral error that
    it may make.

    Lemma 9: if every ‖Δ_i‖₂ ≤ δ s_i and δ ≤ 1/d, the scores move by at most e·radius·∏s_i·d·δ in
    ℓ2. Biases lift s_i, pooling multiplies the product. The other half is left to rounding.
    """
    d = facts.depth
    log_margin, _ = at_most(log(facts.margin), FINE)
    lifted = [
        log(lifted_spectral(one, facts.has_bias, last=one is facts.layers[-1]))
        for one in facts.layers
    ]
    radius = log(math.hypot(facts.radius, 1.0 if facts.has_bias else 0.0))
    product = math.fsum(lifted) + math.fsum(facts.log_step(one) for one in facts.layers)
    # γ/√2 with γ = margin/2
    relative = log_margin - LN2 - LN2 / 2 - 1.0 - radius - math.log(d) - product
    relative = min(relative, -math.log(d))
    return tuple(relative + one - LN2 for one in lifted)


def _lemma_1(layer: LayerFacts, threshold: float) -> int:
    """At least the number of singular values above the threshold: ‖A‖_F²/threshold², or all."""
    most = min(layer.inputs, layer.outputs)
    found = 2 * (log(layer.frobenius) - threshold)
    return most if found >= math.log(most) else math.floor(math.exp(found) * _SLACK)


def _factors(facts: NetFacts, layer: LayerFacts, rank: int, half: float) -> tuple[int, float]:
    """(numbers, nats) of a layer U√Σ·√ΣVᵀ of this rank, and its biases, rounded so that the map
    moves by e^half.

    Entries off by at most t move the product by √s·t·√r(√h₁ + √h₂) + t²·r√(h₁h₂), biases by t√h₁.
    """
    out, into = layer.outputs, layer.inputs
    slope = math.sqrt(rank * layer.spectral_upper) * (math.sqrt(out) + math.sqrt(into))
    slope += math.sqrt(out) if facts.has_bias else 0.0
    square = log(rank * math.sqrt(out * into))
    root = log_sum(2 * log(slope), 2 * LN2 + square + half) / 2  # of square·t² + slope·t = e^half
    step = LN2 + (LN2 + half - log_sum(log(slope), root) if slope > 0 else 0.0)
    numbers = (out + into) * rank + (out if facts.has_bias else 0)
    largest = max(math.sqrt(layer.spectral_upper), layer.bias_largest)
    bits, paid = number_width(step, log(largest))
    return numbers, numbers * bits * LN2 + paid + price(rank)


def _kept(facts: NetFacts, layer: LayerFacts, half: float) -> tuple[int, float]:
    """(numbers, nats) of a layer on a grid that takes its whole error: t√(h₁h₂) for entries t."""
    step = 2 * LN2 + half - log(layer.outputs * (layer.inputs + facts.has_bias)) / 2
    bits, paid = number_width(step, log(max(layer.spectral_upper, layer.bias_largest)))
    return layer.parameters, layer.parameters * bits * LN2 + paid

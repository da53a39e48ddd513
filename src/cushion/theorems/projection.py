"""What Arora 2018 promises before anything is compressed (docs/compression-bounds.md): Theorem 2.2,
layers of low rank; Theorems 4.1 and 5.1 and Corollary C.1, layers or filters that are projected,
with the counts of `noise_stability`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cushion.theorems import logs
from cushion.theorems.facts import LayerFacts, NetFacts, lifted_spectral
from cushion.theorems.logs import LN2, LN10, log, log_sum
from cushion.theorems.noise_stability import StabilityFacts, epsilon_from_margin, lemma_3, lemma_14
from cushion.theorems.records import FORMS, Bound, Statement, why_no_chain

# of a projected layer's error is left to its grid: numbers cost 1/error², a finer grid little
ROUNDING = 1.0 / 32.0


_LOW_RANK = [Statement("low rank", "Arora 2018, Thm 2.2", form) for form in FORMS]
_LAYERS = "k numbers a layer from its cushions, each on a grid; what ρ fails with comes on top of δ"
_FILTERS = (
    "Lemma 14's count with a chosen Q, grids as for dense layers; Lemma 12 is false: no theorem "
    "says this"
)
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
        return [row.abstains(why) for row in _LOW_RANK]
    ranked = [2 * log(layer.frobenius / layer.spectral_upper) for layer in facts.layers]
    width = max(layer.outputs for layer in facts.layers)
    capacity = log(width) + 2 * log(facts.depth) + log(facts.radius) - 2 * log(facts.margin)
    capacity = capacity + log_sum(*ranked) + 2 * facts.log_product(lambda one: one.spectral_upper)
    as_printed = log_sum(log(facts.margin_loss), (capacity - math.log(facts.m)) / 2)
    thresholds = truncation(facts)
    if not all(map(math.isfinite, thresholds)):
        return [row.states(math.inf, "") for row in _LOW_RANK]  # says that it is infinite
    # the loss that g is counted by depends on γ
    _, nats = logs.at_most(log(facts.margin), logs.FINE)
    parameters = 0
    for at, (layer, threshold) in enumerate(zip(facts.layers, thresholds, strict=True)):
        rank = _lemma_1(layer, threshold) if ranks is None else ranks[at]
        choices = _factors(facts, layer, rank, threshold), _kept(facts, layer, threshold)
        count, own = min(choices, key=lambda one: one[1])
        nats, parameters = nats + own + LN2, parameters + count  # one bit says which of the two
    value = log(facts.margin_loss + logs.deviation(nats, facts.m, facts.delta))
    printed, corrected = _LOW_RANK
    text = "every layer of low rank, or on a grid as it is, within its share of γ"
    return [
        printed.states(as_printed, "the expression with 1 for Õ(.); ‖x‖ lacks its square"),
        corrected.states(value, text, numbers=float(parameters), bits=nats / LN2),
    ]


def truncation(facts: NetFacts) -> tuple[float, ...]:
    """ln of the singular value up to which each layer is cut off: half of the spectral error that
    it may make.

    Lemma 9: if every ‖Δ_i‖₂ ≤ δ s_i and δ ≤ 1/d, the scores move by at most e·radius·∏s_i·d·δ in
    ℓ2. Biases lift s_i, pooling multiplies the product. The other half is left to rounding.
    """
    d = facts.depth
    log_margin, _ = logs.at_most(log(facts.margin), logs.FINE)
    lifted = facts.lifted(lifted_spectral)
    product = math.fsum(lifted) + math.fsum(map(facts.log_step, facts.layers))
    # γ/√2 with γ = margin/2
    relative = log_margin - LN2 - LN2 / 2 - 1.0 - facts.log_radius - math.log(d) - product
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
    bits, paid = logs.number_width(step, log(largest))
    return numbers, numbers * bits * LN2 + paid + logs.price(rank)


def _kept(facts: NetFacts, layer: LayerFacts, half: float) -> tuple[int, float]:
    """(numbers, nats) of a layer on a grid that takes its whole error: t√(h₁h₂) for entries t."""
    step = 2 * LN2 + half - log(layer.outputs * (layer.inputs + facts.has_bias)) / 2
    bits, paid = logs.number_width(step, log(max(layer.spectral_upper, layer.bias_largest)))
    return layer.parameters, layer.parameters * bits * LN2 + paid


def theorem_4_1(facts: NetFacts, stability: StabilityFacts, zeta: float = 0.0) -> list[Bound]:
    """The projected net's rows, about g; with ζ > 0 the stability is that of the sample without
    this fraction.

    Corrected: Lemma 3 at Lemma 10's ε, every layer's numbers on a grid that moves it by a share of
    its own ε_i.
    """
    name = "projected net" if zeta == 0 else "projected net without outliers"
    stated = Statement(name, "Arora 2018, Thm 4.1", "as printed", "g")
    why = ""
    for layer in stability.layers:
        if not why and layer.places > 1:
            why = f"layer {layer.name} is a convolution, and the theorem is about dense layers"
    return _projected(stated, facts, stability, zeta, why)


def theorem_5_1(
    facts: NetFacts, stability: StabilityFacts, zeta: float = 0.0, constant: float = 1.0
) -> list[Bound]:
    """The projected filters' rows, by Lemma 14's count with Q = `constant`: measures, no proof.

    With ζ > 0 Corollary C.1: the stability of the sample without its worst fraction ζ, which is
    added.
    """
    stated = Statement("projected filters", "Arora 2018, Thm 5.1", "as printed", "g")
    if zeta:
        name = "projected filters without outliers"
        stated = replace(stated, name=name, source="Arora 2018, Cor. C.1")
    return _projected(stated, facts, stability, zeta, "", constant)


def _projected(
    stated: Statement,
    facts: NetFacts,
    stability: StabilityFacts,
    zeta: float,
    why: str,
    constant: float | None = None,
) -> list[Bound]:
    """As printed, with 1 for Õ(.); and with counts, from the paid sizes and grids of all layers:
    Lemma 3's, or Lemma 14's with this constant.
    """
    counted = replace(stated, form="corrected")
    if constant is not None:
        counted = replace(stated, name=f"{stated.name}, Lemma 14's count")
    if why := why_no_chain(facts) or stability.undefined or why:
        return [stated.abstains(why), counted.abstains(why)]
    epsilon = epsilon_from_margin(facts.margin, facts.largest_score)
    counts = lemma_3(stability, (1 - ROUNDING) * epsilon)
    if constant is not None:
        counts = lemma_14(stability, (1 - ROUNDING) * epsilon, constant)
    terms = [log(one.overlap) + 2 * (log(one.beta) - one.log_stability) for one in stability.layers]
    spread = stability.contraction * stability.depth * facts.largest_score / facts.margin
    capacity = 2 * log(spread) + log_sum(*terms)
    printed = log_sum(log(facts.margin_loss), log(zeta), (capacity - math.log(facts.m)) / 2)
    log_nats = []
    for net_layer, layer, count in zip(facts.layers, stability.layers, counts.layers, strict=True):
        # (ν/2)√n ≤ share·ε_i·‖A‖_F, and |⟨A, M⟩| ≤ √n·‖A‖_F.
        root, norm = math.log(layer.weights) / 2, log(layer.frobenius)
        share = math.log(ROUNDING) + min(0.0, stability.log_share(layer, epsilon))
        bits, paid = logs.number_width(LN2 + share + norm - root, root + norm)
        paid += math.log(1.5) + 2 * log_sum(count.log_projections, LN2)  # at least logs.price(k)
        # stored as they are
        biases = facts.weight_bits * max(0, net_layer.parameters - layer.weights) * LN2
        log_nats += [count.log_numbers + math.log(bits * LN2), log(paid + biases)]
    total = log_sum(*log_nats)
    confidence = math.log(math.log(2.0 / stability.delta))  # δ/2 here, δ/2 in the lemma
    deviation = (log_sum(total, confidence) - math.log(2 * facts.m)) / 2
    some = stability.examples or facts.m
    seen = "" if some >= facts.m else f"; stability measured on {some} of {facts.m} examples"
    seen += f"; its condition fails here: {stability.unmet}" if stability.unmet else ""
    text = _LAYERS if constant is None else _FILTERS
    value = log_sum(log(facts.margin_loss), log(zeta), deviation)
    return [
        stated.states(printed, f"the theorem's expression with 1 for Õ(.){seen}"),
        counted.states(
            value,
            f"{text}{seen}",
            epsilon=epsilon,
            log10_numbers=counts.log10,
            log10_bits=(total - log(LN2)) / LN10,
            zeta=zeta,
        ),
    ]

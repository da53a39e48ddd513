"""Theorems 4.1 and 5.1 of Arora 2018 and Corollary C.1: nets whose layers, or filters, are
projected, with the counts of `noise_stability` (docs/compression-bounds.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

from cushion.theorems.facts import NetFacts
from cushion.theorems.noise_stability import (
    StabilityCounts,
    StabilityFacts,
    epsilon_from_margin,
    lemma_3,
    lemma_14,
)
from cushion.theorems.records import Bound
from cushion.theorems.rows import LN2, LN10, Statement, log, log_sum, why_no_chain
from cushion.theorems.union import number_width

# of a projected layer's error is left to its grid: numbers cost 1/error², a finer grid little
ROUNDING = 1.0 / 32.0


def theorem_4_1(facts: NetFacts, stability: StabilityFacts, zeta: float = 0.0) -> list[Bound]:
    """The projected net's rows, about g; with ζ > 0 the stability is that of the sample without
    this fraction.

    Corrected: Lemma 3 at Lemma 10's ε, every layer's numbers on a grid that moves it by a share of
    its own ε_i.
    """
    why = why_no_chain(facts) or stability.undefined
    for layer in stability.layers:
        if not why and layer.places > 1:
            why = f"layer {layer.name} is a convolution, and the theorem is about dense layers"
    name = "projected net" if zeta == 0 else "projected net without outliers"
    epsilon = epsilon_from_margin(facts.margin, facts.largest_score)
    counts = None if why else lemma_3(stability, (1 - ROUNDING) * epsilon)
    return _projected(name, "Arora 2018, Thm 4.1", facts, stability, zeta, why, counts)


def theorem_5_1(facts: NetFacts, stability: StabilityFacts, constant: float = 1.0) -> list[Bound]:
    """The projected filters' rows, with Lemma 14's count for the constant Q: measures, no proof
    stands behind them.
    """
    return _filters("projected filters", "Arora 2018, Thm 5.1", facts, stability, 0.0, constant)


def corollary_c_1(
    facts: NetFacts, stability: StabilityFacts, zeta: float, constant: float = 1.0
) -> list[Bound]:
    """The same with the stability of the sample without its worst fraction ζ, which is added."""
    return _filters(
        "projected filters without outliers",
        "Arora 2018, Cor. C.1",
        facts,
        stability,
        zeta,
        constant,
    )


def _filters(
    name: str, source: str, facts: NetFacts, stability: StabilityFacts, zeta: float, constant: float
) -> list[Bound]:
    why = why_no_chain(facts) or stability.undefined
    epsilon = epsilon_from_margin(facts.margin, facts.largest_score)
    counts = None if why else lemma_14(stability, (1 - ROUNDING) * epsilon, constant)
    return _projected(name, source, facts, stability, zeta, why, counts, filters=True)


def _projected(
    name: str,
    source: str,
    facts: NetFacts,
    stability: StabilityFacts,
    zeta: float,
    why: str,
    counts: StabilityCounts | None,
    *,
    filters: bool = False,
) -> list[Bound]:
    """As printed, with 1 for Õ(.); and with counts, from the paid sizes and grids of all layers."""
    stated = Statement(name, source, "as printed", "g")
    counted = Statement(name, source, "corrected", "g")
    if filters:
        counted = replace(stated, name=f"{name}, Lemma 14's count")
    if counts is None:
        return [stated.abstains(why), counted.abstains(why)]
    terms = [log(one.overlap) + 2 * (log(one.beta) - one.log_stability) for one in stability.layers]
    capacity = 2 * log(
        stability.contraction * stability.depth * facts.largest_score / facts.margin
    ) + log_sum(*terms)
    printed = log_sum(log(facts.margin_loss), log(zeta), (capacity - math.log(facts.m)) / 2)
    epsilon = epsilon_from_margin(facts.margin, facts.largest_score)
    log_nats = []
    for net_layer, layer, count in zip(facts.layers, stability.layers, counts.layers, strict=True):
        # (ν/2)√n ≤ share·ε_i·‖A‖_F, and |⟨A, M⟩| ≤ √n·‖A‖_F.
        root, norm = math.log(layer.weights) / 2, log(layer.frobenius)
        share = math.log(ROUNDING) + min(0.0, stability.log_share(layer, epsilon))
        bits, paid = number_width(LN2 + share + norm - root, root + norm)
        paid += math.log(1.5) + 2 * log_sum(count.log_projections, LN2)  # at least price(k)
        # stored as they are
        biases = facts.weight_bits * max(0, net_layer.parameters - layer.weights) * LN2
        log_nats += [count.log_numbers + math.log(bits * LN2), log(paid + biases)]
    total = log_sum(*log_nats)
    confidence = math.log(math.log(2.0 / stability.delta))  # δ/2 here, δ/2 in the lemma
    deviation = (log_sum(total, confidence) - math.log(2 * facts.m)) / 2
    some = stability.examples or facts.m
    seen = "" if some >= facts.m else f"; stability measured on {some} of {facts.m} examples"
    seen += f"; its condition fails here: {stability.unmet}" if stability.unmet else ""
    text = (
        "k numbers a layer from its cushions, each on a grid; what ρ fails with comes on top of δ"
    )
    if filters:
        text = (
            "Lemma 14's count with a chosen Q, grids as for dense layers; Lemma 12 is false: no "
            "theorem says this"
        )
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

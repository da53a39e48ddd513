"""The compression theorems of Arora 2018 as rows, with every constant: what the paper promises for
a net.

If a message of b bits describes g, and g errs on no example of which f is sure, then with
probability ≥ 1 - δ

    L(g) ≤ L̂(f) + √((b ln 2 + ln(1/δ))/(2m)),    or, never larger, BinInv(m·L̂(f); m, δ·2^-b),

L̂(f) the fraction of the sample on which f is not sure: its margin is at most 2γ where every score
of g is within γ of f's, at most γ where ‖f - g‖₂ ≤ γ/√2. The rest is how many bits a g so close to
f takes: docs/compression-bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.theorems.facts import LayerFacts, NetFacts, lifted_spectral
from cushion.theorems.noise_stability import (
    StabilityCounts,
    StabilityFacts,
    epsilon_from_margin,
    lemma_3,
    lemma_14,
)
from cushion.theorems.records import Bound, Form
from cushion.theorems.rows import LN10, abstain, certified, log, log_sum, no_margin, stated
from cushion.theorems.union import FINE, at_most, price

LN2 = math.log(2.0)
# of a projected layer's error is left to its grid: numbers cost 1/error², a finer grid little
ROUNDING = 1.0 / 32.0
_SLACK = 1 + 1e-12  # for the rounding of a few float operations


@dataclass(frozen=True)
class CompressedFacts:
    """f and its compressed g on the sample, in counts of examples.

    g follows from `numbers` q numbers with at most `values` r values each; `bits` is the length of
    the message that a coder really wrote. f and g are compared in `norm`: "largest" wants every
    score within γ, "l2" ‖f - g‖₂ ≤ γ/√2. `failed`: where that does not hold. `unsure`: where f's
    margin is at most 2γ ("largest") or γ ("l2"). `unsure_or_failed`: either. `below_gamma`: where
    f's margin is at most γ.
    """

    m: int
    delta: float
    numbers: int
    values: int
    gamma: float
    norm: Literal["largest", "l2"]
    below_gamma: int
    unsure: int
    failed: int
    unsure_or_failed: int
    bits: int | None = None


def theorem_2_1(found: CompressedFacts) -> list[Bound]:
    """Rows about g where the compression works on every example: as printed, corrected, and with a
    coder's bits.
    """
    why = f"g is too far from f on {found.failed} of {found.m} examples; Corollary A.1 counts them"
    why = why if found.failed else ""
    rows = _compressed("compressed net", "Arora 2018, Thm 2.1", found, found.unsure, 0, why)
    return [_about_g(row) for row in rows]


def corollary_a_1(found: CompressedFacts) -> list[Bound]:
    """The same where it may fail: ζ = failed/m is added; the exact tail counts an example that is
    both only once.
    """
    name, source = "compressed net with failures", "Arora 2018, Cor. A.1"
    return [
        _about_g(row)
        for row in _compressed(name, source, found, found.unsure_or_failed, found.failed, "")
    ]


def _compressed(
    name: str, source: str, found: CompressedFacts, counted: int, failed: int, why: str
) -> list[Bound]:
    m, level = found.m, "2γ" if found.norm == "largest" else "γ"
    coded, tail = f"{name}, coded bits", f"{name}, exact tail"
    why = why or ("" if found.gamma > 0 else f"γ = {found.gamma:.3g} is not positive")
    if why:
        return [
            abstain(name, source, why, "as printed"),
            abstain(name, source, why, "corrected"),
            abstain(coded, source, why, "corrected", "certificate"),
            abstain(tail, source, why, "corrected", "certificate"),
        ]
    nats, zeta = found.numbers * math.log(found.values), failed / m
    factors = {"numbers": float(found.numbers), "values": float(found.values), "zeta": zeta}
    rows = [
        stated(
            name,
            source,
            log(found.below_gamma / m + zeta + math.sqrt(nats / m)),
            "the proof's own constant, and L̂_γ where the error of a margin is up to 2γ; q and r "
            "are not paid for",
            form="as printed",
            factors=factors,
        ),
        stated(
            name,
            source,
            log(found.unsure / m + zeta + _deviation(nats, m, found.delta)),
            f"L̂ at {level}, q ln r nats; the choice of q and r is not paid for",
            form="corrected",
            factors=factors,
        ),
    ]
    if found.bits is None:
        why = "no coder wrote the net"
        certificates = [
            abstain(one, source, why, "corrected", "certificate") for one in (coded, tail)
        ]
    else:
        written = {"bits": float(found.bits), "unsure_examples": float(counted)}
        hoeffding = (
            found.unsure / m + zeta + _deviation(found.bits * LN2, m, found.delta)
        ) * _SLACK
        exact = binomial_inverse(counted, m, occam_log_delta(Decimal(str(found.delta)), found.bits))
        text = (
            f"{found.bits} bits written; on {counted} examples f's margin is at most {level} or g "
            "too far from f"
        )
        certificates = [
            certified(
                coded, source, hoeffding, f"{text}; Hoeffding", form="corrected", factors=written
            ),
            certified(
                tail,
                source,
                exact,
                f"{text}; at least the Occam bound of g",
                form="corrected",
                factors=written,
            ),
        ]
    return rows + certificates


def theorem_2_2(facts: NetFacts, ranks: Sequence[int] | None = None) -> list[Bound]:
    """The low-rank net's rows, about f itself: g is within γ/√2 of f on every input up to `radius`,
    and 2γ = margin.

    `ranks`: how many singular values of each layer exceed `truncation(facts)`; None takes Lemma 1's
    bound on them.
    """
    name, source = "low rank", "Arora 2018, Thm 2.2"
    forms: tuple[Form, Form] = ("as printed", "corrected")
    why = _why_no_chain(facts)
    if not why and any(layer.spectral_upper == 0.0 for layer in facts.layers):
        why = "a layer is zero, so no error is small beside it"
    if why:
        return [abstain(name, source, why, form) for form in forms]
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
        return [
            stated(name, source, math.inf, "", form=form) for form in forms
        ]  # says that it is infinite
    _, nats = at_most(log(facts.margin), FINE)  # the loss that g is counted by depends on γ
    parameters = 0
    for at, (layer, threshold) in enumerate(zip(facts.layers, thresholds, strict=True)):
        rank = _lemma_1(layer, threshold) if ranks is None else ranks[at]
        choices = _factors(facts, layer, rank, threshold), _kept(facts, layer, threshold)
        count, own = min(choices, key=lambda one: one[1])
        nats, parameters = nats + own + LN2, parameters + count  # one bit says which of the two
    value = log(facts.margin_loss + _deviation(nats, facts.m, facts.delta))
    factors = {"numbers": float(parameters), "bits": nats / LN2}
    text = "every layer of low rank, or on a grid as it is, within its share of γ"
    return [
        stated(
            name,
            source,
            as_printed,
            "the expression with 1 for Õ(.); ‖x‖ lacks its square",
            form="as printed",
        ),
        stated(name, source, value, text, form="corrected", factors=factors),
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
    """At least the number of singular values above the threshold, given as ln: ‖A‖_F²/threshold²,
    at most all.
    """
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
    nats = _grid(numbers, step, log(max(math.sqrt(layer.spectral_upper), layer.bias_largest)))
    return numbers, nats + price(rank)


def _kept(facts: NetFacts, layer: LayerFacts, half: float) -> tuple[int, float]:
    """(numbers, nats) of a layer as it is, on a grid that takes its whole error: entries off by t
    do t√(h₁h₂).
    """
    step = 2 * LN2 + half - log(layer.outputs * (layer.inputs + facts.has_bias)) / 2
    return layer.parameters, _grid(
        layer.parameters, step, log(max(layer.spectral_upper, layer.bias_largest))
    )


def _grid(numbers: float, log_step: float, log_largest: float) -> float:
    """Nats of numbers up to e^log_largest on the next finer grid 2^j: ⌈log₂(values)⌉ bits each,
    both sizes paid for.
    """
    bits, paid = _width(log_step, log_largest)
    return numbers * bits * LN2 + paid


def _width(log_step: float, log_largest: float) -> tuple[int, float]:
    """Bits a number, and the nats that say so: 2⌊largest/step + ½⌋ + 1 values at most."""
    log_step, paid = at_most(log_step, LN2)
    bits = math.ceil(log_sum(LN2 + log_largest - log_step, LN2) / LN2)
    return bits, paid + price(bits)


def theorem_4_1(facts: NetFacts, stability: StabilityFacts, zeta: float = 0.0) -> list[Bound]:
    """The projected net's rows, about g; with ζ > 0 the stability is that of the sample without
    this fraction.

    Corrected: Lemma 3 at Lemma 10's ε, every layer's numbers on a grid that moves it by a share of
    its own ε_i.
    """
    why = _why_no_chain(facts) or stability.undefined
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
    why = _why_no_chain(facts) or stability.undefined
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
    """As printed, with 1 for Õ(.); and with the counts, from the paid sizes and grids of all
    layers.
    """
    counted = f"{name}, Lemma 14's count" if filters else name
    form: Form = "as printed" if filters else "corrected"
    if counts is None:
        return [
            _about_g(abstain(name, source, why, "as printed")),
            _about_g(abstain(counted, source, why, form)),
        ]
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
        bits, paid = _width(LN2 + share + norm - root, root + norm)
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
    factors = {
        "epsilon": epsilon,
        "log10_numbers": counts.log10,
        "log10_bits": (total - log(LN2)) / LN10,
        "zeta": zeta,
    }
    value = log_sum(log(facts.margin_loss), log(zeta), deviation)
    rows = [
        stated(
            name,
            source,
            printed,
            f"the theorem's expression with 1 for Õ(.){seen}",
            form="as printed",
        ),
        stated(counted, source, value, f"{text}{seen}", form=form, factors=factors),
    ]
    return [_about_g(row) for row in rows]


def _deviation(nats: float, m: int, delta: float) -> float:
    """√((nats + ln(1/δ))/(2m)): Hoeffding, for all messages at once."""
    return math.sqrt((nats + math.log(1.0 / delta)) / (2 * m))


def _why_no_chain(facts: NetFacts) -> str:
    return (
        no_margin(facts)
        if not facts.margin > 0
        else ""
        if facts.is_chain
        else facts.not_a_chain_because
    )


def _about_g(row: Bound) -> Bound:
    return replace(row, about="g")

"""The compression theorems of Arora 2018 as rows, with every constant; what all counts share.

If a message of b bits describes g, and g errs on no example of which f is sure, then with
probability ≥ 1 - δ

    L(g) ≤ L̂(f) + √((b ln 2 + ln(1/δ))/(2m)),    or, never larger, BinInv(m·L̂(f); m, δ·2^-b),

L̂(f) the fraction of the sample on which f is not sure: its margin is at most 2γ where every score
of g is within γ of f's, at most γ where ‖f - g‖₂ ≤ γ/√2. The rest is how many bits a g so close to
f takes: docs/compression-bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.theorems.logs import LN2, choices, deviation, log, price
from cushion.theorems.records import FORMS, Bound, Statement

_SLACK = 1 + 1e-12  # for the rounding of a few float operations


@dataclass(frozen=True)
class CompressedFacts:
    """f and its compressed g on the sample, in counts of examples."""

    m: int
    delta: float
    numbers: int  # q, from which g follows
    values: int  # r: how many values each of them has at most
    gamma: float
    norm: Literal["largest", "l2"]  # wants every score within γ, or ‖f - g‖₂ ≤ γ/√2
    below_gamma: int  # where f's margin is at most γ
    unsure: int  # where it is at most `level`
    failed: int  # where f and g are further apart than `norm` wants
    unsure_or_failed: int
    bits: int | None = None  # of the message that a coder really wrote

    @property
    def level(self) -> str:
        """The margin up to which f is not sure."""
        return "2γ" if self.norm == "largest" else "γ"

    @property
    def zeta(self) -> float:
        """ζ: the fraction of examples on which g is too far from f."""
        return self.failed / self.m

    @property
    def loss(self) -> float:
        """L̂_γ(f)."""
        return self.below_gamma / self.m

    @property
    def no_gamma(self) -> str:
        """Why nothing that needs a margin has a value; empty where it has one."""
        return "" if self.gamma > 0 else f"γ = {self.gamma:.3g} is not positive"


@dataclass(frozen=True)
class CountedFacts:
    """A net whose message is counted layer by layer, of `tried` settings the best."""

    compressed: CompressedFacts  # f and g compared, with γ, δ and the bits that a coder wrote
    layers: tuple[Any, ...]
    tried: int = 1
    others: int = 0  # biases and what else is stored as it is
    other_values: int = 1  # how many values each of them has

    @property
    def price(self) -> float:
        """ln of the number of settings: what the choice of the best costs, in nats."""
        return math.log(self.tried)

    @property
    def other_nats(self) -> float:
        return self.others * math.log(max(1, self.other_values))

    @property
    def nonzeros(self) -> int:
        return sum(layer.nonzeros for layer in self.layers)

    def total(self, nats: Callable[[Any], float]) -> float:
        """Over the layers."""
        return math.fsum(map(nats, self.layers))


def mask_nats(layer: Any) -> float:
    """ln C(N, J): which J of the N weights are not zero; Theorem 2 of Shin 2021 leaves it out."""
    return choices(layer.weights, layer.nonzeros)


def value_nats(layer: Any) -> float:
    """J ln r: their values."""
    return float(layer.nonzeros * math.log(max(1, layer.values)))


def chosen_nats(layer: Any) -> float:
    """What J, r and the header cost, which were chosen after seeing the net: J is one of N + 1."""
    return math.log(layer.weights + 1) + price(layer.values) + float(layer.header_nats)


def theorem_2_1(found: CompressedFacts) -> list[Bound]:
    """Rows about g where it works on every example: printed, corrected, with a coder's bits."""
    why = f"g is too far from f on {found.failed} of {found.m} examples; Corollary A.1 counts them"
    own = "compressed net", "Arora 2018, Thm 2.1"
    return _compressed(*own, found, found.unsure, 0.0, why if found.failed else "")


def corollary_a_1(found: CompressedFacts) -> list[Bound]:
    """The same where it may fail: ζ = failed/m is added; the exact tail counts no example twice."""
    name, source = "compressed net with failures", "Arora 2018, Cor. A.1"
    return _compressed(name, source, found, found.unsure_or_failed, found.zeta, "")


def coded_rows(found: CompressedFacts, name: str, source: str) -> list[Bound]:
    """Corollary A.1's certificates with the bits that a coder wrote, under another name: the code
    was fixed before the data and covers every message, so that its bits pay for every choice.
    """
    rows = [row for row in corollary_a_1(found) if row.kind == "certificate"]
    return [
        replace(row, name=f"{name}, {row.name.rpartition(', ')[2]}", source=source) for row in rows
    ]


def counted_row(
    row: Statement, counted: CountedFacts, nats: float, *said: str, **factors: float
) -> Bound:
    """L̂ + ζ + √((nats + ln(1/δ))/(2m)): Hoeffding over all messages of these nats, failures counted
    as in Corollary A.1; ln(tried) of the nats are for the best of so many settings.
    """
    found, tried, (text, *remarks) = counted.compressed, counted.tried, said
    loss = f"L̂ at {found.level}"
    if found.failed:
        loss += f", and the {found.failed} examples on which g is too far from f"
    best = [f"ln {tried} nats for the best of {tried} settings"] if tried > 1 else []
    value = found.unsure / found.m + found.zeta + deviation(nats, found.m, found.delta)
    meaning = "; ".join([text, loss, *best, *remarks])
    return row.states(log(value), meaning, **factors, nats=nats, zeta=found.zeta)


def _compressed(
    name: str, source: str, found: CompressedFacts, counted: int, zeta: float, why: str
) -> list[Bound]:
    m = found.m
    printed, corrected = (Statement(name, source, form, "g") for form in FORMS)
    proofs = [
        Statement(f"{name}, {how}", source, "corrected", "g")
        for how in ("coded bits", "exact tail")
    ]
    if why := why or found.no_gamma:
        silent = [row.abstains(why, "certificate") for row in proofs]
        return [printed.abstains(why), corrected.abstains(why), *silent]
    nats = found.numbers * math.log(found.values)
    factors = {"numbers": float(found.numbers), "values": float(found.values), "zeta": zeta}
    rows = [
        printed.states(
            log(found.loss + zeta + math.sqrt(nats / m)),
            "the proof's own constant, and L̂_γ where the error of a margin is up to 2γ; q and r "
            "are not paid for",
            **factors,
        ),
        corrected.states(
            log(found.unsure / m + zeta + deviation(nats, m, found.delta)),
            f"L̂ at {found.level}, q ln r nats; the choice of q and r is not paid for",
            **factors,
        ),
    ]
    if found.bits is None:
        return rows + [row.abstains("no coder wrote the net", "certificate") for row in proofs]
    written = {"bits": float(found.bits), "unsure_examples": float(counted)}
    hoeffding = found.unsure / m + zeta + deviation(found.bits * LN2, m, found.delta)
    exact = binomial_inverse(counted, m, occam_log_delta(Decimal(str(found.delta)), found.bits))
    text = (
        f"{found.bits} bits written; on {counted} examples f's margin is at most {found.level} or "
        "g too far from f"
    )
    return [
        *rows,
        proofs[0].proves(hoeffding * _SLACK, f"{text}; Hoeffding", **written),
        proofs[1].proves(exact, f"{text}; at least the Occam bound of g", **written),
    ]

"""Lottery tickets (Guha 2023, §6): Theorem 6.1 with its constants, and Theorem 6.2 as printed and
by what a mask costs.

A ticket is a net whose weights come from a seed that was declared before the data, so that they are
helper string, and of which a mask keeps some. The mask is all that the data chose: k of N weights,
one of C(N, k) masks, and k itself. Then with probability ≥ 1 - δ, for all masks at once,

    L(g) ≤ L̂(g) + √((b ln 2 + ln(1/δ))/(2m)),    b = ⌈log₂ C(N, k)⌉ + ⌈log₂(N + 1)⌉,

or BinInv(errors; m, δ·2^-b), which is smaller. Theorem 6.2 pays for sketches of the kept weights
instead, up to a constant, after a theorem which says that tickets exist; iterative pruning finds
other nets (docs/pruning-bounds.md). Those have trained weights, no helper string: `compress
--method magnitude --rule zeros` pays for mask and values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.theorems.records import Bound
from cushion.theorems.rows import Statement, log

NAME, SOURCE = "lottery ticket", "Guha 2023, Thm 6.2"
_LN2 = math.log(2.0)
_EPS = 2.0**-52
_SLACK = 1 + 1e-12  # for the rounding of a few float operations


@dataclass(frozen=True)
class TicketFacts:
    """A ticket on a sample of m examples.

    errors: where it errs (ties are errors); unsure: where its margin is at most ε + ε_ρ, as Theorem
    6.2 counts. weights, kept: N and k, over all weights of the seeded net. inputs, target_width,
    depth: d₀, n_M, L of the target; width: D_G of the random net; rho: the grid's step. coded_bits:
    length of the message that a coder wrote, where one did (`compress --method supermask`: mask,
    architecture and grids).
    """

    m: int
    delta: float
    errors: int
    unsure: int
    weights: int
    kept: int
    inputs: int
    target_width: int
    depth: int
    width: int
    rho: float
    coded_bits: int | None = None


def theorem_6_2(found: TicketFacts) -> list[Bound]:
    """Rows about the ticket: as printed (a measure), the mask's count, and what a coder wrote."""
    printed = Statement(NAME, SOURCE, "as printed", "g")
    mask = Statement(f"{NAME}, mask alone", SOURCE, "corrected", "g")
    coded = replace(mask, name=f"{NAME}, coded")
    numbers = printed_count(found)
    if not 0 < found.rho < 1 or found.width < 2:
        rows = [printed.abstains("the count needs a grid step ρ below 1 and a width of at least 2")]
    else:
        nats = numbers * math.log(1 / found.rho)
        text = (
            "with 1 for O(.): numbers of the sketches of a ticket whose existence alone is proved, "
            "each ln(1/ρ) nats"
        )
        value = log(found.unsure / found.m + math.sqrt(nats / found.m))
        rows = [printed.states(value, text, numbers=numbers, nats=nats)]
    bits = mask_bits(found.weights, found.kept)
    text = (
        f"{bits} bits name the mask ({found.kept} of {found.weights} weights); the weights are "
        "seeded before the data"
    )
    hoeffding = found.errors / found.m + math.sqrt(
        (bits * _LN2 + math.log(1 / found.delta)) / (2 * found.m)
    )
    factors = {"bits": float(bits), "errors": float(found.errors)}
    tail = replace(mask, name=f"{mask.name}, exact tail")
    rows += [
        mask.proves(hoeffding * _SLACK, f"{text}; Hoeffding", **factors),
        tail.proves(_tail(found, bits), text, **factors),
    ]
    if found.coded_bits is None:
        why = "no coder wrote the ticket; cushion compress --method supermask finds and writes one"
        rows.append(coded.abstains(why, "certificate"))
    else:
        extra = found.coded_bits - bits
        than = (
            f"{abs(extra)} {'more' if extra >= 0 else 'fewer'} than the mask alone, named by its "
            "number"
        )
        text = f"{found.coded_bits} bits written, {than}; architecture and grids included"
        factors = {"bits": float(found.coded_bits), "errors": float(found.errors)}
        rows.append(coded.proves(_tail(found, found.coded_bits), text, **factors))
    return rows


def printed_count(found: TicketFacts) -> float:
    """n_M d₀ ln²D_G + L n_M² ln²D_G: how many numbers Theorem 6.2 counts, up to a constant."""
    square = math.log(found.width) ** 2
    return found.target_width * (found.inputs + found.depth * found.target_width) * square


def mask_bits(weights: int, kept: int) -> int:
    """⌈log₂ C(N, k)⌉ + ⌈log₂(N + 1)⌉, erring upwards by at most one bit: k first, then which of the
    masks.

    >>> mask_bits(4, 2)  # 6 masks, 5 values of k
    6
    """
    size = weights.bit_length()  # of k in 0..N
    parts = (math.lgamma(weights + 1), -math.lgamma(kept + 1), -math.lgamma(weights - kept + 1))
    error = 16 * _EPS * math.fsum(map(abs, parts))
    return size + math.ceil(max(0.0, math.fsum(parts) + error) / _LN2)


def sufficient_width(dims: Sequence[int], epsilon: float, failure: float) -> int:
    """Theorem 6.1 with its constants: G of this width holds a ticket within ε of any such target on
    the unit ball.

    dims: inputs of the target and the widths of its layers, ‖A‖₂ ≤ 1 and |entries| ≤ 1/√inputs. It
    fails with probability at most `failure` over the weights of G. If every layer is off by at most
    η = (1 + ε)^(1/L) - 1 in spectral norm, the net is off by (1 + η)^L - 1 = ε; entries off by t do
    that for t = η/√(their number). A neuron of an input has the right sign and u·v within t of w
    with probability at least

        p = ½·½ ∫ ln(1/|z|) dz over [w - t, w + t] at the largest |w| = 1/√inputs,

    so a block of b neurons fails one weight with (1 - p)^b, and all weights together with at most
    their number times that.
    """
    if not (0 < epsilon < 1 and 0 < failure < 1):
        raise ValueError("ε and the failure probability lie strictly between 0 and 1")
    shapes = list(pairwise(dims))
    eta = math.expm1(math.log1p(epsilon) / len(shapes))
    choices = [
        (2 if at == 0 else 1) * inputs * outputs for at, (inputs, outputs) in enumerate(shapes)
    ]
    widest = max(dims[1:])
    for (inputs, _), count in zip(shapes, choices, strict=True):
        t, w = eta / math.sqrt(count), 1 / math.sqrt(inputs)
        p = (_mass(w + t) - _mass(w - t)) / 4
        block = math.ceil(math.log(sum(choices) / failure) / -math.log1p(-p) * _SLACK)
        widest = max(widest, inputs * block)
    return widest


def _mass(z: float) -> float:
    """∫ ln(1/|t|) dt from 0 to z, where the density ends at 1."""
    size = min(abs(z), 1.0)
    return math.copysign(size - size * math.log(size), z) if size > 0 else 0.0


def _tail(found: TicketFacts, bits: int) -> float:
    return binomial_inverse(found.errors, found.m, occam_log_delta(Decimal(str(found.delta)), bits))

"""Linear classifiers with margin: rates m^-1/3 and m^-1/2 (Arora 2018, Lemmas 6 and 8) exactly.

**Setting.** |c| ≤ 1, inputs |x| ≤ 1 with h coordinates, 0 < γ < 1. Before the sample S of m
examples is seen, γ, h, δ and m are fixed, and so is all that is computed from them here (η, k,
grids, ranges): it costs no bits. Both statements are: for the c that any training found on S, with
probability at least 1 - δ there is a code word whose vector ĉ has

    L(ĉ) ≤ L̂_γ(c) + ζ + √((bits·ln 2 + ln(1/δ'))/(2m)),    L̂_γ(c): fraction of S with margin ≤ γ,

where at most a fraction ζ of S has |⟨ĉ - c, x⟩| > γ (Corollary A.1: the others keep a label that
had a margin above γ), and the root is Occam's bound by Hoeffding's inequality for all code words of
that length at once, but for δ'. A rate here is all that is added to L̂_γ(c): ζ plus the root.

docs/compression-bounds.md ("Linear classifiers") derives the constants and the slopes.

All values err upwards. They are a theorem's, about no particular net; `certify` counts real bits
and real errors.
"""

from __future__ import annotations

import math
from typing import Literal

from cushion.records import Record, column

_UP = 1.0 + 1e-12  # covers the rounding of a dozen elementary functions
# grid points of η an octave: the minimum is flat, so a finer grid changes the bound by less than
# 1e-4 of it
_STEPS = 64
_OCTAVES = 60


class LinearRate(Record):
    """What is added to the margin loss L̂_γ, and its parts, of one vector algorithm at one m."""

    method: Literal["vector-compress", "vector-project"] = column("which algorithm")
    coordinates: int = column("h; Vector-Project's bound does not depend on it", label="h")
    m: int = column("examples")
    eta: float = column("how often an example may fail")
    numbers: int = column("stored")
    bits: int = column("stored")
    bound: float = column(
        "what is added to the margin loss, by theorem; above 1 nothing is said. Vector-Compress "
        "falls as m^-1/3 until it keeps all h coordinates, Vector-Project as m^-1/2"
    )


def bound_compress(m: int, gamma: float, coordinates: int, delta: float) -> LinearRate:
    """Lemma 6, explicit: the smallest bound over the grid of η."""
    _check(m, gamma, delta)
    if coordinates < 1:
        raise ValueError(f"a vector has at least 1 coordinate, not {coordinates}")
    etas = (2.0 ** (-j / _STEPS) for j in range(1, _OCTAVES * _STEPS))
    found = (_compressed(m, gamma, coordinates, delta, eta) for eta in etas)
    return min(found, key=lambda rate: rate.bound)


def bound_project(m: int, gamma: float, delta: float, coordinates: int = 0) -> LinearRate:
    """Lemma 8, explicit, at η = 1/m; whatever the number of coordinates."""
    _check(m, gamma, delta)
    k = project_numbers(gamma, 1.0 / m)
    longest = math.sqrt(2.0 * math.log(4.0 * k)) * _UP  # τ
    values = 2 * math.floor(longest / _power_of_two(gamma / 2.0) + 0.5) + 1
    strings = math.ceil(math.log(2.0 / delta) / math.log(4.0 / 3.0) * _UP)
    bits = (strings - 1).bit_length() + math.ceil(k * math.log2(values) * _UP)
    bound = _occam(m, 1.0 / m, bits, delta / 2.0)
    return LinearRate("vector-project", coordinates, m, 1.0 / m, k, bits, bound)


def nonzeros(gamma: float, eta: float, coordinates: int) -> int:
    """n: Vector-Compress on the grid keeps more than n of h numbers with probability ≤ 1/4."""
    mean, nats = 8.0 / (eta * gamma * gamma), math.log(4.0)
    most = mean + nats / 3.0 + math.sqrt(nats * nats / 9.0 + 2.0 * nats * mean)
    return coordinates if most >= coordinates else math.ceil(most * _UP)


def project_numbers(gamma: float, eta: float) -> int:
    """k = ⌈16 ln(4/η)/(γ²(1 - γ/3))⌉, as `compressors.projection.vectors` counts."""
    spread = gamma * gamma * (1.0 - gamma / 3.0)
    return math.ceil(16.0 * math.log(4.0 / eta) / spread * (1.0 + 1e-14))


def _compressed(m: int, gamma: float, h: int, delta: float, eta: float) -> LinearRate:
    n, root = nonzeros(gamma, eta, h), math.sqrt(h)
    longest = max(1.0, eta * gamma * root / 2.0) * _UP
    steps = math.floor(longest / _power_of_two(gamma / (2.0 * root)) + 0.5)
    positions = math.ceil(_log2_choose(h, min(n, h // 2)))  # C(h, j) is largest at j = ⌊h/2⌋
    bits = n.bit_length() + positions + math.ceil(n * math.log2(2 * steps) * _UP)
    return LinearRate("vector-compress", h, m, eta, n, bits, _occam(m, eta, bits, delta))


def _log2_choose(n: int, k: int) -> float:
    """At least log2 C(n, k); by C(n, k) ≤ 2^(n·H(k/n)) where lgamma would lose digits."""
    if k == 0 or k == n:
        return 0.0
    if n < 1 << 40:
        parts = (math.lgamma(n + 1), -math.lgamma(k + 1), -math.lgamma(n - k + 1))
        return (math.fsum(parts) + 8 * 2.0**-52 * sum(map(abs, parts))) / math.log(2.0) * _UP
    return (k * math.log2(n / k) - (n - k) * math.log1p(-k / n) / math.log(2.0)) * _UP


def _occam(m: int, failing: float, bits: int, delta: float) -> float:
    return (failing + math.sqrt((bits * math.log(2.0) + math.log(1.0 / delta)) / (2.0 * m))) * _UP


def _power_of_two(step: float) -> float:
    """The largest that is not above `step`."""
    return math.ldexp(1.0, math.frexp(step)[1] - 1)


def _check(m: int, gamma: float, delta: float) -> None:
    if m < 1 or not 0.0 < gamma < 1.0 or not 0.0 < delta < 1.0:
        given = f"{m}, {gamma:g} and {delta:g}"
        raise ValueError(f"the rates need m ≥ 1 and γ and δ strictly between 0 and 1, not {given}")

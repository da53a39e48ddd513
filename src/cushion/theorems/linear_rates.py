"""Linear classifiers with margin: the rates m^-1/3 and m^-1/2 of Arora 2018 (Lemmas 6 and 8) with
every constant.

**Setting.** |c| ≤ 1, inputs |x| ≤ 1 with h coordinates, 0 < γ < 1. Before the sample S of m
examples is seen, γ, h, δ and m are fixed, and so is all that is computed from them here (η, k,
grids, ranges): it costs no bits. Both statements are: for the c that any training found on S, with
probability at least 1 - δ there is a code word whose vector ĉ has

    L(ĉ) ≤ L̂_γ(c) + ζ + √((bits·ln 2 + ln(1/δ'))/(2m)),    L̂_γ(c): fraction of S with margin ≤ γ,

where at most a fraction ζ of S has |⟨ĉ - c, x⟩| > γ (Corollary A.1: the others keep a label that
had a margin above γ), and the root is Occam's bound by Hoeffding's inequality for all code words of
that length at once, but for δ'. A rate here is all that is added to L̂_γ(c): ζ plus the root.

**Vector-Compress**, Lemma 5 as corrected in `compressors.arora.vectors`. Its coins are the
encoder's own and leave no trace in the code, so that one good outcome is enough:
1. For each x the failure is at most η/2 (Chebyshev), so the failing fraction F has E F ≤ η/2 and,
  by Markov,
   P[F > η] ≤ 1/2.
2. The number of non-zeros is a sum of independent coins with mean at most M = 8/(ηγ²). By
  Bernstein's inequality it
   exceeds n = M + s, s = L/3 + √(L²/9 + 2LM), L = ln 4, with probability at most 1/4. It never
   exceeds h.
3. So an outcome has F ≤ η and at most n non-zeros with probability at least 1/4: one exists for
  every S and c, and
   drawing until it comes takes at most 4 draws on average. ζ = η, δ' = δ.
4. Bits: how many non-zeros, ⌈log2(n + 1)⌉; where, ⌈log2 C(h, j)⌉ for the worst j ≤ n; their values,
  ⌈n·log2(2a)⌉,
   where a non-zero multiple of the step 2^⌊log2(γ/(2√h))⌋ is at most a = ⌊max(1, ηγ√h/2)/step + ½⌋
   steps long.
5. Any η may be taken; the best of a fixed grid is. With b bits a non-zero, η + √(4b ln 2/(ηγ²m)) is
  smallest at
   η = (b ln 2/(γ²m))^(1/3), where it is 3η. The rate is m^-1/3 times b^1/3, and b ≈ log2(h/n) +
   log2(values) falls as n grows: hence slopes a little below -1/3. Once n reaches h a smaller η
   costs nothing more, and the slope becomes -1/2: for a fixed h, m^-1/3 is the regime 1/γ² ≪ m ≪
   γ⁴h³.

**Vector-Project** with η = 1/m; the v_t are a helper string, drawn apart from S, which the code
word only names:
1. k = ⌈16 ln(4m)/(γ²(1 - γ/3))⌉ numbers, rounded to the step 2^⌊log2(γ/2)⌋: each x fails with
  probability at most 1/m.
   The number of failing examples has a mean of at most 1, so by Markov two or more fail with
   probability at most 1/2.
2. |z_t| > τ = √(2 ln(4k)) has probability at most exp(-τ²/2) = 1/(4k); for any of the k: at most
  1/4.
3. A helper string is good with probability at least 1/4: at most one example fails, all numbers are
  within τ. One of G
   helper strings is good but for (3/4)^G ≤ δ/2, G = ⌈ln(2/δ)/ln(4/3)⌉; naming it takes ⌈log2 G⌉
   bits. ζ = 1/m, δ' = δ/2
4. Bits: ⌈log2 G⌉ + ⌈k·log2(2⌊τ/step + ½⌋ + 1)⌉. There are no positions, and h does not occur.
5. The rate is √(k·b ln 2/(2m)) ∝ √(ln(4m)/m): the logarithm adds 1/(2 ln(4m)) to the slope of -1/2.

All values err upwards. They are a theorem's, about no particular net; `certify` counts real bits
and real errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_UP = 1.0 + 1e-12  # covers the rounding of a dozen elementary functions
# grid points of η an octave: the minimum is flat, so a finer grid changes the bound by less than
# 1e-4 of it
_STEPS = 64
_OCTAVES = 60


@dataclass(frozen=True)
class LinearRate:
    """What is added to the margin loss L̂_γ, and its parts; `bound` ≥ 1 says nothing."""

    method: Literal["vector-compress", "vector-project"]
    m: int
    gamma: float
    delta: float
    eta: float  # the fraction of the sample that may fail
    numbers: int  # stored: non-zeros at most, or k
    bits: int
    bound: float


def bound_compress(m: int, gamma: float, coordinates: int, delta: float) -> LinearRate:
    """Lemma 6, explicit: the smallest bound over the grid of η."""
    _check(m, gamma, delta)
    if coordinates < 1:
        raise ValueError(f"a vector has at least 1 coordinate, not {coordinates}")
    found = (
        _compressed(m, gamma, coordinates, delta, 2.0 ** (-j / _STEPS))
        for j in range(1, _OCTAVES * _STEPS)
    )
    return min(found, key=lambda rate: rate.bound)


def bound_project(m: int, gamma: float, delta: float) -> LinearRate:
    """Lemma 8, explicit, at η = 1/m."""
    _check(m, gamma, delta)
    k = project_numbers(gamma, 1.0 / m)
    longest = math.sqrt(2.0 * math.log(4.0 * k)) * _UP  # τ
    values = 2 * math.floor(longest / _power_of_two(gamma / 2.0) + 0.5) + 1
    strings = math.ceil(math.log(2.0 / delta) / math.log(4.0 / 3.0) * _UP)
    bits = (strings - 1).bit_length() + math.ceil(k * math.log2(values) * _UP)
    return LinearRate(
        "vector-project", m, gamma, delta, 1.0 / m, k, bits, _occam(m, 1.0 / m, bits, delta / 2.0)
    )


def nonzeros(gamma: float, eta: float, coordinates: int) -> int:
    """n: Vector-Compress on the grid keeps more than n of h numbers with probability ≤ 1/4."""
    mean, nats = 8.0 / (eta * gamma * gamma), math.log(4.0)
    most = mean + nats / 3.0 + math.sqrt(nats * nats / 9.0 + 2.0 * nats * mean)
    return coordinates if most >= coordinates else math.ceil(most * _UP)


def project_numbers(gamma: float, eta: float) -> int:
    """k = ⌈16 ln(4/η)/(γ²(1 - γ/3))⌉, as `compressors.arora.vectors.vector_project_k` counts."""
    return math.ceil(
        16.0 * math.log(4.0 / eta) / (gamma * gamma * (1.0 - gamma / 3.0)) * (1.0 + 1e-14)
    )


def slope(rates: Sequence[LinearRate]) -> float:
    """The exponent a of the least-squares fit bound ∝ m^a: of ln bound against ln m."""
    if len({rate.m for rate in rates}) < 2:
        raise ValueError("a slope needs bounds at two values of m at least")
    xs, ys = [math.log(rate.m) for rate in rates], [math.log(rate.bound) for rate in rates]
    x, y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    return math.fsum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / math.fsum(
        (a - x) ** 2 for a in xs
    )


def _compressed(m: int, gamma: float, h: int, delta: float, eta: float) -> LinearRate:
    n = nonzeros(gamma, eta, h)
    root = math.sqrt(h)
    steps = math.floor(
        max(1.0, eta * gamma * root / 2.0) * _UP / _power_of_two(gamma / (2.0 * root)) + 0.5
    )
    positions = math.ceil(_log2_choose(h, min(n, h // 2)))  # C(h, j) is largest at j = ⌊h/2⌋
    bits = n.bit_length() + positions + math.ceil(n * math.log2(2 * steps) * _UP)
    return LinearRate("vector-compress", m, gamma, delta, eta, n, bits, _occam(m, eta, bits, delta))


def _log2_choose(n: int, k: int) -> float:
    """At least log2 C(n, k): exactly, but for rounding, or by C(n, k) ≤ 2^(n·H(k/n)) where lgamma
    would lose digits.
    """
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
        raise ValueError(
            f"the rates need m ≥ 1 and γ and δ strictly between 0 and 1, not {m}, {gamma:g} and "
            f"{delta:g}"
        )

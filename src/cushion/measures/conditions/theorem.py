"""Theorem 1 of Neyshabur 2017: its right-hand side with 1 for O(.), smallest over σ. A measure.

Everything is kept as logarithms: with a C2 of a few thousand the products pass any float after some
layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cushion.measures.conditions.records import DeltaRange, TheoremOne, Version

LIPSCHITZ = math.sqrt(2)  # |∂ cross-entropy/∂ scores| = ‖softmax - one-hot‖ <= √2
SIGMAS = 10.0 ** (np.arange(-300, 101) / 10)  # ten a decade

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Premises:
    """What the theorem is fed with.

    units: h_0..h_d. frobenius: ‖W_i‖_F of the true maps. mu: at most 1. mean_output: the mean of
    ‖f(x)‖/‖x‖ (NaN: no x ≠ 0).
    """

    units: tuple[int, ...]
    frobenius: tuple[float, ...]
    mu: float
    c2: float
    c3: float
    mean_output: float
    m: int
    delta: float

    def failure(self) -> str:
        """Why the right-hand side is infinite whatever σ is; "" if it is not."""
        if self.mu == 0:
            return "μ is 0: some product of layers vanishes although its factors do not"
        if not math.isfinite(self.c2):
            return "C2 is infinite: a pre-activation is exactly 0"
        if not math.isfinite(self.c3):
            return "C3 is infinite: a layer is switched off on an example"
        return "" if math.isfinite(self.mean_output) else "no example has x ≠ 0"


@dataclass(frozen=True)
class Terms:
    """ln at every σ: of the two summands, and of the three products ∏(1+γ) - 1, ∏(1+γ C2 C3) and
    ∏(1+γ C_δ C2) - 1 (none if simplified).
    """

    sharpness: Vector
    complexity: Vector
    products: tuple[Vector, ...] = ()

    @property
    def total(self) -> Vector:
        return np.logaddexp(self.sharpness, self.complexity)


def deviation_constants(premises: Premises, version: Version) -> Vector:
    """C_{δ_i}, δ_i = δ/d, [d]; as printed 0 for a layer of one unit, whose γ_i is then infinite."""
    h = np.array(premises.units[1:], dtype=np.float64)
    each = premises.delta / len(h)
    if version == "corrected":
        return np.asarray(np.sqrt(2 * np.log(2 * h * premises.m / each)))
    return np.asarray((1 + each) * np.sqrt(2 * np.log(h)))


def evaluate(premises: Premises, version: Version, sigmas: Vector) -> Terms:
    """All terms of one version at each σ: [len(sigmas)] each. C_δ > 0 unless simplified."""
    depth, m, c2, c3 = len(premises.frobenius), premises.m, premises.c2, premises.c3
    h = np.array(premises.units, dtype=np.float64)
    pairs = h[1:] * h[:-1]
    # outputs that are all 0 have no sharpness, and without ReLUs C2 = 0: ln 0 = -∞
    with np.errstate(divide="ignore"):
        scale, log_c2 = np.log(LIPSCHITZ * premises.mean_output), np.log(c2)
    if version == "simplified":
        sharpness = np.log(sigmas) + np.logaddexp(0, np.log1p(sigmas * (c2 * c3)) + log_c2) + scale
        divergence = np.log(depth**2 * pairs.sum()) - 2 * np.log(sigmas) - 4 * math.log(premises.mu)
        return Terms(sharpness, _root(divergence, math.log(1 / premises.delta), m))
    c_delta = deviation_constants(premises, version)
    gammas = sigmas[:, None] / (c_delta * depth)  # [σ, d]
    linear = _log_minus_one(np.log1p(gammas).sum(1))
    growth = np.log1p(gammas * (c2 * c3)).sum(1)
    flips = _log_minus_one(np.log1p(gammas * c_delta * c2).sum(1))
    # Σ ‖W_i‖_F²/σ_i² with σ_i = γ_i μ² ‖W_i‖_F/√(h_i h_{i-1}): the weights cancel.
    squares = np.logaddexp.reduce(np.log(pairs) - 2 * np.log(gammas), axis=1)
    divergence = squares - 4 * math.log(premises.mu)
    confidence = math.log(1 / premises.delta)
    if version == "corrected":
        divergence, m = divergence - math.log(2), 2 * m
        confidence = math.log(2 * math.sqrt(premises.m) / premises.delta)
    complexity = _root(divergence, confidence, m)
    return Terms(np.logaddexp(linear, growth + flips) + scale, complexity, (linear, growth, flips))


def minimise(premises: Premises, version: Version, delta_range: DeltaRange) -> TheoremOne:
    """The record at the best σ of the grid; infinite, with the reason, if a condition fails."""
    because = premises.failure()
    c_delta = deviation_constants(premises, version)
    if not because and version != "simplified" and not c_delta.all():
        because = "C_δ is 0 for a layer of one unit, where ln h = 0, and γ = σ/(C_δ d) is infinite"
    record = TheoremOne(
        version=version,
        delta_range=delta_range,
        m=premises.m,
        delta=premises.delta,
        mu=premises.mu,
        c2=premises.c2,
        c3=premises.c3,
        lipschitz=LIPSCHITZ,
        mean_output=premises.mean_output,
        finite=not because,
        because=because,
    )
    if because:
        return record
    terms = evaluate(premises, version, SIGMAS)
    at = int(np.argmin(terms.total))
    with np.errstate(divide="ignore"):
        gammas = SIGMAS[at] / (c_delta * len(premises.frobenius))
    h = premises.units
    layers = zip(gammas, premises.frobenius, h[:-1], h[1:], strict=True)
    found: dict[str, float] = {}
    for name in ("sharpness", "complexity", "total"):
        log = getattr(terms, name)[at]
        found |= {name: math.exp(log) if log < 709 else math.inf, f"log10_{name}": _log10(log)}
    for name, product in zip(("linear", "growth", "flips"), terms.products, strict=False):
        found[f"log10_{name}"] = _log10(product[at])
    sigmas = tuple(
        float(gamma * premises.mu**2 * norm / math.sqrt(before * after))
        for gamma, norm, before, after in layers
    )
    return replace(record, sigma=float(SIGMAS[at]), layer_sigmas=sigmas, **found)  # type: ignore[arg-type]


def _log_minus_one(log: Vector) -> Vector:
    """ln(e^log - 1) without overflow for large logarithms or cancellation for small ones."""
    with np.errstate(divide="ignore"):
        return np.where(log > 30, log, np.log(np.expm1(np.minimum(log, 30))))


def _root(log_divergence: Vector, confidence: float, m: int) -> Vector:
    """ln √((e^log_divergence + confidence)/m), confidence > 0."""
    return np.asarray((np.logaddexp(log_divergence, math.log(confidence)) - math.log(m)) / 2)


def _log10(log: float) -> float:
    return float(log / math.log(10))

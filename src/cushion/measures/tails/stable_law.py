"""Stable laws of scale 1 and location 0 in Nolan's S0: density, distribution function, samples.

The characteristic function is that of Shin 2021, footnote 3, with c = 1 and δ = 0 (at α = 1 the
paper writes γ for c):

    E exp(iuX) = exp(-|u|^α [1 + iβ tan(πα/2) sign(u) (|u|^(1-α) - 1)]),  α ≠ 1
    E exp(iuX) = exp(-|u| [1 + iβ (2/π) sign(u) ln|u|]),                  α = 1

It is continuous in α, also at 1. α = 2 is N(0, 2), α = 1 with β = 0 the Cauchy law, α = 1/2 with β
= 1 Lévy's from -1 on.

For |x| ≤ 64 the density is the inverse Fourier transform on a grid of step h. By Poisson's
summation this is exactly the sum of f(x + kP), P = 2π/h, over all integers k. The terms k ≠ 0 lie
in the tails and are taken off. For |x| > 64 the path of integration is turned onto the negative
imaginary axis, where exp(-iux) is exp(-vx) and does not oscillate: f(x) = (1/π) Im ∫ exp(-vx)
(φ(-iv) - 1) dv up to exp(-48). Its expansion in v is the power-law series of the tail; the integral
also holds at α = 1, where the series breaks down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebval, chebvander
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from cushion.errors import BadInput

Floats = NDArray[np.float64]

SMALLEST_ALPHA = 0.4  # below it the transform needs more than 10^6 points
_EDGE = 64.0  # of the body; beyond it the turned path has decayed long before φ grows on it
_PERIOD = 256.0
# Rounding leaves errors of about 1e-16 in the body. The light tail of a one-sided law falls below
# them: a density is at least this in the body, and this times (|x|/64)^-(1+α) beyond it, so that it
# has a logarithm.
_FLOOR = 1e-15

# Double-exponential rule for ∫_0^∞ g(y) dy, g decaying like exp(-y): y = exp(s - exp(-s)), equal
# steps of s.
_S = np.arange(-3.9, 4.0, 0.085)
_Y = np.exp(_S - np.exp(-_S))
_WEIGHT = 0.085 * _Y * (1 + np.exp(-_S))
# Σ_{k≥1} exp(-v(kP ± x)) at 16 Chebyshev places x of the body, and from values there to the
# polynomial through them.
_PLACES = np.cos(math.pi * (np.arange(16) + 0.5) / 16)
_ALIAS_KERNELS = [
    np.exp(-np.outer(_PERIOD + side * _EDGE * _PLACES, _Y / _PERIOD))
    / -np.expm1(-_Y)
    / (math.pi * _PERIOD)
    for side in (1, -1)
]
_CHEBYSHEV = np.linalg.inv(chebvander(_PLACES, 15))


class StableLaw:
    """One standard law, tabulated: ln of the density, its slope, and the distribution function.

    The density is off by at most 1e-9, and by at most a 10^-6 of itself where it is above 1e-3 or
    |x| > 64 (a 10^-8 for alpha ≥ 0.9 and |beta| < 1, anywhere). The distribution function is off by
    at most 1e-8.
    """

    def __init__(self, alpha: float, beta: float = 0.0) -> None:
        if not (SMALLEST_ALPHA <= alpha <= 2.0 and -1.0 <= beta <= 1.0):
            wanted = f"alpha in [{SMALLEST_ALPHA}, 2] and beta in [-1, 1]"
            raise BadInput(f"a stable law has {wanted}, not {alpha}, {beta}")
        self.alpha, self.beta = float(alpha), float(beta)
        self._cdf: CubicSpline | None = None
        if alpha == 2.0:
            return
        self._knots, self._density = self._body()
        self._log_body = CubicSpline(self._knots, np.log(np.maximum(self._density, _FLOOR)))
        # where the tail's first term is all but alone: the next is smaller by |x|^-α or |x|^-1
        self._far = math.log(_EDGE) + math.log(1e8) / min(1.0, self.alpha)
        self._tails = self._both_tails(1)

    def log_density(self, x: ArrayLike) -> Floats:
        """ln f(x), elementwise."""
        x = np.asarray(x, dtype=np.float64)
        if self.alpha == 2.0:
            return -np.square(x / 2) - math.log(2 * math.sqrt(math.pi))

        def beyond(side: int, logs: Floats, near: Floats) -> Floats:
            return np.asarray(self._tails[side](near) - (1 + self.alpha) * (logs - near))

        return self._pieced(x, self._log_body(x[np.abs(x) <= _EDGE]), beyond)

    def slope(self, x: ArrayLike) -> Floats:
        """d ln f(x)/dx, elementwise."""
        x = np.asarray(x, dtype=np.float64)
        if self.alpha == 2.0:
            return -x / 2

        def beyond(side: int, logs: Floats, near: Floats) -> Floats:
            return np.where(logs < self._far, self._tails[side](near, 1), -1 - self.alpha)

        slopes = self._pieced(x, self._log_body(x[np.abs(x) <= _EDGE], 1), beyond)
        return np.asarray(np.divide(slopes, x, out=slopes, where=np.abs(x) > _EDGE))

    def cdf(self, x: ArrayLike) -> Floats:
        """P(X ≤ x), elementwise."""
        x = np.asarray(x, dtype=np.float64)
        if self.alpha == 2.0:
            return np.asarray(ndtr(x / math.sqrt(2.0)))
        if self._cdf is None:
            self._beyond = self._both_tails(0)
            self._cdf = CubicSpline(self._knots, self._density).antiderivative()
        lowest = math.exp(float(self._beyond[-1](math.log(_EDGE))))

        def beyond(side: int, logs: Floats, near: Floats) -> Floats:
            share = np.exp(self._beyond[side](near) - self.alpha * (logs - near))
            return np.asarray(share if side < 0 else 1 - share)

        body = np.clip(lowest + self._cdf(x[np.abs(x) <= _EDGE]), 0.0, 1.0)
        return self._pieced(x, body, beyond)

    def _pieced(
        self, x: Floats, body: Floats, beyond: Callable[[int, Floats, Floats], Floats]
    ) -> Floats:
        """`body` where |x| ≤ 64, and elsewhere beyond(side, ln|x|, and that up to the far end)."""
        result = np.empty_like(x)
        result[np.abs(x) <= _EDGE] = body
        for side in (-1, 1):
            there = side * x > _EDGE
            logs = np.log(np.abs(x[there]))
            result[there] = beyond(side, logs, np.minimum(logs, self._far))
        return result

    def _body(self) -> tuple[Floats, Floats]:
        """Knots in [-64, 64], closer where the density bends more, and the density there."""
        # √(f/|f''|) at 0, β = 0
        bend = math.exp(0.5 * (math.lgamma(1 / self.alpha) - math.lgamma(3 / self.alpha)))
        # of the finest knots; a power, so that near α share it
        apart = 0.5 ** max(6, math.ceil(math.log2(32 / bend)))
        # |φ| is below e^-40 beyond them
        terms = int(40.0 ** (1 / self.alpha) * _PERIOD / (2 * math.pi)) + 1
        # so that the transform holds the terms
        every = 2 ** max(0, math.ceil(math.log2(2 * terms * apart / _PERIOD)))
        logs = np.log(np.arange(1, terms + 1) * (2 * math.pi / _PERIOD))
        spectrum = np.empty(terms + 1, dtype=np.complex128)
        spectrum[0] = 1.0
        spectrum[1:] = np.exp(-np.exp(self.alpha * logs))
        if self.beta:
            growth = _expm1_ratio(self.alpha - 1, logs)
            spectrum[1:] *= np.exp(-1j * self._drift * np.exp(logs) * growth)
        folded = irfft(spectrum, round(_PERIOD / apart) * every) * (every / apart)
        index = _knots(apart)
        x = np.multiply(index, apart, dtype=np.float64)
        return x, folded[index * every] - self._aliases(x)

    def _aliases(self, x: Floats) -> Floats:
        """Σ f(x + kP) over all k ≠ 0, geometric under the integral. Smooth: 16 places tell all."""
        both = zip(_ALIAS_KERNELS, (1, -1), strict=True)
        total = sum(kernel @ (self._turned(_Y / _PERIOD, side) * _WEIGHT) for kernel, side in both)
        return np.asarray(chebval(x / _EDGE, _CHEBYSHEV @ total))

    def _both_tails(self, power: int) -> dict[int, CubicSpline]:
        upper = self._log_tail(1, power)
        return {1: upper, -1: self._log_tail(-1, power) if self.beta else upper}

    def _log_tail(self, side: int, power: int) -> CubicSpline:
        """ln f (power 1) or ln P(beyond) (power 0) at ±exp(t), for t in [ln 64, far]."""
        logs = math.log(_EDGE) + (self._far - math.log(_EDGE)) * np.linspace(0, 1, 48) ** 2
        x = np.exp(logs)
        decaying = np.exp(-_Y) * _WEIGHT * _Y ** (power - 1)
        found = self._turned(_Y / x[:, None], side) @ decaying / math.pi / x**power
        least = _FLOOR * (x / _EDGE) ** (-self.alpha - power)
        return CubicSpline(logs, np.log(np.maximum(found, least)))

    def _turned(self, v: Floats, side: int) -> Floats:
        """Im φ(-iv) of X (side 1) or -X; 0 beyond v = 0.75, where exp(-vx) has long decayed.

        φ(-iv) = exp(p + iq) with q = (1 ± β) v^α sin(πα/2) without cancellation: the tail of a
        one-sided law is 0.
        """
        away, logs = self.alpha - 1, np.log(v)
        phase = (1 + side * self.beta) * math.sin(math.pi * (2 - self.alpha) / 2)
        growth = math.cos(math.pi * away / 2) * _expm1_ratio(away, logs)
        if away:
            growth = growth - 2 * math.sin(math.pi * away / 4) ** 2 / away
        power = np.exp(self.alpha * logs)
        log_size = -math.cos(math.pi * self.alpha / 2) * power + side * self._drift * v * growth
        return np.where(v < 0.75, np.exp(log_size) * np.sin(phase * power), 0.0)

    @property
    def _drift(self) -> float:
        """β(α-1)tan(πα/2), continuous at α = 1."""
        away = self.alpha - 1
        return self.beta * (-2 / math.pi if away == 0 else -away / math.tan(math.pi * away / 2))


def density(x: ArrayLike, alpha: float, beta: float = 0.0) -> Floats:
    """f(x) of the standard stable law S0(alpha, beta), elementwise; accuracy as of `StableLaw`."""
    return np.exp(StableLaw(alpha, beta).log_density(x))


def sample_stable(n: int, alpha: float, beta: float, rng: np.random.Generator) -> Floats:
    """n independent numbers of S0(alpha, beta), by Chambers, Mallows and Stuck (1976).

    Their formula is for S1 and is moved by β tan(πα/2). Within 1e-8 of α = 1 that would leave no
    digits, and α = 1 is taken instead: the laws differ by less than 1e-7.
    """
    if not (0.0 < alpha <= 2.0 and -1.0 <= beta <= 1.0):
        raise BadInput(f"a stable law has alpha in (0, 2], beta in [-1, 1], not {alpha}, {beta}")
    angle = rng.uniform(-math.pi / 2, math.pi / 2, n)
    wait = rng.exponential(size=n)
    if abs(alpha - 1) < 1e-8:
        turned = math.pi / 2 + beta * angle
        skew = np.log(math.pi / 2 * wait * np.cos(angle) / turned)
        return np.asarray((turned * np.tan(angle) - beta * skew) * (2 / math.pi))
    shift = beta * math.tan(math.pi * alpha / 2)
    start = math.atan(shift)
    size = np.sin(alpha * angle + start) / (math.cos(start) * np.cos(angle)) ** (1 / alpha)
    turned = np.cos(start + (alpha - 1) * angle) / wait
    return np.asarray(size * turned ** ((1 - alpha) / alpha) - shift)


def _expm1_ratio(factor: float, logs: Floats) -> Floats:
    """(exp(factor·logs) - 1)/factor, which is logs at 0."""
    return logs if factor == 0 else np.expm1(factor * logs) / factor


@lru_cache
def _knots(apart: float) -> NDArray[np.int64]:
    """Knots in [-64, 64] in units of `apart`: all up to 4, then apart by a 128th of |x|."""
    outer = np.geomspace(4.0, _EDGE, int(128 * math.log(_EDGE / 4)))
    places = np.concatenate([np.arange(0.0, 4.0, apart), outer])
    half = np.unique(np.round(places / apart).astype(np.int64))
    return np.concatenate([-half[:0:-1], half])

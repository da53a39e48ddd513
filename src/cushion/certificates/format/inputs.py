"""How examples become small whole numbers: a shift of bytes, a quantiser of floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput, Malformed

MOST_EXPONENT = 128
MOST_OFFSET = 2**24
MOST_WIDTH = 12


@dataclass(frozen=True)
class Bytes:
    """uint8 inputs, shifted right by `shift` (0 to 7)."""

    shift: int

    @property
    def largest(self) -> int:
        return 255 >> self.shift

    def check(self, features: int) -> None:  # noqa: ARG002
        if not 0 <= self.shift <= 7:
            raise Malformed(f"an input shift of {self.shift} must lie between 0 and 7")

    def fault(self, x: NDArray[Any]) -> str:
        return "" if x.dtype == np.uint8 else f"the net reads uint8 inputs, not {x.dtype}"

    def read(self, x: NDArray[Any], floats: type[np.floating[Any]]) -> NDArray[Any]:
        """x: [n, features] -> the same as whole numbers in a float type that holds them exactly."""
        values: NDArray[Any] = (x >> self.shift).astype(floats)
        return values


@dataclass(frozen=True)
class Floats:
    """float32: feature f becomes ⌊x·2^exponents[f]⌋ - offsets[f], clipped to 0..2^width - 1; NaN 0.

    One exponent and offset serve all features, or each feature has its own. Exact: a power of two
    only moves the exponent of a float32 held in float64, and the floor of a float64 is a float64.
    """

    width: int
    exponents: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def largest(self) -> int:
        return (1 << self.width) - 1

    def check(self, features: int) -> None:
        if not 1 <= self.width <= MOST_WIDTH:
            raise Malformed(f"quantised inputs have 1 to {MOST_WIDTH} bits, not {self.width}")
        if len(self.exponents) != len(self.offsets) or len(self.exponents) not in (1, features):
            raise Malformed("a quantiser has one exponent and offset, or one for every feature")
        exponent, offset = (max(map(abs, part)) for part in (self.exponents, self.offsets))
        if exponent > MOST_EXPONENT or offset > MOST_OFFSET:
            raise Malformed("a quantiser's exponent or offset is beyond the format's limits")

    def fault(self, x: NDArray[Any]) -> str:
        return "" if x.dtype == np.float32 else f"the net reads float32 inputs, not {x.dtype}"

    def read(self, x: NDArray[Any], floats: type[np.floating[Any]]) -> NDArray[Any]:
        """x: [n, features] -> quantised, in a float type that holds them exactly."""
        scaled = np.floor(np.ldexp(x.astype(np.float64), np.array(self.exponents, dtype=np.intc)))
        # Clipping before the subtraction keeps infinities out of it; the window is exact in
        # float64.
        low = np.array(self.offsets, dtype=np.float64)
        known = np.nan_to_num(scaled, nan=-math.inf)
        values: NDArray[Any] = np.clip(known, low, low + self.largest) - low
        return values.astype(floats)


Input = Bytes | Floats


def fit_floats(x: NDArray[np.float32], width: int = 6, *, alike: bool = False) -> Floats:
    """For [n, features] floats: each feature's range, less 1 % on either side, fills the window.

    One window serves all features, and is paid once, if they are alike (pixels), or if each still
    gets an eighth of its levels in it. It looks at the sample, which is allowed because what it
    chooses is coded and paid.
    """
    if not len(x):
        raise BadInput("an input quantiser cannot be fitted to an empty set")
    finite = np.where(np.isfinite(x), x, np.nan).astype(np.float64)
    ranges = [_range(column[~np.isnan(column)]) for column in finite.T]
    windows = [_window(low, high, width) for low, high in ranges]
    shared = _window(min(low for low, _ in ranges), max(high for _, high in ranges), width)
    pairs = zip(windows, ranges, strict=True)
    finest = max((own for (own, _), (low, high) in pairs if high > low), default=0)
    if alike or finest - shared[0] <= 2:
        windows = [shared]
    exponents, offsets = zip(*windows, strict=True)
    return Floats(width, exponents, offsets)


def _range(known: NDArray[np.float64]) -> tuple[float, float]:
    """Where a feature's values lie, but for 1 % on either side if the others vary."""
    if not len(known):
        return 0.0, 1.0
    low, high = np.quantile(known, [0.01, 0.99])
    if high <= low:
        low, high = known.min(), known.max()
    return float(low), float(high)


def _window(low: float, high: float, width: int) -> tuple[int, int]:
    """Exponent and offset by which low..high fills at least half of 2^width levels."""
    spread = max(high - low, 2.0**-100)  # a constant is split at its one value
    exponent = max(-MOST_EXPONENT, min(MOST_EXPONENT, math.floor(math.log2(2**width / spread))))
    while math.floor(math.ldexp(abs(low), exponent)) >= MOST_OFFSET:
        exponent -= 1
    return exponent, math.floor(math.ldexp(low, exponent))

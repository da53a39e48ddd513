"""The spread of values that may differ by rounding alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.measures.distribution import describe
from cushion.records import Distribution

_ROUNDING = 1e-12  # relative; what a few hundred float64 operations leave


def describe_largest(values: NDArray[Any]) -> Distribution | None:
    """`describe(values, "max")`, where finite values within rounding of each other count as their largest.

    A layer without a ReLU has the same norms on every example up to the last bits, and no bins are that narrow.

    >>> describe_largest(np.array([1.0, 1.0 + 2**-52])).count
    2
    """
    finite = np.isfinite(values)
    if finite.any():
        low, high = values[finite].min(), values[finite].max()
        if high - low <= _ROUNDING * max(abs(low), abs(high)):
            values = np.where(finite, high, values)
    return describe(values, "max")

"""The numbers of Guha 2023, Tables 1 and 2 (natural logarithms of bounds), and the constant that
explains them.

The paper does not say which logarithm its tables take. The text says that Bartlett's bound is at
least 10³ and 10⁷ times the paper's own, and e^7.3 and e^17.7 are the differences in the tables;
powers of ten would make them 10⁷ and 10¹⁷. So they are natural.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

NEYSHABUR_2015, NEYSHABUR_2017, BARTLETT_2017 = "Neyshabur 2015", "Neyshabur 2017", "Bartlett 2017"
RIVALS = (NEYSHABUR_2015, NEYSHABUR_2017, BARTLETT_2017)
OURS, TRUE_ERROR = "Ours", "True error"
METHODS = (*RIVALS, OURS, TRUE_ERROR)
WIDTHS = (500, 784, 1000, 1500, 2000, 2500)
MNIST_EXAMPLES, CIFAR10_EXAMPLES = 60_000, 50_000
_DEPTH = 5
_CLASSES = 10

TABLE_1: dict[str, dict[int, float]] = {
    method: dict(zip(WIDTHS, values, strict=True))
    for method, values in {
        NEYSHABUR_2015: (22.29, 23.56, 24.42, 25.12, 27.03, 27.72),
        NEYSHABUR_2017: (17.91, 18.34, 18.70, 18.81, 21.50, 21.57),
        BARTLETT_2017: (11.51, 11.68, 11.87, 11.70, 13.96, 13.81),
        OURS: (3.36, 3.77, 4.00, 4.40, 4.73, 4.96),
        TRUE_ERROR: (-3.76, -3.84, -3.80, -3.85, -3.86, -3.87),
    }.items()
}
TABLE_2: dict[str, float] = {
    NEYSHABUR_2015: 33.19,
    NEYSHABUR_2017: 30.10,
    BARTLETT_2017: 22.40,
    OURS: 4.68,
    TRUE_ERROR: -2.41,
}
EXPLAINS = 0.33  # λχ·ln(1/ρ), the same for every width of Table 1


def mlp_shapes(inputs: int, width: int) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of the paper's five layers."""
    sizes = (inputs, *(width for _ in range(_DEPTH - 1)), _CLASSES)
    return tuple(pairwise(sizes))


def sketch_numbers(shapes: Sequence[tuple[int, int]]) -> float:
    """Σ 3 d₁ d₂ ln²(p) of Theorem 5.2, p the larger side: its numbers, but for λχ."""
    return math.fsum(3.0 * a * b * math.log(max(a, b)) ** 2 for a, b in shapes)


def implied_constant(log_bound: float, shapes: Sequence[tuple[int, int]], n: int) -> float:
    """The λχ·ln(1/ρ) with which √(λχ·ln(1/ρ)·Σ 3 d₁ d₂ ln²(p) / n) is e^log_bound.

    >>> round(implied_constant(3.36, mlp_shapes(784, 500), 60_000), 3)
    0.356
    """
    return math.exp(2.0 * log_bound) * n / sketch_numbers(shapes)


def explained(shapes: Sequence[tuple[int, int]], n: int, constant: float = EXPLAINS) -> float:
    """ln of √(constant · Σ 3 d₁ d₂ ln²(p) / n)."""
    return 0.5 * math.log(constant * sketch_numbers(shapes) / n)

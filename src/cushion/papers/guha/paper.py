"""The numbers of Guha 2023, Tables 1 and 2 (natural logarithms of bounds), and their constant.

The paper does not say which logarithm its tables take. The text says that Bartlett's bound is at
least 10³ and 10⁷ times the paper's own, and e^7.3 and e^17.7 are the differences in the tables;
powers of ten would make them 10⁷ and 10¹⁷. So they are natural.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

Column: TypeAlias = Mapping[str, float | None]  # by the name of a row; None: it has no number
NEYSHABUR_2015, NEYSHABUR_2017, BARTLETT_2017 = "Neyshabur 2015", "Neyshabur 2017", "Bartlett 2017"
RIVALS = (NEYSHABUR_2015, NEYSHABUR_2017, BARTLETT_2017)
OURS, TRUE_ERROR = "Ours", "True error"
METHODS = (*RIVALS, OURS, TRUE_ERROR)
MNIST_EXAMPLES, CIFAR10_EXAMPLES = 60_000, 50_000
EXPLAINS = 0.33  # λχ·ln(1/ρ), the same for every width of Table 1


def _column(*values: float) -> dict[str, float]:
    return dict(zip(METHODS, values, strict=True))


TABLE_1 = {  # by width
    500: _column(22.29, 17.91, 11.51, 3.36, -3.76),
    784: _column(23.56, 18.34, 11.68, 3.77, -3.84),
    1000: _column(24.42, 18.70, 11.87, 4.00, -3.80),
    1500: _column(25.12, 18.81, 11.70, 4.40, -3.85),
    2000: _column(27.03, 21.50, 13.96, 4.73, -3.86),
    2500: _column(27.72, 21.57, 13.81, 4.96, -3.87),
}
TABLE_2 = _column(33.19, 30.10, 22.40, 4.68, -2.41)


def mlp_shapes(inputs: int, width: int) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of the paper's five layers."""
    return tuple(pairwise((inputs, width, width, width, width, 10)))


def sketch_numbers(shapes: Sequence[Sequence[int]]) -> float:
    """Σ 3 d₁ d₂ ln²(p) of Theorem 5.2, p the larger side: its numbers, but for λχ."""
    return math.fsum(3.0 * a * b * math.log(max(a, b)) ** 2 for a, b in shapes)


def implied_constant(log_bound: float, shapes: Sequence[Sequence[int]], n: int) -> float:
    """The λχ·ln(1/ρ) with which √(λχ·ln(1/ρ)·Σ 3 d₁ d₂ ln²(p) / n) is e^log_bound.

    >>> round(implied_constant(3.36, mlp_shapes(784, 500), 60_000), 3)
    0.356
    """
    return math.exp(2.0 * log_bound) * n / sketch_numbers(shapes)


def explained(shapes: Sequence[Sequence[int]], n: int) -> float:
    """ln of √(EXPLAINS · Σ 3 d₁ d₂ ln²(p) / n)."""
    return 0.5 * math.log(EXPLAINS * sketch_numbers(shapes) / n)

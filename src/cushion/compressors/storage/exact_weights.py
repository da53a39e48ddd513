"""What a stored layer is in a certificate: the same integers as a source of exact weights, and the
scale of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cushion.certificates.format.arithmetic import bias_length, grid_length
from cushion.certificates.format.sources import Grid, Integers, Source, Values
from cushion.errors import Unsupported

_MOST_LEVELS = 127  # of a grid
_WIDE_FLAGS = 2  # bits that `bias_length` counts beside the numbers themselves


@dataclass(frozen=True, eq=False)
class ExactWeight:
    """source(shift) gives ⌊numbers / 2^shift⌋, where source(0) gives the numbers: the layer's
    weight over `unit`.

    Where the integers stand in the message themselves, nothing can be shifted (`fixed`) and source
    ignores the shift. only_last: why the layer must be the last one, "" where it need not: there
    answers compare rows, so that a number may be left out of all weights alike.
    """

    source: Callable[[int], Source]
    unit: Fraction
    fixed: bool = False
    only_last: str = ""


def as_they_are(integers: Integers, exponent: int) -> ExactWeight:
    """integers · 2^exponent, the integers one by one in the code that is shorter for them."""
    levels = max(1, int(np.abs(integers).max(initial=0)))
    source: Source = Values(integers)
    if (
        levels <= _MOST_LEVELS
        and grid_length(integers, levels) <= bias_length(integers.reshape(-1), 0) - _WIDE_FLAGS
    ):
        source = Grid(integers, levels)
    return ExactWeight(lambda _: source, Fraction(2) ** exponent, fixed=True)


def check_place(mine: int, place: int) -> None:
    """Unsupported unless the layer's helper string is that of its place in the integer net."""
    if mine != place:
        raise Unsupported(
            f"its helper string is that of layer {mine}, and in a certificate it is layer {place}; "
            "leave out poolings that change nothing, and compress again"
        )


def coded_decisions(numbers: Integers, *, grid: bool) -> int:
    """How many decisions the coded stream takes for these numbers (FORMAT.md, section 3.2)."""
    sizes = np.abs(numbers.reshape(-1))
    used = int(np.count_nonzero(sizes))
    if grid:  # zero or not, the sign, the magnitude in unary
        return sizes.size + used + int(sizes.sum())
    widths = sum(math.frexp(size)[1] for size in sizes[sizes > 0].tolist())
    # zero or not; the sign, a width w in unary and w - 1 bits make 2w
    return sizes.size + 2 * widths

"""What a stored layer is in a certificate: the same integers as a source of exact weights, and the
scale of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cushion.certificates.format.code_lengths import bias_length, grid_length
from cushion.certificates.format.limits import MOST_AMPLITUDE
from cushion.certificates.format.sources import (
    Grid,
    Integers,
    Product,
    SeededNoise,
    SignProjection,
    Source,
    Values,
    noise,
)
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.projection.conv_project import Located
from cushion.compressors.projection.low_rank import LowRankMap
from cushion.compressors.projection.vectors import ProjectedRows, Sparse
from cushion.compressors.pruning.sketched import Sketched
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import Kept, LowRank, Numbers, Projected, StoredLayer
from cushion.errors import Unsupported

_MOST_LEVELS = 127  # of a grid
_MOST_NUMBER_BITS = 40  # of a weight that is made of two grids
_WIDE_FLAGS = 2  # bits that `bias_length` counts beside the numbers themselves

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ExactWeight:
    """source(shift) gives ⌊numbers / 2^shift⌋, where source(0) gives the numbers: the layer's
    weight over `unit`.

    Where the integers stand in the message themselves, nothing can be shifted (`fixed`) and source
    ignores the shift.
    """

    source: Callable[[int], Source]
    unit: Fraction
    fixed: bool = False


def exact_weight(stored: StoredLayer, shape: Shape, seed: int, place: int) -> ExactWeight:
    """The layer's integers as a source of weights of this shape, for layer `place` of an integer
    net.

    Unsupported, with the reason, where the format has no source for such a layer.
    """
    if type(stored) not in EXACT_WEIGHTS:
        raise Unsupported(
            f"the format of certificates has no source for a layer stored as {stored.kind!r}"
        )
    return EXACT_WEIGHTS[type(stored)](stored, shape, seed, place)


def _kept(stored: Kept, shape: Shape, _: int, __: int) -> ExactWeight:
    return _as_they_are(stored.values.integers.reshape(shape), stored.values)


def _pruned(stored: Pruned, shape: Shape, _: int, __: int) -> ExactWeight:
    return _as_they_are(stored.integers.reshape(shape), stored.values)


def _sparse(stored: Sparse, shape: Shape, _: int, __: int) -> ExactWeight:
    """Two classes have one vector d, their difference: rows of zeros and d answer as (-d/2, d/2),
    for half the bits.
    """
    rows = stored.entries.integers[:, : shape[1]]
    return _as_they_are(
        np.concatenate((np.zeros_like(rows), rows)) if shape[0] == 2 else rows, stored.entries
    )


def _as_they_are(integers: Integers, numbers: Numbers) -> ExactWeight:
    """Integers one by one, in the code that is shorter for them."""
    levels = max(1, int(np.abs(integers).max(initial=0)))
    source: Source = Values(integers)
    if (
        levels <= _MOST_LEVELS
        and grid_length(integers, levels) <= bias_length(integers.reshape(-1), 0) - _WIDE_FLAGS
    ):
        source = Grid(integers, levels)
    return ExactWeight(lambda _: source, _power(numbers.exponent), fixed=True)


def _low_rank(stored: LowRank, shape: Shape, _: int, __: int) -> ExactWeight:
    factors = np.concatenate([part.integers.reshape(-1) for part in stored.numbers])
    unit = _power(stored.left.exponent + stored.right.exponent)
    return ExactWeight(lambda shift: Product(factors, shape, stored.rank, shift), unit)


def _projected(stored: Projected, shape: Shape, seed: int, place: int) -> ExactWeight:
    if stored.helper != "signs":
        raise Unsupported(_NOT_SIGNS[stored.helper])
    _check_place(stored.place, place)
    q = stored.coefficients.integers
    unit = _power(stored.coefficients.exponent) / q.size  # Algorithm 1's 1/k
    return ExactWeight(lambda shift: SignProjection(q, shape, seed, place, shift), unit)


def _spiked(stored: Spiked, shape: Shape, seed: int, place: int) -> ExactWeight:
    """B + √t·G on a grid that holds both: the format stores what is not noise alone, so B's places
    carry their noise.

    Draws with a mean have it taken off every number of the layer, which changes no answer of a last
    layer, and is refused elsewhere (`exact`).
    """
    _check_place(stored.place, place)
    kept, law = stored.kept, stored.law
    own = kept.values.exponent if kept.parameters else law.exponent
    lowest = min(own, law.exponent - 2)  # G is whole numbers over 4
    largest = int(np.abs(kept.values.integers).max(initial=1)).bit_length() + own - lowest
    amplitude = int(law.integers[0]) << (law.exponent - 2 - lowest)
    if amplitude > MOST_AMPLITUDE or largest > _MOST_NUMBER_BITS:
        raise Unsupported(
            "its noise and its weights are too far apart in size for one grid of whole numbers"
        )
    values = kept.integers.reshape(shape) << (own - lowest)
    at = values != 0
    if stored.everywhere:
        drawn = amplitude * noise(seed, place, 0, values.size).reshape(shape)
        values = np.where(at, values + drawn, 0)
    else:
        values = np.where(at, values - (int(law.integers[1]) << (law.exponent - lowest)), 0)
    if (values[at] == 0).any():  # which the format reads as noise alone
        raise Unsupported(
            "a weight that stays and its noise cancel to an exact zero; use another `seed` or "
            "`grid`"
        )
    source = SeededNoise(values, seed, place, amplitude)
    return ExactWeight(lambda _: source, _power(lowest), fixed=True)


def _check_place(mine: int, place: int) -> None:
    if mine != place:
        raise Unsupported(
            f"its helper string is that of layer {mine}, and in a certificate it is layer {place}; "
            "leave out poolings that change nothing, and compress again"
        )


def _refused(reason: str) -> Callable[[Any, Shape, int, int], ExactWeight]:
    def refuse(*_: object) -> ExactWeight:
        raise Unsupported(reason)

    return refuse


def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


_NOT_SIGNS = {
    "gaussian": "its helper numbers are floating point, which differ between machines; use "
    "`helper` = signs",
    "srht": "the format of certificates has no randomised Hadamard transform; use `helper` = signs",
}
EXACT_WEIGHTS: Mapping[type[StoredLayer], Callable[[Any, Shape, int, int], ExactWeight]] = {
    Kept: _kept,
    LowRank: _low_rank,
    Projected: _projected,
    Sparse: _sparse,
    Pruned: _pruned,
    Spiked: _spiked,
    Sketched: _refused(
        "the format has no sketches; use `method` = magnitude, whose weights are the same"
    ),
    Located: _refused(
        "it has a different filter at each place of its output, and the format's convolutions have "
        "one"
    ),
    LowRankMap: _refused(
        "its true map was truncated, so it is no convolution any more, and the format holds "
        "convolutions by kernels"
    ),
    ProjectedRows: _refused(
        "its rows share their helper vectors, for which the format has no source; use `method` "
        "matrix-project"
    ),
}


def coded_decisions(numbers: Integers, *, grid: bool) -> int:
    """How many decisions the coded stream takes for these numbers (FORMAT.md, section 3.2)."""
    sizes = np.abs(numbers.reshape(-1))
    used = int(np.count_nonzero(sizes))
    if grid:  # zero or not, the sign, the magnitude in unary
        return sizes.size + used + int(sizes.sum())
    widths = sum(math.frexp(size)[1] for size in sizes[sizes > 0].tolist())
    # zero or not; the sign, a width w in unary and w - 1 bits make 2w
    return sizes.size + 2 * widths

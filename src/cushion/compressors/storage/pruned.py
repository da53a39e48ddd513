"""A pruned weight as it is stored: where its non-zeros stand, and their values on a grid.

Positions are counted row by row; a gap is the distance to the non-zero before (the first counts
from just before the weight). J non-zeros of N then cost about what naming one of the C(N, J) masks
does, and coding takes J steps, not N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from cushion.certificates.format.sources import Integers
from cushion.compressors.storage.exact_weights import ExactWeight, as_they_are
from cushion.compressors.storage.stored import Fields, Numbers, Parts, Shape, StoredLayer, Values
from cushion.errors import BadInput

_MOST_WEIGHTS = 1 << 27  # of one layer: a gigabyte, which a file of a few bytes may stand for


@dataclass(frozen=True, eq=False)
class Pruned(StoredLayer, kind="pruned", number=7, field_count=1):
    """gaps: [J] whole numbers of at least 1; values: [J], none of them zero."""

    gaps: Numbers
    values: Numbers
    shape: Shape

    @classmethod
    def of(cls, numbers: Numbers) -> Pruned:
        """The weight `numbers`, [*shape], without its zeros."""
        flat = numbers.integers.reshape(-1)
        at = np.flatnonzero(flat)
        gaps = np.diff(at, prepend=-1).astype(np.int64)
        return cls(Numbers(gaps, 0), Numbers(flat[at], numbers.exponent), numbers.integers.shape)

    @property
    def numbers(self) -> Parts:
        """Numbers are coded with a sign, so gaps 1, 2, 3, 4, ... go as 0, -1, 1, -2, ...."""
        more = self.gaps.integers - 1
        return Numbers(np.where(more & 1, -(more + 1 >> 1), more >> 1), 0), self.values

    @property
    def fields(self) -> Fields:
        return (self.values.integers.size,)

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        if math.prod(shape) > _MOST_WEIGHTS:
            raise BadInput(
                f"a pruned weight of {math.prod(shape)} numbers is larger than any that is read"
            )
        if fields[0] > math.prod(shape):
            raise BadInput(f"a weight of {math.prod(shape)} numbers has no {fields[0]} non-zeros")
        return (fields[0],), (fields[0],)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        coded, values = numbers
        size = math.prod(shape)
        folded = coded.integers
        gaps = Numbers(np.where(folded < 0, -2 * folded, 2 * folded + 1), coded.exponent)
        fits = (
            (gaps.integers >= 1) & (gaps.integers <= size)
        ).all() and gaps.integers.sum() <= size
        if not fits or gaps.exponent != 0:
            raise BadInput("the gaps between its non-zeros do not fit the weight")
        if (values.integers == 0).any():
            raise BadInput("a stored non-zero is zero")
        return cls(gaps, values, shape)

    @property
    def integers(self) -> Integers:
        """The weight as whole numbers, [*shape]; times 2^exponent of `values`."""
        flat = np.zeros(math.prod(self.shape), dtype=np.int64)
        flat[np.cumsum(self.gaps.integers) - 1] = self.values.integers
        return flat.reshape(self.shape)

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return np.ldexp(self.integers.astype(np.float64), self.values.exponent)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        return as_they_are(self.integers.reshape(shape), self.values.exponent)

    @property
    def parameters(self) -> int:
        """How many non-zeros there are."""
        return int(self.values.integers.size)

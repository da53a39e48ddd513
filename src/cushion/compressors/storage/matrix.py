"""A weight that was trained on its grid, many of its numbers zero, as `matrix_code` writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from cushion.compressors.storage.exact_layers import ExactWeight, as_they_are
from cushion.compressors.storage.stored import Fields, Numbers, Parts, Shape, StoredLayer, Values
from cushion.errors import BadInput


@dataclass(frozen=True, eq=False)
class Matrix(StoredLayer, kind="matrix", number=10, field_count=2):
    """values: [out, in, *window]. A dense layer behind a flattening may be told as the kernel that
    it is, so that the code sees neighbours: its window is then a field (0, 0: it has none).
    """

    values: Numbers
    shape: Shape
    as_matrix: ClassVar[bool] = True

    @classmethod
    def of(cls, numbers: Numbers, kernel: Shape) -> Matrix:
        """The weight `numbers`, [*shape], told in the shape of `kernel`."""
        told = Numbers(numbers.integers.reshape(kernel), numbers.exponent)
        return cls(told, numbers.integers.shape)

    @property
    def fields(self) -> Fields:
        told = self.values.integers.shape
        if told == self.shape:
            return (0, 0)
        return told[2], told[3]

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        if fields == (0, 0):
            return (shape,)
        area = math.prod(fields)
        if len(shape) != 2 or area < 1 or shape[1] % area:
            raise BadInput(f"a weight of shape {shape} is no kernel with a window of {fields}")
        return ((shape[0], shape[1] // area, *fields),)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        return cls(numbers[0], shape)

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.values.values.reshape(self.shape)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        return as_they_are(self.values.integers.reshape(shape), self.values.exponent)

    @property
    def parameters(self) -> int:
        """How many are not zero."""
        return int(np.count_nonzero(self.values.integers))

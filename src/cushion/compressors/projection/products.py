"""A weight as the product of two thin matrices, as it is stored: of a kernel, or of a whole map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import torch

from cushion.certificates.format.sources import Product
from cushion.compressors.storage.exact_layers import ExactWeight
from cushion.compressors.storage.stored import Fields, Numbers, Parts, Shape, StoredLayer, Values
from cushion.errors import BadInput
from cushion.nets.operations import Affine
from cushion.nets.operators import FlatMap, Operator

_BLOCK = 1 << 20  # numbers of a product that are added at a time
MOST_MAP_ENTRIES = 1 << 22  # of a true map that is decomposed: some seconds


@dataclass(frozen=True, eq=False)
class _Factors(StoredLayer):
    """left · right, of rank r."""

    left: Numbers  # [rows, r]
    right: Numbers  # [r, columns]
    shape: Shape  # of the layer's weight

    @classmethod
    def rounded(cls, left: Values, right: Values, shape: Shape, exponent: int) -> Self:
        """Both factors on the grid of 2^exponent."""
        return cls(Numbers.rounded(left, exponent), Numbers.rounded(right, exponent), shape)

    @property
    def rank(self) -> int:
        return int(self.right.integers.shape[0])

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        left, right = numbers
        return cls(left, right, shape)

    def product(self) -> Values:
        """[rows, columns]"""
        # One rank after the other, since a matrix product would depend on the threads of the
        # library; some rows at a time, so that what is added takes little memory.
        total = np.zeros((self.left.integers.shape[0], self.right.integers.shape[1]))
        left, right = self.left.values, self.right.values
        step = max(1, _BLOCK // total.shape[1])
        for start in range(0, len(total), step):
            for column, row in zip(left[start : start + step].T, right, strict=True):
                total[start : start + step] += column[:, None] * row
        return total


@dataclass(frozen=True, eq=False)
class LowRank(_Factors, kind="low-rank", number=1, field_count=1):
    """left · right, reshaped: a matrix of rank r, or a kernel as the matrix [out, in·taps]."""

    @property
    def fields(self) -> Fields:
        return (self.rank,)

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        rows, columns = shape[0], math.prod(shape[1:])
        if not 1 <= fields[0] <= min(rows, columns):
            raise BadInput(f"a matrix of {rows} x {columns} has no truncation to rank {fields[0]}")
        return (rows, fields[0]), (fields[0], columns)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:
        return float(fields[0]) * weights

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.product().reshape(self.shape)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        factors = np.concatenate([part.integers.reshape(-1) for part in self.numbers])
        unit = Fraction(2) ** (self.left.exponent + self.right.exponent)
        return ExactWeight(lambda shift: Product(factors, shape, self.rank, shift), unit)


@dataclass(frozen=True, eq=False)
class LowRankMap(_Factors, kind="low-rank map", number=2, field_count=3):
    """left · right as a map between whole feature maps: the true map of a convolution, truncated.

    `shape` is the kernel's, as for every layer; `weight` answers [output size, input size].
    """

    not_exact: ClassVar[str] = (
        "it is a convolution no more but a map of whole images, which a certificate cannot hold"
    )

    @property
    def fields(self) -> Fields:
        return self.rank, self.left.integers.shape[0], self.right.integers.shape[1]

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:  # noqa: ARG003
        rank, rows, columns = fields
        if not 1 <= rank <= min(rows, columns) or rows * columns > MOST_MAP_ENTRIES:
            raise BadInput(f"a map of {rows} x {columns} has no stored truncation to rank {rank}")
        return (rows, rank), (rank, columns)

    @classmethod
    def check_fit(cls, fields: Fields, layer: Affine) -> None:
        if fields[1:] != (layer.operator.output_size, layer.operator.input_size):
            raise BadInput(f"a map of {fields[1]} x {fields[2]} is not this layer's")

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:  # noqa: ARG003
        return float(fields[0]) * fields[1] * fields[2]

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.product()

    def operator(self, original: Operator, seed: int, start: Operator | None = None) -> Operator:
        weight = torch.from_numpy(self.weight(seed))
        if start is not None:
            weight = weight + start.to(torch.float64).dense()
        sides = original.input_shape, original.output_shape
        return FlatMap(weight.to(original.weight.dtype), *sides)

"""What a compressed layer stores: whole numbers on a grid; its weight follows from them and the
helper string's seed.

Every kind of layer rebuilds its weight in float64, in one order of operations, so that the same
numbers and seed give the same weight whatever the thread count or block size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.errors import BadInput
from cushion.nets.operators import Operator
from cushion.nets.operators.gaussian_projection import (
    gaussian_coefficients,
    gaussian_reconstruction,
)
from cushion.nets.operators.hadamard import srht_coefficients, srht_reconstruction
from cushion.nets.operators.sign_projection import sign_coefficients, sign_reconstruction

Values: TypeAlias = NDArray[np.float64]
Helper: TypeAlias = Literal["signs", "srht", "gaussian"]
HELPERS: tuple[Helper, ...] = ("signs", "srht", "gaussian")
_BLOCK = 1 << 20  # numbers of a product that are added at a time
MOST_BITS = 40  # of one stored number, sign included: what the code of wide numbers holds
_FINEST = -1074  # every float64 is a multiple of 2^-1074
COEFFICIENTS = {
    "signs": sign_coefficients,
    "srht": srht_coefficients,
    "gaussian": gaussian_coefficients,
}
_RECONSTRUCTIONS = {
    "signs": sign_reconstruction,
    "srht": srht_reconstruction,
    "gaussian": gaussian_reconstruction,
}


def projection_work(helper: Helper, k: int, weights: int) -> float:
    """Of a weight from k helper matrices."""
    return {"signs": 1.0, "gaussian": 300.0, "srht": 0.0}[helper] * weights * k + 100.0 * weights


def helper_purpose(place: int) -> str:
    """Names a layer's own part of the helper string; the same words as a certificate's seeded
    layers use.
    """
    return f"weights {place}"


@dataclass(frozen=True, eq=False)
class Numbers:
    """Multiples of 2^exponent: value = integer · 2^exponent, exactly."""

    integers: NDArray[np.int64]
    exponent: int

    @classmethod
    def rounded(cls, values: Values, exponent: int) -> Numbers:
        """The nearest multiples of 2^exponent (ties to even): each moves by at most 2^(exponent -
        1).
        """
        if not np.isfinite(values).all():
            raise BadInput(
                "the numbers to store must be finite, and some are infinite or not a number"
            )
        with np.errstate(over="ignore"):
            scaled = np.rint(np.ldexp(values, -exponent))
        if np.abs(scaled).max(initial=0.0) >= 2.0 ** (MOST_BITS - 1):
            raise BadInput(
                f"a grid of 2^{exponent} is too fine for numbers of this size; ask for a coarser "
                "accuracy or fewer `number_bits`"
            )
        return cls(scaled.astype(np.int64), exponent)

    @classmethod
    def fitted(cls, values: Values, bits: int) -> Numbers:
        """On the finest grid of a power of two on which every number takes at most `bits` bits, its
        sign included.

        The grid of 2^-1074 is exact for every float64, so none is finer.
        """
        largest = float(np.abs(values).max(initial=0.0))
        if largest == 0.0:
            return cls(np.zeros(values.shape, dtype=np.int64), 0)
        mantissa, scale = math.frexp(largest)  # apart, since the quotient itself may underflow
        # largest / 2^exponent < 2^(bits-1) - ½
        exponent = scale + math.frexp(mantissa / (2.0 ** (bits - 1) - 0.5))[1]
        return cls.rounded(values, max(exponent, _FINEST))

    @property
    def step(self) -> float:
        """Of the grid."""
        return math.ldexp(1.0, self.exponent)

    @property
    def values(self) -> Values:
        return np.ldexp(self.integers.astype(np.float64), self.exponent)


class StoredLayer(ABC):
    """One layer's numbers, and how its weight comes back from them.

    shape: of the weight that is rebuilt. place: the layer's place in the net, pooling counted, from
    1; it names the layer's own part of the helper string. `fields` are the whole numbers of at
    least 0 that a decoder must know besides the stored ones (sizes); what follows from the
    architecture is not among them.
    """

    kind: ClassVar[str]
    field_count: ClassVar[int]
    shape: tuple[int, ...]

    @property
    @abstractmethod
    def numbers(self) -> tuple[Numbers, ...]:
        """Everything that is stored, in the order in which it is coded."""

    @property
    @abstractmethod
    def fields(self) -> tuple[int, ...]:
        """Sizes that were chosen for this layer."""

    @classmethod
    @abstractmethod
    def sizes(cls, shape: tuple[int, ...], fields: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The shapes of `numbers`, for a decoder; BadInput where the fields fit no weight of this
        shape.
        """

    @classmethod
    @abstractmethod
    def restore(
        cls,
        shape: tuple[int, ...],
        place: int,
        fields: tuple[int, ...],
        numbers: tuple[Numbers, ...],
    ) -> Self:
        """The layer that has these fields and numbers."""

    @classmethod
    def work(cls, fields: tuple[int, ...], weights: int) -> float:  # noqa: ARG003
        """About how long a weight of so many numbers takes to come back, in signs of a projection
        (0.3 ns each).
        """
        return 0.0

    @abstractmethod
    def weight(self, seed: int) -> Values:
        """The weight, float64 [*shape], from the numbers and the seed of the helper string
        alone.
        """

    def operator(self, original: Operator, seed: int, start: Operator | None = None) -> Operator:
        """The compressed map, in the original's dtype; with `start` the stored weight is what
        training added to it.
        """
        weight = torch.from_numpy(self.weight(seed))
        if start is not None:
            weight = weight + start.weight.to(torch.float64)
        return original.with_weight(weight.to(original.weight.dtype))

    @property
    def parameters(self) -> int:
        """How many numbers are stored."""
        return sum(part.integers.size for part in self.numbers)


@dataclass(frozen=True, eq=False)
class Kept(StoredLayer):
    """A weight as it is, on a grid."""

    kind: ClassVar[str] = "kept"
    field_count: ClassVar[int] = 0
    values: Numbers  # [*shape]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.values.integers.shape

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        return (self.values,)

    @property
    def fields(self) -> tuple[int, ...]:
        return ()

    @classmethod
    def sizes(cls, shape: tuple[int, ...], fields: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:  # noqa: ARG003
        return (shape,)

    @classmethod
    def restore(
        cls,
        shape: tuple[int, ...],  # noqa: ARG003
        place: int,  # noqa: ARG003
        fields: tuple[int, ...],  # noqa: ARG003
        numbers: tuple[Numbers, ...],
    ) -> Self:
        (values,) = numbers
        return cls(values)

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.values.values


@dataclass(frozen=True, eq=False)
class LowRank(StoredLayer):
    """left · right, reshaped: a matrix of rank r, or a convolution's kernel as the matrix [out,
    in·taps].
    """

    kind: ClassVar[str] = "low-rank"
    field_count: ClassVar[int] = 1
    left: Numbers  # [rows, r]
    right: Numbers  # [r, columns]
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return int(self.right.integers.shape[0])

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        return self.left, self.right

    @property
    def fields(self) -> tuple[int, ...]:
        return (self.rank,)

    @classmethod
    def sizes(cls, shape: tuple[int, ...], fields: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        rows, columns = shape[0], math.prod(shape[1:])
        if not 1 <= fields[0] <= min(rows, columns):
            raise BadInput(
                f"a matrix of {rows} rows and {columns} columns has no truncation to rank "
                f"{fields[0]}"
            )
        return (rows, fields[0]), (fields[0], columns)

    @classmethod
    def restore(
        cls,
        shape: tuple[int, ...],
        place: int,  # noqa: ARG003
        fields: tuple[int, ...],  # noqa: ARG003
        numbers: tuple[Numbers, ...],
    ) -> Self:
        left, right = numbers
        return cls(left, right, shape)

    @classmethod
    def work(cls, fields: tuple[int, ...], weights: int) -> float:
        return float(fields[0]) * weights

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        # One rank after the other, since a matrix product would depend on the threads of the
        # library; some rows at a time, so that what is added takes little memory.
        total = np.zeros((self.left.integers.shape[0], self.right.integers.shape[1]))
        left, right = self.left.values, self.right.values
        step = max(1, _BLOCK // total.shape[1])
        for start in range(0, len(total), step):
            for column, row in zip(left[start : start + step].T, right, strict=True):
                total[start : start + step] += column[:, None] * row
        return total.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Projected(StoredLayer):
    """(1/k) Σ_t c_t M_t: Matrix-Project (Algorithm 1), or Vector-Project (Algorithm 3) for the
    weight as one vector.
    """

    kind: ClassVar[str] = "projected"
    field_count: ClassVar[int] = 2
    coefficients: Numbers  # [k]
    shape: tuple[int, ...]
    helper: Helper
    place: int

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        return (self.coefficients,)

    @property
    def fields(self) -> tuple[int, ...]:
        return HELPERS.index(self.helper), self.coefficients.integers.size

    @classmethod
    def sizes(cls, shape: tuple[int, ...], fields: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:  # noqa: ARG003
        if fields[0] >= len(HELPERS) or fields[1] < 1:
            raise BadInput(
                f"a projection has no helper number {fields[0]} and {fields[1]} coefficients"
            )
        return ((fields[1],),)

    @classmethod
    def restore(
        cls,
        shape: tuple[int, ...],
        place: int,
        fields: tuple[int, ...],
        numbers: tuple[Numbers, ...],
    ) -> Self:
        (coefficients,) = numbers
        return cls(coefficients, shape, HELPERS[fields[0]], place)

    @classmethod
    def work(cls, fields: tuple[int, ...], weights: int) -> float:
        return projection_work(HELPERS[fields[0]], fields[1], weights)

    def weight(self, seed: int) -> Values:
        coefficients = torch.from_numpy(self.coefficients.values)
        return _RECONSTRUCTIONS[self.helper](
            coefficients, self.shape, seed, helper_purpose(self.place)
        ).numpy()

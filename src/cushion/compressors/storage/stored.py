"""What a compressed layer stores: whole numbers on a grid; its weight follows from them and the
helper string's seed.

A kind of layer is a subclass of `StoredLayer` with a `number`: defining it registers it. Every kind
rebuilds its weight in float64, in one order of operations, so that the same numbers and seed give
the same weight whatever the thread count or block size.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.storage.exact_layers import ExactWeight, as_they_are
from cushion.errors import BadInput, Unsupported
from cushion.nets.operations import Affine
from cushion.nets.operators import Operator

Values: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = tuple[int, ...]
Fields: TypeAlias = tuple[int, ...]
MOST_BITS = 40  # of one stored number, sign included: what the code of wide numbers holds
_FINEST = -1074  # every float64 is a multiple of 2^-1074


@dataclass(frozen=True, eq=False)
class Numbers:
    """Multiples of 2^exponent: value = integer · 2^exponent, exactly."""

    integers: NDArray[np.int64]
    exponent: int

    @classmethod
    def rounded(cls, values: Values, exponent: int) -> Numbers:
        """The nearest multiples of 2^exponent, ties to even: each moves by half a step at most."""
        if not np.isfinite(values).all():
            raise BadInput("the numbers to store must be finite, and some are not")
        with np.errstate(over="ignore"):
            scaled = np.rint(np.ldexp(values, -exponent))
        if np.abs(scaled).max(initial=0.0) >= 2.0 ** (MOST_BITS - 1):
            raise BadInput(
                f"a grid of 2^{exponent} is too fine: a number takes more than {MOST_BITS} bits; "
                "ask for a coarser accuracy, fewer `number_bits`, or a `grid` such as 8"
            )
        return cls(scaled.astype(np.int64), exponent)

    @classmethod
    def fitted(cls, values: Values, bits: int) -> Numbers:
        """On the finest grid of a power of two on which every number takes at most `bits` bits, its
        sign included; none is finer than 2^-1074, which is exact for every float64.
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
        return math.ldexp(1.0, self.exponent)

    @property
    def values(self) -> Values:
        return np.ldexp(self.integers.astype(np.float64), self.exponent)


Parts: TypeAlias = tuple[Numbers, ...]


def grid_within(step: float) -> int:
    """The exponent of the largest power of two that is not above `step`."""
    return math.frexp(step)[1] - 1


def less_start(original: Operator, start: Operator | None) -> Tensor:
    """What is stored of a weight: all of it, or what training added to the start's; float64."""
    weight = original.weight.detach().to("cpu", torch.float64)
    return weight if start is None else weight - start.weight.detach().to("cpu", torch.float64)


@contextmanager
def one_thread() -> Iterator[None]:
    """With more threads than one a library may add up in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class StoredLayer(ABC):
    """One layer's numbers, and how its weight comes back from them.

    shape: of the weight that is rebuilt. place: the layer's place in the net, pooling counted, from
    1; it names the layer's own part of the helper string. `fields` are the whole numbers of at
    least 0 that a decoder must know besides the stored ones (sizes); what follows from the
    architecture is not among them.
    """

    kind: ClassVar[str]
    number: ClassVar[int]  # by which a message names the kind
    field_count: ClassVar[int]
    stores_bias: ClassVar[bool] = False  # whether its numbers hold the layer's bias too
    as_matrix: ClassVar[bool] = False  # whether its numbers are told in the code of a matrix
    not_exact: ClassVar[str] = ""  # why a certificate cannot hold such a layer, where it cannot
    shape: Shape

    def __init_subclass__(
        cls, kind: str = "", number: int | None = None, field_count: int = 0
    ) -> None:
        """Registers the kind; a base of several kinds has no number."""
        super().__init_subclass__()
        if number is None:
            return
        if number in KINDS:
            raise TypeError(f"{cls.__name__} has the number of {KINDS[number].__name__}")
        cls.kind, cls.number, cls.field_count = kind, number, field_count
        KINDS[number] = cls

    @property
    def numbers(self) -> Parts:
        """All that is stored, in the order of the message: the `Numbers` of the dataclass."""
        parts = (getattr(self, part.name) for part in dataclasses.fields(self))  # type: ignore[arg-type]
        return tuple(part for part in parts if isinstance(part, Numbers))

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """Sizes that were chosen for this layer."""

    @classmethod
    @abstractmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        """The shapes of `numbers`; BadInput where the fields fit no weight of this shape."""

    @classmethod
    def check_fit(cls, fields: Fields, layer: Affine) -> None:  # noqa: ARG003
        """BadInput unless sizes that follow from the architecture are those of this layer."""
        return

    @classmethod
    @abstractmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
        """The layer that has these fields and numbers."""

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:  # noqa: ARG003
        """How long so many weights take to come back, in signs of a projection (0.3 ns each)."""
        return 0.0

    @abstractmethod
    def weight(self, seed: int) -> Values:
        """The weight, float64 [*shape], from the numbers and the helper string's seed alone."""

    def operator(self, original: Operator, seed: int, start: Operator | None = None) -> Operator:
        """The compressed map, in the original's dtype; `start`'s weight is added where given."""
        weight = torch.from_numpy(self.weight(seed))
        if start is not None:
            weight = weight + start.weight.to(torch.float64)
        return original.with_weight(weight.to(original.weight.dtype))

    def affine(
        self, original: Affine, bias: Numbers | None, seed: int, start: Affine | None = None
    ) -> Affine:
        """The compressed layer in the place of `original`; bias: what is stored beside it."""
        first = None if start is None else start.operator
        operator, values = self.operator(original.operator, seed, first), None
        if bias is not None:
            values = torch.from_numpy(bias.values)
            if start is not None and start.bias is not None:
                values = values + start.bias.to(torch.float64)
            values = values.to(original.operator.weight.dtype)
        return dataclasses.replace(original, operator=operator, bias=values)

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        """The layer's integers as a source of weights of this shape, for layer `place` of an
        integer net; Unsupported where the format of certificates has no source for it.
        """
        raise Unsupported(self.not_exact)

    @property
    def parameters(self) -> int:
        """How many numbers are stored."""
        return sum(part.integers.size for part in self.numbers)


KINDS: dict[int, type[StoredLayer]] = {}  # filled as the kinds are defined


@dataclass(frozen=True, eq=False)
class Kept(StoredLayer, kind="kept", number=0):
    """A weight as it is, on a grid."""

    values: Numbers  # [*shape]

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.values.integers.shape

    @property
    def fields(self) -> Fields:
        return ()

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:  # noqa: ARG003
        return (shape,)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        return cls(numbers[0])

    def weight(self, seed: int) -> Values:  # noqa: ARG002
        return self.values.values

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        return as_they_are(self.values.integers.reshape(shape), self.values.exponent)

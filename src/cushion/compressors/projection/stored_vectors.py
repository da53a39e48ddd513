"""A linear classifier's vectors as they are stored: sparse ones, or their inner products with
vectors of the helper string.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.projection.matrix_project import HELPERS, Helper, Projected
from cushion.compressors.storage.exact_layers import ExactWeight, as_they_are
from cushion.compressors.storage.stored import Fields, Numbers, Parts, Shape, StoredLayer, Values
from cushion.errors import BadInput
from cushion.nets.operations import Affine

Start: TypeAlias = tuple[Tensor, Tensor | None]  # weight and bias of the initialisation


class StoredVectors(StoredLayer):
    """A linear classifier's vectors [rows, coordinates], its bias as the last coordinate if any."""

    stores_bias: ClassVar[bool] = True
    has_bias: bool

    @abstractmethod
    def vectors(self, seed: int) -> Values:
        """What is stored, as [rows, coordinates]: one row for two classes, else one a class."""

    def classifier(self, seed: int, start: Start | None = None) -> tuple[Values, Values | None]:
        """Weight [classes, h] and bias [classes] or None, with those of `start` added again."""
        rows = self.vectors(seed)
        if self.shape[0] == 2:
            rows = np.concatenate((-rows / 2.0, rows / 2.0))
        if start is not None:
            rows = rows + homogeneous(*start, has_bias=self.has_bias)
        return (rows[:, :-1], rows[:, -1]) if self.has_bias else (rows, None)

    def weight(self, seed: int) -> Values:
        return self.classifier(seed)[0]

    def affine(
        self,
        original: Affine,
        bias: Numbers | None,  # noqa: ARG002
        seed: int,
        start: Affine | None = None,
    ) -> Affine:
        first = None if start is None else (start.operator.weight, start.bias)
        weight, given = self.classifier(seed, first)
        dtype = original.operator.weight.dtype
        operator = original.operator.with_weight(torch.tensor(weight, dtype=dtype))
        offset = None if given is None else torch.tensor(given, dtype=dtype)
        return replace(original, operator=operator, bias=offset)

    @classmethod
    def check_fit(cls, fields: Fields, layer: Affine) -> None:
        if fields[-1] != (layer.bias is not None):
            raise BadInput("the vectors of a linear classifier end with its bias where it has one")

    @classmethod
    def _rows_and_coordinates(cls, shape: Shape, bias: int) -> tuple[int, int]:
        if len(shape) != 2 or shape[0] < 2 or bias > 1:
            raise BadInput(f"linear classifiers fit no weight {shape} with bias flag {bias}")
        return (1 if shape[0] == 2 else shape[0]), shape[1] + bias


@dataclass(frozen=True, eq=False)
class Sparse(StoredVectors, kind="sparse", number=5, field_count=1):
    """Vector-Compress: the vectors themselves, most of their coordinates zero."""

    entries: Numbers  # [rows, coordinates]
    shape: Shape
    has_bias: bool

    @property
    def fields(self) -> Fields:
        return (int(self.has_bias),)

    @property
    def parameters(self) -> int:
        """How many coordinates are not zero."""
        return int(np.count_nonzero(self.entries.integers))

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        return (cls._rows_and_coordinates(shape, fields[0]),)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:  # noqa: ARG003
        return cls(numbers[0], shape, bool(fields[0]))

    def vectors(self, seed: int) -> Values:  # noqa: ARG002
        return self.entries.values

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:  # noqa: ARG002
        """Two classes have one vector d, their difference: rows of zeros and d answer as (-d/2,
        d/2), for half the bits.
        """
        rows = self.entries.integers[:, : shape[1]]
        if shape[0] == 2:
            rows = np.concatenate((np.zeros_like(rows), rows))
        return as_they_are(rows, self.entries.exponent)


@dataclass(frozen=True, eq=False)
class ProjectedRows(StoredVectors, kind="projected rows", number=6, field_count=3):
    """Vector-Project: k inner products a vector, all with the same v_1, ..., v_k."""

    not_exact: ClassVar[str] = (
        "its rows share their helper vectors, for which the format has no source; use `method` "
        "matrix-project"
    )
    coefficients: Numbers  # [rows, k]
    shape: Shape
    has_bias: bool
    helper: Helper
    place: int

    @property
    def fields(self) -> Fields:
        return HELPERS.index(self.helper), self.coefficients.integers.shape[1], int(self.has_bias)

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
        rows, coordinates = cls._rows_and_coordinates(shape, fields[2])
        ((k,),) = Projected.sizes((coordinates,), fields[:2])
        return ((rows, k),)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
        return cls(numbers[0], shape, bool(fields[2]), HELPERS[fields[0]], place)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:
        return Projected.work(fields[:2], weights)

    def vectors(self, seed: int) -> Values:
        size, exponent = (self.shape[1] + self.has_bias,), self.coefficients.exponent
        rows = [Numbers(row, exponent) for row in self.coefficients.integers]
        setting = size, self.helper, self.place
        return np.stack([Projected(row, *setting).weight(seed) for row in rows])


def homogeneous(weight: Tensor, bias: Tensor | None, *, has_bias: bool) -> Values:
    """[classes, coordinates] in float64, the bias last."""
    rows = weight.detach().to("cpu", torch.float64)
    if has_bias:
        last = rows.new_zeros(len(rows)) if bias is None else bias.detach().to("cpu", torch.float64)
        rows = torch.cat((rows, last[:, None]), dim=1)
    return rows.numpy()

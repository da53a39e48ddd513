"""Matrix-Project (Arora 2018, Algorithm 1): a weight as k inner products with matrices of the
helper string, rounded; and a linear classifier's vectors as they are stored: so, or sparse.

With signs the estimator is unbiased and its variance known (`operators.sign_projection`). `helper`
"srht" replaces the independent sign matrices by rows of one randomly signed Hadamard matrix: a
variant, much faster, with the same mean, a smaller variance, and without the paper's tail bound.
The k numbers are rounded to multiples of a power of two.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.sources import SignProjection
from cushion.compressors.storage import stored
from cushion.compressors.storage.exact_layers import ExactWeight, as_they_are, check_place
from cushion.compressors.storage.stored import Fields, Numbers, Parts, Shape, StoredLayer, Values
from cushion.errors import BadInput, Unsupported
from cushion.nets.operations import Affine
from cushion.nets.operators import Operator
from cushion.nets.operators.gaussian_projection import (
    gaussian_coefficients,
    gaussian_reconstruction,
)
from cushion.nets.operators.hadamard import srht_coefficients, srht_reconstruction
from cushion.nets.operators.sign_projection import sign_coefficients, sign_reconstruction

Helper: TypeAlias = Literal["signs", "srht", "gaussian"]
Start: TypeAlias = tuple[Tensor, Tensor | None]  # weight and bias of the initialisation
HELPERS: tuple[Helper, ...] = ("signs", "srht", "gaussian")  # a message names one by its place
_CODES = {  # how coefficients are made, and a weight of them
    "signs": (sign_coefficients, sign_reconstruction),
    "srht": (srht_coefficients, srht_reconstruction),
    "gaussian": (gaussian_coefficients, gaussian_reconstruction),
}
_NOT_EXACT = {
    "gaussian": "its helper numbers are floating point, which differ between machines; use "
    "`helper` = signs",
    "srht": "the format of certificates has no randomised Hadamard transform; use `helper` = signs",
}


def helper_purpose(place: int) -> str:
    """Names a layer's own part of the helper string, as a certificate's seeded layers do."""
    return f"weights {place}"


@dataclass(frozen=True, eq=False)
class Projected(StoredLayer, kind="projected", number=3, field_count=2):
    """(1/k) Σ_t c_t M_t: Matrix-Project (Algorithm 1), or Vector-Project (3) of one vector."""

    coefficients: Numbers  # [k]
    shape: Shape
    helper: Helper
    place: int

    @property
    def fields(self) -> Fields:
        return HELPERS.index(self.helper), self.coefficients.integers.size

    @classmethod
    def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:  # noqa: ARG003
        if fields[0] >= len(HELPERS) or fields[1] < 1:
            raise BadInput(f"there is no helper number {fields[0]} with {fields[1]} coefficients")
        return ((fields[1],),)

    @classmethod
    def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
        return cls(numbers[0], shape, HELPERS[fields[0]], place)

    @classmethod
    def work(cls, fields: Fields, weights: int) -> float:
        each = {"signs": 1.0, "gaussian": 300.0, "srht": 0.0}[HELPERS[fields[0]]]
        return each * weights * fields[1] + 100.0 * weights

    def weight(self, seed: int) -> Values:
        known, purpose = torch.from_numpy(self.coefficients.values), helper_purpose(self.place)
        return _CODES[self.helper][1](known, self.shape, seed, purpose).numpy()

    def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:
        if self.helper in _NOT_EXACT:
            raise Unsupported(_NOT_EXACT[self.helper])
        check_place(self.place, place)
        q = self.coefficients.integers
        unit = Fraction(2) ** self.coefficients.exponent / q.size  # Algorithm 1's 1/k
        return ExactWeight(lambda shift: SignProjection(q, shape, seed, place, shift), unit)


def coefficients(weight: Tensor, k: int, seed: int, purpose: str, helper: Helper) -> Values:
    """⟨M_t, weight⟩ for t = 1, ..., k: [k]."""
    if k < 1:
        raise BadInput(f"a projection needs at least 1 coefficient, not {k}")
    return _CODES[helper][0](weight, k, seed, purpose).numpy()


def project(
    original: Operator,
    k: int,
    bits: int,
    seed: int,
    place: int,
    helper: Helper = "signs",
    start: Operator | None = None,
) -> Projected:
    """The weight (less `start`'s) as k numbers of at most `bits` bits; a kernel as one matrix."""
    weight = stored.less_start(original, start)
    found = coefficients(weight, k, seed, helper_purpose(place), helper)
    return Projected(Numbers.fitted(found, bits), tuple(weight.shape), helper, place)


def rounding_share(layer: Projected, epsilon: float, frobenius: float) -> float:
    """What rounding the coefficients adds to Lemma 2's ε, in the same event: (s/2)·√(2(1+ε))/‖A‖_F
    for a step s.

    The signs that keep ⟨Â, B⟩ within ε‖A‖‖B‖ keep ‖a ± b‖² of the unit vectors a, b along A and B
    to a relative ε, so Σ_t⟨b, M_t⟩² ≤ 2k(1 + ε) by the parallelogram law. If c_t moves by r_t,
    |r_t| ≤ s/2, then ⟨Â, b⟩ moves by (1/k) Σ r_t ⟨b, M_t⟩ ≤ (s/2)·√(2(1 + ε)), whatever made r.
    """
    return layer.coefficients.step / 2 * math.sqrt(2 * (1 + epsilon)) / frobenius * (1 + 1e-12)


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
        """Two classes have one vector d, their difference: rows 0, d answer as -d/2, d/2."""
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

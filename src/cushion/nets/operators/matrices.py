"""Maps that are written out: matrices, and one factor per channel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from scipy.linalg.blas import dgemv
from torch import Tensor
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.entries import sides
from cushion.nets.operators.entry_sums import EntrySums, entry_sums
from cushion.nets.operators.norms import gram_upper, scale_to_one
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.path_sums import PathSums, Powered, Sums

_WIDENED = 1 << 18  # entries of a matrix that are widened at a time
_GRAM_SIDE = 2048  # the Gram matrix of a larger side takes longer than all other norms


class Matrix(Operator):
    """A map that is its weight, a matrix [output_size, input_size]."""

    def dense(self) -> Tensor:
        return self.weight

    def column_energies(self) -> Tensor:
        return self.weight.square().sum(0).reshape(self.input_shape)

    @cached_property
    def entry_sums(self) -> EntrySums:
        """One pass over the weights for norms of rows, ‖A‖_F and a bound on ‖A‖₂."""
        scaled, unit = scale_to_one(self)
        return entry_sums(scaled.weight, unit)

    def frobenius(self) -> float:
        return self.entry_sums.frobenius()

    def operator_frobenius(self) -> float:
        return self.frobenius()

    def spectral_upper(self) -> float:
        """At least ‖A‖₂: within a relative 1e-5 of it (`norms.gram_upper`) up to a side of 2048,
        and beyond, where that takes too long, the lesser of ‖A‖_F and √(‖A‖_1 ‖A‖_∞).
        """
        if min(self.weight.shape) > _GRAM_SIDE:
            return self.entry_sums.spectral_upper()
        return gram_upper(self.weight.to(torch.float64)[None], guess=self.spectral())


@dataclass(frozen=True, eq=False)
class Linear(Matrix):
    """x -> weight x on vectors; weight: [out, in]."""

    weight: Tensor

    @property
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.weight.shape[1],)

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.weight.shape[0],)

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.linear(x, self.weight, bias)

    def adjoint(self, y: Tensor) -> Tensor:
        return y @ self.weight

    def multiplying(self, dtype: torch.dtype) -> Operator:
        """In float64 without a copy of a narrower weight."""
        narrow = dtype == torch.float64 and self.weight.dtype.itemsize < 8
        return Widened(self.weight.detach()) if narrow else super().multiplying(dtype)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Linear:
        del entry
        _, _ = weight.shape
        return cls(weight)

    def _sums_before(self, sums: Sums, powered: Powered) -> list[PathSums | None]:
        rows, columns = self.weight.shape
        totals = [np.zeros(columns) for _ in sums]
        step = max(1, powered.powers.block // columns)
        for start in range(0, rows, step):
            some = slice(start, start + step)
            for at, (one, block) in enumerate(zip(sums, powered.each(some), strict=True)):
                if one is not None:
                    part = one.values.ravel()[some]
                    totals[at] = dgemv(1.0, block.T, part, 1.0, totals[at], overwrite_y=1)
        found = zip(sums, totals, strict=True)
        return [one and PathSums(total[:, None, None]) for one, total in found]


@dataclass(frozen=True, eq=False)
class Widened(Linear):
    """A matrix in a narrower type whose products with vectors are those of float64.

    Some rows at a time are widened, and meet one vector after the other while they are in the
    cache: no slower than a copy of twice the size.
    """

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        y = x.new_empty(len(x), len(self.weight))
        for some, rows in self._blocks():
            for vector, image in zip(x, y, strict=True):
                image[some] = rows @ vector
        return y if bias is None else y + bias

    def adjoint(self, y: Tensor) -> Tensor:
        x = y.new_zeros(len(y), self.weight.shape[1])
        for some, rows in self._blocks():
            for vector, image in zip(y, x, strict=True):
                image += vector[some] @ rows
        return x

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        step = max(1, _WIDENED // self.weight.shape[1])
        for start in range(0, len(self.weight), step):
            some = slice(start, start + step)
            yield some, self.weight[some].to(torch.float64)


@dataclass(frozen=True, eq=False)
class FlatMap(Matrix):
    """x -> weight · x on feature maps in row-major order; weight: [output_size, input_size].

    What is left of a convolution once its true map has been truncated: it has no kernel any more.
    """

    weight: Tensor
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = tuple(self.weight.shape)
        if shape != (self.output_size, self.input_size):
            wanted = f"{self.input_shape} to {self.output_shape}"
            raise BadInput(f"a matrix of shape {shape} does not map {wanted}")

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        y = (x.flatten(1) @ self.weight.T).reshape(-1, *self.output_shape)
        return y if bias is None else y + self.per_channel(bias)

    def adjoint(self, y: Tensor) -> Tensor:
        return (y.flatten(1) @ self.weight).reshape(-1, *self.input_shape)

    def scaled(self, scale: Tensor) -> Self:
        return super().scaled(scale.repeat_interleave(self.output_size // len(scale)))


@dataclass(frozen=True, eq=False)
class Diagonal(Operator):
    """x[c, ...] -> weight[c] · x[c, ...] on maps of `input_shape` = (C, ...); weight: [C].

    A batch-norm that no affine layer precedes.
    """

    weight: Tensor
    input_shape: tuple[int, ...]

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.input_shape

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        y = x * self.per_channel(self.weight)
        return y if bias is None else y + self.per_channel(bias)

    def adjoint(self, y: Tensor) -> Tensor:
        return self.apply(y)

    def dense(self) -> Tensor:
        return torch.diag(self.weight.repeat_interleave(math.prod(self.input_shape[1:])))

    def column_energies(self) -> Tensor:
        return self.per_channel(self.weight.square()).expand(self.input_shape)

    @property
    def multiplications(self) -> int:
        return math.prod(self.input_shape)

    def operator_frobenius(self) -> float:
        """√(positions) · ‖weight‖: every factor appears once per position."""
        return math.sqrt(math.prod(self.input_shape[1:])) * self.frobenius()

    def spectral(self) -> float:
        """max |weight|, exact: no rounding takes place."""
        return float(self.weight.abs().max())

    spectral_upper = spectral

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Diagonal:
        (channels,), shape = weight.shape, sides(entry["input_shape"])
        if channels != shape[0]:
            raise ValueError("one factor a channel")
        return cls(weight, shape)

    def _sums_before(self, sums: Sums, powered: Powered) -> list[PathSums | None]:
        return [
            one and PathSums(power[:, None, None] * one.values, one.rows, one.columns)
            for one, power in zip(sums, powered.each(), strict=True)
        ]

"""One factor per channel: a batch-norm that no affine layer precedes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.nets.entries import sides
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.path_sums import PathSums, Powers


@dataclass(frozen=True, eq=False)
class Diagonal(Operator):
    """x[c, ...] -> weight[c] · x[c, ...] on maps of `input_shape` = (C, ...); weight: [C]."""

    weight: Tensor
    input_shape: tuple[int, ...]

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The input's shape: a diagonal map keeps it."""
        return self.input_shape

    def _per_channel(self, values: Tensor) -> Tensor:
        return values.reshape(-1, *(1 for _ in self.input_shape[1:]))

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, C, ...] -> [B, C, ...]."""
        y = x * self._per_channel(self.weight)
        return y if bias is None else y + self._per_channel(bias)

    def adjoint(self, y: Tensor) -> Tensor:
        """A diagonal map is its own adjoint."""
        return self.apply(y)

    def dense(self) -> Tensor:
        """Each factor once per position, on the diagonal."""
        return torch.diag(self.weight.repeat_interleave(math.prod(self.input_shape[1:])))

    def column_energies(self) -> Tensor:
        """weight², the same at every position."""
        return self._per_channel(self.weight.square()).expand(self.input_shape)

    @property
    def multiplications(self) -> int:
        """One a number."""
        return math.prod(self.input_shape)

    def operator_frobenius(self) -> float:
        """√(positions) · ‖weight‖: every factor appears once per position."""
        return math.sqrt(math.prod(self.input_shape[1:])) * self.frobenius()

    def spectral(self) -> float:
        """max |weight|, exact."""
        return float(self.weight.abs().max())

    def spectral_upper(self) -> float:
        """max |weight|, exact: no rounding takes place."""
        return self.spectral()

    def scaled(self, scale: Tensor) -> Self:
        """diag(scale) A."""
        return replace(self, weight=self.weight * scale)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Diagonal:
        """One factor a channel."""
        (channels,), shape = weight.shape, sides(entry["input_shape"])
        if channels != shape[0]:
            raise ValueError("one factor a channel")
        return cls(weight, shape)

    def _sums_before(
        self,
        sums: Sequence[PathSums | None],
        powers: Powers,
        weight: NDArray[Any],
        units: Sequence[int],
    ) -> list[PathSums | None]:
        return [
            one and PathSums(power[:, None, None] * one.values, one.rows, one.columns)
            for one, power in zip(sums, powers.each(weight, units), strict=True)
        ]

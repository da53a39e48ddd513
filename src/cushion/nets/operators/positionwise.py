"""One matrix at every position of a sequence: a dense layer on the last axis, an embedding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.entries import sides
from cushion.nets.operators.matrices import Linear
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.path_sums import Floats, PathSums


@dataclass(frozen=True, eq=False)
class Positionwise(Operator):
    """x[..., :] -> weight x[..., :] on maps of `input_shape` = (..., in); weight: [out, in].

    The matrix of A has the weight once per position on its diagonal, so that its norm is the
    weight's. Channels are on the last axis, here alone.
    """

    weight: Tensor
    input_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.input_shape or self.input_shape[-1] != (reads := self.weight.shape[1]):
            found = f"a feature map of shape {self.input_shape}"
            raise BadInput(f"a layer that reads {reads} numbers cannot read {found}")

    @classmethod
    def embedding(cls, table: Tensor, positions: int) -> Self:
        """A table [words, out] on one-hot rows: the map from (positions, words)."""
        return cls(table.T, (positions, len(table)))

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return *self.input_shape[:-1], self.weight.shape[0]

    @property
    def positions(self) -> int:
        return math.prod(self.input_shape[:-1])

    @property
    def channels(self) -> int:
        return self.output_shape[-1]

    def per_channel(self, values: Tensor) -> Tensor:
        return values

    def channel_sums(self, sums: PathSums) -> Floats:
        found: Floats = sums.expanded().reshape(-1, self.channels).sum(0)
        return found

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.linear(x, self.weight, bias)

    def adjoint(self, y: Tensor) -> Tensor:
        return y @ self.weight

    def dense(self) -> Tensor:
        ones = torch.eye(self.positions, dtype=self.weight.dtype, device=self.weight.device)
        return torch.kron(ones, self.weight.contiguous())

    def column_energies(self) -> Tensor:
        return self.weight.square().sum(0).expand(self.input_shape)

    @property
    def multiplications(self) -> int:
        return self.positions * self.parameters

    def operator_frobenius(self) -> float:
        """√(positions) · ‖weight‖_F."""
        return math.sqrt(self.positions) * self.frobenius()

    def spectral(self) -> float:
        """‖weight‖₂, as `Linear` has it."""
        return self.each_position.spectral()

    def spectral_upper(self) -> float:
        return self.each_position.spectral_upper()

    @property
    def each_position(self) -> Linear:
        """What happens at one position."""
        return Linear(self.weight)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Positionwise:
        _, _ = weight.shape
        return cls(weight, sides(entry["input_shape"]))

"""A dense matrix as an operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.nets.operators.norms import gram_upper
from cushion.nets.operators.operator import Operator


@dataclass(frozen=True, eq=False)
class Linear(Operator):
    """x -> weight x on vectors; weight: [out, in]."""

    weight: Tensor

    @property
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(in,)."""
        return (self.weight.shape[1],)

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(out,)."""
        return (self.weight.shape[0],)

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, in] -> [B, out]."""
        return F.linear(x, self.weight, bias)

    def adjoint(self, y: Tensor) -> Tensor:
        """[B, out] -> [B, in]."""
        return y @ self.weight

    def dense(self) -> Tensor:
        """The weight itself."""
        return self.weight

    def column_energies(self) -> Tensor:
        """Σ over outputs of weight²: [in]."""
        return self.weight.square().sum(0)

    @property
    def multiplications(self) -> int:
        """One a weight."""
        return self.parameters

    def operator_frobenius(self) -> float:
        """The map is its weight, so this is `frobenius`."""
        return self.frobenius()

    def spectral_upper(self) -> float:
        """At least ‖A‖₂, and within a relative 1e-5 of it (see `norms.gram_upper`)."""
        return gram_upper(self.weight.to(torch.float64)[None], guess=self.spectral())

    def scaled(self, scale: Tensor) -> Self:
        """diag(scale) A."""
        return replace(self, weight=self.weight * scale[:, None])

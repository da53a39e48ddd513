"""Dense matrices as operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv
from torch import Tensor
from torch.nn import functional as F

from cushion.nets.operators.norms import gram_upper
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.path_sums import PathSums, Powers


class Matrix(Operator):
    """A map that is its weight, a matrix [output_size, input_size]."""

    def dense(self) -> Tensor:
        """The weight itself."""
        return self.weight

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


@dataclass(frozen=True, eq=False)
class Linear(Matrix):
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

    def column_energies(self) -> Tensor:
        """Σ over outputs of weight²: [in]."""
        return self.weight.square().sum(0)

    def scaled(self, scale: Tensor) -> Self:
        """diag(scale) A."""
        return replace(self, weight=self.weight * scale[:, None])

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Linear:
        """A matrix has no setting."""
        del entry
        _, _ = weight.shape
        return cls(weight)

    def _sums_before(
        self,
        sums: Sequence[PathSums | None],
        powers: Powers,
        weight: NDArray[Any],
        units: Sequence[int],
    ) -> list[PathSums | None]:
        totals = [np.zeros(weight.shape[1]) for _ in sums]
        step = max(1, powers.block // weight.shape[1])
        for start in range(0, len(weight), step):
            for at, block in enumerate(powers.each(weight[start : start + step], units)):
                if (one := sums[at]) is not None:
                    part = one.values.ravel()[start : start + step]
                    totals[at] = dgemv(1.0, block.T, part, 1.0, totals[at], overwrite_y=1)
        return [
            one and PathSums(total[:, None, None]) for one, total in zip(sums, totals, strict=True)
        ]

"""Sums over the entries of a matrix, all of them in one pass over its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BLOCK = 1 << 18  # entries that are widened at a time: they stay in the cache
_UNIT = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class EntrySums:
    """Of the matrix W / unit, in float64: Σ|w|, Σw², Σ|w|³ of every row, Σ|w| of every column."""

    rows: Tensor  # [3, rows]
    columns: Tensor  # [columns]
    unit: float

    def row_norms(self, p: int) -> Tensor:
        """The ℓ_p norms of the rows of W, p from 1 to 3."""
        norms: Tensor = self.rows[p - 1] ** (1 / p) * self.unit
        return norms

    def frobenius(self) -> float:
        return self.unit * math.sqrt(float(self.rows[1].sum()))

    def spectral_upper(self) -> float:
        """min(‖W‖_F, √(largest column sum · largest row sum) of |W|), at least ‖W‖₂ with rounding.

        Sums of n numbers err by less than n·u of themselves; both have at most n + 4 roundings.
        """
        count = self.rows.shape[1] * len(self.columns)
        sums = math.sqrt(float(self.rows[0].max())) * math.sqrt(float(self.columns.max()))
        return min(self.unit * sums, self.frobenius()) * (1 + 4 * (count + 8) * _UNIT)


def entry_sums(weight: Tensor, unit: float = 1.0) -> EntrySums:
    """The sums of unit · weight; blocks of rows are widened to float64, never the whole.

    Cubes must stay in float64's range: of float32 numbers they do, others are scaled before.
    """
    step = max(1, _BLOCK // max(1, weight.shape[1]))
    columns = weight.new_zeros(weight.shape[1], dtype=torch.float64)
    rows = weight.new_zeros(3, len(weight), dtype=torch.float64)
    for start in range(0, len(weight), step):
        sizes = weight[start : start + step].to(torch.float64, copy=True).abs_()
        found = rows[:, start : start + step]
        found[0], columns = sizes.sum(1), columns + sizes.sum(0)
        squares = sizes.square()
        found[1], found[2] = squares.sum(1), squares.mul_(sizes).sum(1)
    return EntrySums(rows, columns, unit)

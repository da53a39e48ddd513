"""The batch itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from cushion.nets.operations.operation import Operation, Shape
from cushion.nets.operators.path_sums import PathSums


@dataclass(frozen=True, eq=False)
class Input(Operation):
    """Where the net begins: its node reads no other, and nobody computes it."""

    def __call__(self, x: Tensor) -> Tensor:
        return x

    def output_shape(self, shape: Shape) -> Shape:
        return shape

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        return []

"""ReLU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.operations.operation import Masked, Operation, Shape
from cushion.nets.operations.vocabulary import Step, feature, traces
from cushion.nets.operators.path_sums import PathSums


@dataclass(frozen=True)
class ReLU(Operation):
    """max(x, 0); at exactly 0 it counts as inactive."""

    unitwise: ClassVar[bool] = True

    def __call__(self, x: Tensor) -> Tensor:
        return F.relu(x)

    def output_shape(self, shape: Shape) -> Shape:
        return shape

    def linearise(self, x: Tensor) -> tuple[Tensor, Masked]:
        return F.relu(x), Masked((x > 0).to(x.dtype))

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        return [sums]

    def decisions(self, shape: Shape) -> int:
        """One a unit."""
        return math.prod(shape)


@traces(nn.ReLU, F.relu, torch.relu, "relu")
def relu(x: Any, inplace: bool = False) -> Step:
    """max(x, 0)."""
    return Step("relu", (feature(x),), lambda _: ReLU(), in_place=inplace)


@traces(F.relu_, torch.relu_, "relu_")
def relu_(x: Any) -> Step:
    """The same, written over x."""
    return replace(relu(x), in_place=True)

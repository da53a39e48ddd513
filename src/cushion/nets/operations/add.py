"""Addition of branches."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cushion.nets.operations.operation import Join, Shape
from cushion.nets.operations.vocabulary import Refused, Step, feature, traces
from cushion.nets.operators.path_sums import PathSums


@dataclass(frozen=True)
class Add(Join):
    """The sum of two or more maps of one shape."""

    def __call__(self, *x: Tensor) -> Tensor:
        total = x[0]
        for term in x[1:]:
            total = total + term
        return total

    def output_shape(self, *shapes: Shape) -> Shape:
        if len(set(shapes)) != 1:
            raise Refused(
                f"it adds maps of shapes {' and '.join(map(str, shapes))}",
                "bring both branches to one shape",
            )
        return shapes[0]

    def push(self, parts: Sequence[Tensor | None], shapes: Sequence[Shape]) -> Tensor:
        present = [part for part in parts if part is not None]
        return torch.stack(present).sum(0) if len(present) > 1 else present[0].clone()

    def pull(self, t: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
        return [t, *(t.clone() for _ in shapes[1:])]

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        return [sums for _ in shapes]


@traces(torch.add, operator.add, "add")
def add(x: Any, other: Any, *, alpha: Any = 1) -> Step:
    """A residual addition."""
    if alpha != 1:
        raise Refused(f"it adds with alpha={alpha}", "scale the weights of that branch instead")
    return Step("add", (feature(x), feature(other)), lambda *_: Add())


@traces(operator.iadd, "add_")
def add_(x: Any, other: Any, *, alpha: Any = 1) -> Step:
    """The same, written over x."""
    return replace(add(x, other, alpha=alpha), in_place=True)

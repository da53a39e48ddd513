"""Branches that meet: their sum, or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
            reason = f"it adds maps of shapes {' and '.join(map(str, shapes))}"
            raise Refused(reason, "bring both branches to one shape")
        return shapes[0]

    def push(self, parts: Sequence[Tensor | None], shapes: Sequence[Shape]) -> Tensor:
        present = [part for part in parts if part is not None]
        return torch.stack(present).sum(0) if len(present) > 1 else present[0].clone()

    def pull(self, t: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
        return [t, *(t.clone() for _ in shapes[1:])]

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        return [sums for _ in shapes]


@dataclass(frozen=True)
class Cat(Join):
    """Maps joined along their channels."""

    def __call__(self, *x: Tensor) -> Tensor:
        return torch.cat(x, dim=1)

    def output_shape(self, *shapes: Shape) -> Shape:
        if any(shape[1:] != shapes[0][1:] for shape in shapes):
            fix = "bring all branches to one height and width"
            raise Refused(f"it joins maps of shapes {shapes}", fix)
        return sum(shape[0] for shape in shapes), *shapes[0][1:]

    def push(self, parts: Sequence[Tensor | None], shapes: Sequence[Shape]) -> Tensor:
        present = next(part for part in parts if part is not None)
        whole = [
            present.new_zeros((*present.shape[:2], *shape)) if part is None else part
            for part, shape in zip(parts, shapes, strict=True)
        ]
        return torch.cat(whole, dim=2)

    def pull(self, t: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
        return list(torch.split(t, [shape[0] for shape in shapes], dim=2))

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        parts = np.split(sums.values, np.cumsum([shape[0] for shape in shapes])[:-1])
        return [PathSums(part, sums.rows, sums.columns, sums.exponent).in_range() for part in parts]


def add(x: Any, other: Any, *, alpha: Any = 1, in_place: bool = False) -> Step:
    if alpha != 1:
        raise Refused(f"it adds with alpha={alpha}", "scale the weights of that branch instead")
    return Step("add", (feature(x), feature(other)), lambda *_: Add(), in_place=in_place)


@traces(torch.cat, torch.concat, torch.concatenate)
def cat(tensors: Any = None, dim: int = 0, *, axis: int | None = None) -> Step:
    where = dim if axis is None else axis
    if not isinstance(tensors, (tuple, list)):
        fix = "pass a list: torch.cat([a, b], 1)"
        raise Refused("its operands are not a list of feature maps", fix)

    def build(*shapes: Shape) -> Cat:
        if where % (1 + len(shapes[0])) != 1:
            fix = "join along the channels: torch.cat([...], 1)"
            raise Refused(f"it joins along axis {where}", fix)
        return Cat()

    return Step("concatenate", tuple(feature(t) for t in tensors), build)

"""Branches side by side."""

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
class Cat(Join):
    """Maps joined along their channels."""

    def __call__(self, *x: Tensor) -> Tensor:
        return torch.cat(x, dim=1)

    def output_shape(self, *shapes: Shape) -> Shape:
        if any(shape[1:] != shapes[0][1:] for shape in shapes):
            raise Refused(
                f"it joins maps of shapes {shapes}", "bring all branches to one height and width"
            )
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


@traces(torch.cat, torch.concat, torch.concatenate)
def cat(tensors: Any = None, dim: int = 0, *, axis: int | None = None) -> Step:
    """A concatenation of channels."""
    where = dim if axis is None else axis
    if not isinstance(tensors, (tuple, list)):
        raise Refused(
            "its operands are not a list of feature maps", "pass a list: torch.cat([a, b], 1)"
        )

    def build(*shapes: Shape) -> Cat:
        if where % (1 + len(shapes[0])) != 1:
            raise Refused(
                f"it joins along axis {where}", "join along the channels: torch.cat([...], 1)"
            )
        return Cat()

    return Step("concatenate", tuple(feature(t) for t in tensors), build)

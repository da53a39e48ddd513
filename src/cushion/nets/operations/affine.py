"""Affine layers: a linear map and a bias. linear.py, conv2d.py and batch_norm.py make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.entries import flag, sides
from cushion.nets.operations.operation import Operation, Shape
from cushion.nets.operators import Operator
from cushion.nets.operators.path_sums import PathSums

# kind -> the operator that a layer of that kind has, if it was not compressed to something else
KINDS: dict[str, type[Operator]] = {}


@dataclass(frozen=True, eq=False)
class Affine(Operation):
    """x -> A x + b, with A an operator and b one number per output channel (or none).

    kind: one of KINDS. Its derivative is its operator, and sums over paths pass it for several
    exponents at a time (`Operator.sums_before`).
    """

    operator: Operator
    bias: Tensor | None
    kind: str

    def __call__(self, x: Tensor) -> Tensor:
        return self.operator.apply(x, self.bias)

    @property
    def parameters(self) -> int:
        """Numbers in weight and bias."""
        return self.operator.parameters + (0 if self.bias is None else self.bias.numel())

    def output_shape(self, shape: Shape) -> Shape:
        if self.operator.input_shape != shape:
            raise BadInput(f"it reads maps of shape {self.operator.input_shape}, not {shape}")
        return self.operator.output_shape

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        raise NotImplementedError("see Operator.sums_before")

    def to(self, dtype: torch.dtype) -> Self:
        bias = None if self.bias is None else self.bias.detach().to(dtype, copy=True)
        return replace(self, operator=self.operator.to(dtype), bias=bias)

    def describe(self) -> dict[str, Any]:
        return {
            "op": type(self).__name__,
            "kind": self.kind,
            "operator": type(self.operator).__name__,
            "weight": list(self.operator.weight.shape),
            "bias": self.bias is not None,
            **self.operator.setting,
        }

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Affine:
        kind = KINDS[entry["kind"]]
        if kind.__name__ != entry["operator"]:
            raise ValueError("no such layer")
        zero = torch.zeros((), dtype=dtype)
        operator = kind.rebuild(entry, zero.expand(sides(entry["weight"])))
        bias = zero.expand(operator.output_shape[0]) if flag(entry["bias"]) else None
        return cls(operator, bias, entry["kind"])


def role(kind: str) -> str:
    """What a report calls a layer of this kind."""
    return f"affine ({kind})"

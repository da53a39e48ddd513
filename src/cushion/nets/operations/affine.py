"""Affine layers: a linear map and a bias, from dense layers, convolutions and batch-norms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.entries import flag, sides
from cushion.nets.operations.operation import Operation, Shape, Unchanging
from cushion.nets.operations.vocabulary import Refused, Step, feature, pair, tensor, traces
from cushion.nets.operators import Conv2d, Diagonal, Linear, Operator
from cushion.nets.operators.conv2d import same_padding

# kind -> the operator that a layer of that kind has, if it was not compressed to something else
KINDS: dict[str, type[Operator]] = {"linear": Linear, "conv2d": Conv2d, "batchnorm": Diagonal}


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
        return self.operator.parameters + (0 if self.bias is None else self.bias.numel())

    def linearise(self, x: Tensor) -> tuple[Tensor, Unchanging]:
        return self(x), Unchanging(replace(self, bias=None), tuple(x.shape[1:]))

    def adjoint(self, t: Tensor, shape: Shape) -> Tensor:
        return self.operator.adjoint(t)

    def output_shape(self, shape: Shape) -> Shape:
        if self.operator.input_shape != shape:
            raise BadInput(f"it reads maps of shape {self.operator.input_shape}, not {shape}")
        return self.operator.output_shape

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
        bias = zero.expand(operator.channels) if flag(entry["bias"]) else None
        return cls(operator, bias, entry["kind"])


def role(kind: str) -> str:
    """What a report calls a layer of this kind."""
    return f"affine ({kind})"


def _step(kind: str, x: Any, bias: Any, operator: Callable[[Shape], Operator]) -> Step:
    bias = None if bias is None else tensor(bias)
    return Step(role(kind), (feature(x),), lambda shape: Affine(operator(shape), bias, kind))


@traces(nn.Linear, F.linear)
def linear(x: Any, weight: Any, bias: Any = None) -> Step:
    """x Wᵀ + b on vectors."""
    weight = tensor(weight)

    def operator(shape: Shape) -> Linear:
        if len(shape) != 1:
            reason = f"it reads the last axis of a feature map of shape {shape}, once per position"
            raise Refused(reason, "flatten the map before it, or use a 1x1 Conv2d")
        if shape[0] != (reads := weight.shape[1]):
            raise BadInput(f"it reads {reads} numbers but gets {shape[0]}; check the input shape")
        return Linear(weight)

    return _step("linear", x, bias, operator)


@traces(nn.Conv2d, F.conv2d, torch.conv2d)
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Step:
    weight, steps, spread = tensor(weight), pair(stride), pair(dilation)
    if padding == "same":
        zeros = same_padding((weight.shape[2], weight.shape[3]), spread)
    else:
        high, wide = pair(0 if padding == "valid" else padding)
        zeros = (high, high, wide, wide)
    if padding_mode != "zeros" and any(zeros):
        raise Refused(f"it pads with padding_mode={padding_mode!r}", "use padding_mode='zeros'")

    def operator(shape: Shape) -> Conv2d:
        return Conv2d(weight, shape, steps, zeros, spread, groups)

    return _step("conv2d", x, bias, operator)


@traces(nn.BatchNorm1d, nn.BatchNorm2d, F.batch_norm)
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Step:
    """γ (x - mean) / √(var + ε) + β with fixed statistics: one factor and one shift a channel."""
    del momentum
    if training or running_mean is None or running_var is None:
        raise Refused(
            "it normalises with the statistics of each batch, also in eval mode",
            "use track_running_stats=True and train it so that running statistics exist",
        )
    scale = torch.rsqrt(tensor(running_var) + eps)
    if weight is not None:
        scale = scale * tensor(weight)
    shift = -tensor(running_mean) * scale
    if bias is not None:
        shift = shift + tensor(bias)

    def operator(shape: Shape) -> Diagonal:
        if len(shape) not in (1, 3):
            fix = "use it on vectors or on (channels, height, width)"
            raise Refused(f"it normalises a feature map of shape {shape}", fix)
        if shape[0] != (reads := len(scale)):
            raise BadInput(f"it reads {reads} channels but gets {shape[0]}; check the input shape")
        return Diagonal(scale, shape)

    return _step("batchnorm", x, shift, operator)

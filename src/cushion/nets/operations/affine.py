"""Affine layers: a linear map and a bias, from dense layers, convolutions and batch-norms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from cushion.errors import BadInput
from cushion.nets.entries import flag, sides
from cushion.nets.operations.operation import Operation, Shape, Unchanging
from cushion.nets.operations.selections import Pad
from cushion.nets.operations.vocabulary import Refused, Step, feature, tensor, traces
from cushion.nets.operators import (
    Conv2d,
    ConvNd,
    Diagonal,
    Linear,
    Operator,
    Positionwise,
    convolution,
)

# kind -> the operator that a layer of that kind has, if it was not compressed to something else
KINDS: dict[str, type[Operator]] = {
    "linear": Linear,
    "positionwise": Positionwise,  # a linear layer on the last axis of a map
    "conv2d": Conv2d,
    "conv": ConvNd,  # any other convolution
    "batchnorm": Diagonal,
    "scale": Diagonal,  # constants that multiply, or are added
}


@dataclass(frozen=True, eq=False)
class Affine(Operation):
    """x -> A x + b, with A an operator and b one number per output channel (or none).

    kind: one of KINDS. Its derivative is its operator, and sums over paths pass it for several
    exponents at a time (`Operator.sums_before`). factors: of a batch-norm that was folded in, one a
    row: the module's own weight was multiplied by them.
    """

    operator: Operator
    bias: Tensor | None
    kind: str
    factors: Tensor | None = None

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
        bias, factors = (
            None if one is None else one.detach().to(dtype, copy=True)
            for one in (self.bias, self.factors)
        )
        return replace(self, operator=self.operator.to(dtype), bias=bias, factors=factors)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        bias, factors = (None if one is None else change(one) for one in (self.bias, self.factors))
        operator = self.operator.with_weight(change(self.operator.weight))
        return replace(self, operator=operator, bias=bias, factors=factors)

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


def _affine(kind: str, operator: Operator, bias: Tensor | None) -> Affine:
    """Its kind is the rule's, unless that names another operator."""
    if type(operator) is not KINDS[kind]:
        kind = next(name for name, made in KINDS.items() if made is type(operator))
    return Affine(operator, bias, kind)


def _step(kind: str, x: Any, bias: Any, operator: Callable[[Shape], Operator]) -> Step:
    bias = None if bias is None else tensor(bias)
    return Step(role(kind), (feature(x),), lambda shape: _affine(kind, operator(shape), bias))


@traces(nn.Linear, NonDynamicallyQuantizableLinear, F.linear)
def linear(x: Any, weight: Any, bias: Any = None) -> Step:
    """x Wᵀ + b on vectors, or on the last axis of a map, once per position."""
    weight = tensor(weight)

    def operator(shape: Shape) -> Operator:
        if shape[-1] != (reads := weight.shape[1]):
            raise BadInput(f"it reads {reads} numbers but gets {shape[-1]}; check the input shape")
        return Linear(weight) if len(shape) == 1 else Positionwise(weight, shape)

    return _step("linear", x, bias, operator)


@traces(nn.Conv2d, F.conv2d, torch.conv2d)
@traces(nn.Conv1d, F.conv1d, torch.conv1d)
@traces(nn.Conv3d, F.conv3d, torch.conv3d)
def conv(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Step:
    """With a padding other than zeros, what it repeats becomes an operation of its own."""
    weight = tensor(weight)
    kind = "conv2d" if weight.ndim == 4 else "conv"
    plain = padding_mode == "zeros"

    def operator(shape: Shape) -> Operator:
        zeros = padding if plain else 0
        options = {"stride": stride, "padding": zeros, "dilation": dilation, "groups": groups}
        return convolution(weight, shape, **options)

    step = _step(kind, x, bias, operator)
    if plain:
        return step
    like = convolution(weight, _readable(weight, groups), padding=padding, dilation=dilation)
    zeros = like.padding
    sides = tuple(side for at in range(len(zeros) - 2, -1, -2) for side in zeros[at : at + 2])
    first = Step("pad", step.inputs, lambda _: Pad(sides, padding_mode))
    return replace(first, then=replace(step, inputs=())) if any(sides) else step


def _readable(weight: Tensor, groups: int) -> Shape:
    """Some shape that a convolution with this weight can read."""
    return weight.shape[1] * groups, *(1 << 12 for _ in weight.shape[2:])


@traces(nn.ConvTranspose2d, F.conv_transpose2d, torch.conv_transpose2d)
@traces(nn.ConvTranspose1d, F.conv_transpose1d, torch.conv_transpose1d)
@traces(nn.ConvTranspose3d, F.conv_transpose3d, torch.conv_transpose3d)
def conv_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Step:
    weight = tensor(weight)

    def operator(shape: Shape) -> Operator:
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        made = {"transposed": True, "output_padding": output_padding}
        return convolution(weight, shape, **options, **made)

    return _step("conv", x, bias, operator)


@traces(nn.BatchNorm3d)
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
        if shape[0] != (reads := len(scale)):
            raise BadInput(f"it reads {reads} channels but gets {shape[0]}; check the input shape")
        return Diagonal(scale, shape)

    return _step("batchnorm", x, shift, operator)

"""Activations other than ReLU: a function of one number, with its derivative and its steepness."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.operations.operation import Operation, Scaled, Shape
from cushion.nets.operations.vocabulary import Refused, Step, feature, tensor, traces
from cushion.nets.operators.path_sums import PathSums


class Elementwise(Operation):
    """Each output is a function of its own input; the derivative is torch's, kinks included."""

    def linearise(self, x: Tensor) -> tuple[Tensor, Scaled]:
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            y = self(at)
            (slope,) = torch.autograd.grad(y, at, torch.ones_like(y))
        return y.detach(), Scaled(slope)

    def feeds_one(self, shape: Shape) -> bool:
        return True

    @property
    def steepest(self) -> float:
        """At least the largest |derivative|."""
        raise NotImplementedError

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        return self.steepest, self.steepest

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        """f(x) = d x with |d| ≤ 1: sums over paths bound the outputs as with ReLU."""
        return [sums] if self.contracts else super().path_sums(sums, shapes, p)

    @property
    def contracts(self) -> bool:
        return self.homogeneous and self.steepest <= 1


# name -> torch's function, the largest |derivative| (rounded up), pieces if it is piecewise linear
_CURVES: dict[str, tuple[Callable[[Tensor], Tensor], float, int]] = {
    "relu6": (F.relu6, 1.0, 3),
    "hardsigmoid": (F.hardsigmoid, 0.1666668, 3),
    "hardswish": (F.hardswish, 1.5, 0),
    "gelu": (F.gelu, 1.12905, 0),
    "gelu-tanh": (partial(F.gelu, approximate="tanh"), 1.12915, 0),
    "silu": (F.silu, 1.09985, 0),
    "mish": (F.mish, 1.08850, 0),
    "tanh": (torch.tanh, 1.0, 0),
    "sigmoid": (torch.sigmoid, 0.25, 0),
    "softplus": (F.softplus, 1.0, 0),
    "softsign": (F.softsign, 1.0, 0),
    "logsigmoid": (F.logsigmoid, 1.0, 0),
    "selu": (F.selu, 1.75810, 0),
}


@dataclass(frozen=True)
class Curve(Elementwise):
    """A named function without parameters: one of those of `_CURVES`."""

    homogeneous: ClassVar[bool] = False
    name: str

    def __call__(self, x: Tensor) -> Tensor:
        return _CURVES[self.name][0](x)

    @property
    def piecewise_linear(self) -> bool:  # type: ignore[override]
        return _CURVES[self.name][2] > 0

    @property
    def steepest(self) -> float:
        return _CURVES[self.name][1]

    def decisions(self, shape: Shape) -> int:
        """A sign for each bend."""
        pieces = _CURVES[self.name][2]
        return (pieces - 1) * math.prod(shape) if pieces else super().decisions(shape)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Curve:
        if entry["name"] not in _CURVES:
            raise ValueError("no such function")
        return cls(entry["name"])


@dataclass(frozen=True)
class Clipped(Elementwise):
    """min(max(x, low), high)."""

    homogeneous: ClassVar[bool] = False
    low: float
    high: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.hardtanh(x, self.low, self.high)

    @property
    def steepest(self) -> float:
        return 1.0

    def decisions(self, shape: Shape) -> int:
        return 2 * math.prod(shape)

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Clipped:
        return cls(_number(entry["low"]), _number(entry["high"]))


@dataclass(frozen=True)
class ELU(Elementwise):
    """x above 0, alpha·(exp(x / width) - 1) below: ELU with width 1, CELU with width = alpha."""

    homogeneous: ClassVar[bool] = False
    piecewise_linear: ClassVar[bool] = False
    alpha: float
    width: float

    def __call__(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, self.alpha * torch.expm1(x.clamp_max(0) / self.width))

    @property
    def steepest(self) -> float:
        return max(1.0, abs(self.alpha / self.width))

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> ELU:
        return cls(_number(entry["alpha"]), _number(entry["width"]))


@dataclass(frozen=True, eq=False)
class LeakyReLU(Elementwise):
    """x above 0, slope·x below: one slope for all, or one for each channel (PReLU)."""

    slope: Tensor  # [1] or [C]
    learnt: bool = False  # whether training chose the slopes

    def __call__(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.slope)

    @property
    def steepest(self) -> float:
        return max(1.0, float(self.slope.abs().max()))

    def decisions(self, shape: Shape) -> int:
        return math.prod(shape)

    def output_shape(self, shape: Shape) -> Shape:
        if len(self.slope) not in (1, shape[0]):
            reason = f"its {len(self.slope)} slopes meet {shape[0]} channels"
            raise Refused(reason, "give it one slope, or one a channel")
        return shape

    def to(self, dtype: torch.dtype) -> Self:
        return dataclasses.replace(self, slope=self.slope.detach().to(dtype, copy=True))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        return dataclasses.replace(self, slope=change(self.slope))

    def describe(self) -> dict[str, Any]:
        return {"op": "LeakyReLU", "slope": self.slope.tolist()}

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> LeakyReLU:
        # a file does not say whether training chose them
        slope = torch.tensor([_number(one) for one in entry["slope"]], dtype=dtype)
        return cls(slope, learnt=True)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError("not a number")
    return float(value)


def _step(name: str, x: Any, op: Operation, in_place: bool) -> Step:
    return Step(name, (feature(x),), lambda _: op, in_place=in_place)


def _curve(name: str, x: Any, inplace: bool = False) -> Step:
    return _step(name, x, Curve(name), bool(inplace))


_MODULES = {
    "relu6": (nn.ReLU6, F.relu6),
    "hardsigmoid": (nn.Hardsigmoid, F.hardsigmoid),
    "hardswish": (nn.Hardswish, F.hardswish),
    "silu": (nn.SiLU, F.silu),
    "mish": (nn.Mish, F.mish),
    "tanh": (nn.Tanh, F.tanh, torch.tanh, "tanh"),
    "sigmoid": (nn.Sigmoid, F.sigmoid, torch.sigmoid, "sigmoid"),
    "softsign": (nn.Softsign, F.softsign),
    "logsigmoid": (nn.LogSigmoid, F.logsigmoid),
    "selu": (nn.SELU, F.selu, torch.selu),
}
for _name, _calls in _MODULES.items():
    traces(*_calls)(partial(_curve, _name))


@traces(nn.GELU, F.gelu)
def gelu(x: Any, approximate: str = "none") -> Step:
    return _curve("gelu-tanh" if approximate == "tanh" else "gelu", x)


@traces(nn.Softplus, F.softplus)
def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Step:
    if (beta, threshold) != (1, 20):
        raise Refused(f"its beta is {beta}, its threshold {threshold}", "use beta=1, threshold=20")
    return _curve("softplus", x)


@traces(nn.Hardtanh, F.hardtanh)
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Step:
    return _step("clip", x, Clipped(float(min_val), float(max_val)), inplace)


@traces(torch.clamp, torch.clip, "clamp", "clip")
def clamp(x: Any, min: Any = None, max: Any = None) -> Step:
    if not (isinstance(min, (int, float)) and isinstance(max, (int, float)) and min <= max):
        raise Refused("it does not clip between two numbers", "use torch.clamp(x, low, high)")
    return hardtanh(x, min, max)


@traces(nn.LeakyReLU, F.leaky_relu)
def leaky_relu(x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Step:
    slope = torch.tensor([float(negative_slope)], dtype=torch.float64)
    return _step("leaky relu", x, LeakyReLU(slope), inplace)


@traces(nn.PReLU, F.prelu, torch.prelu, "prelu")
def prelu(x: Any, weight: Any) -> Step:
    return _step("prelu", x, LeakyReLU(tensor(weight).flatten(), learnt=True), False)


@traces(nn.ELU, F.elu)
def elu(x: Any, alpha: float = 1.0, inplace: bool = False) -> Step:
    return _step("elu", x, ELU(float(alpha), 1.0), inplace)


@traces(nn.CELU, F.celu, torch.celu)
def celu(x: Any, alpha: float = 1.0, inplace: bool = False) -> Step:
    return _step("celu", x, ELU(float(alpha), float(alpha)), inplace)

"""Constants that multiply a feature map or are added to it: `(x - mean) / std` and the like."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cushion.nets.operations.affine import Affine, role
from cushion.nets.operations.joins import add
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.unitwise import Flatten, Unflatten
from cushion.nets.operations.vocabulary import (
    BATCH,
    Feature,
    Refused,
    Step,
    chained,
    feature,
    refusal,
    traces,
)
from cushion.nets.operators import Diagonal


def scaled(x: Any, scale: Any, shift: Any, in_place: bool = False) -> Step:
    """scale·x + shift with constants: a factor and a summand a channel, else one for each unit."""
    shape = feature(x).shape
    by_unit = shape is not None and not (_by_channel(scale, shape) and _by_channel(shift, shape))

    def diagonal(known: Shape) -> Affine:
        factor, summand = (
            _spread(one, shape if by_unit and shape is not None else known)
            .reshape(known[0], -1)[:, 0]
            .clone()
            for one in (scale, shift)
        )
        return Affine(Diagonal(factor, known), summand, "scale")

    if not by_unit:
        return Step(role("scale"), (feature(x),), diagonal, in_place=in_place)
    assert shape is not None
    return chained(role("scale"), x, lambda _: Flatten(), diagonal, lambda _: Unflatten(shape))


def _spread(constant: Any, shape: Shape) -> Tensor:
    """The constant for each unit of one example, float64."""
    value = torch.as_tensor(constant, dtype=torch.float64)
    if value.ndim > len(shape) and len(value) in (1, BATCH) and bool((value == value[:1]).all()):
        value = value[0]
    try:
        return value.broadcast_to(shape)
    except RuntimeError as error:
        said = f"it combines a feature map of shape {shape} with a constant of {tuple(value.shape)}"
        raise Refused(said, "give constants one number a channel") from error


def _by_channel(constant: Any, shape: Shape) -> bool:
    rows = _spread(constant, shape).reshape(shape[0], -1)
    return bool((rows == rows[:, :1]).all())


def _one_feature(x: Any, other: Any) -> bool:
    return isinstance(x, Feature) != isinstance(other, Feature)


@traces(torch.add, operator.add, "add")
def plus(x: Any, other: Any, *, alpha: Any = 1, in_place: bool = False) -> Step:
    if not _one_feature(x, other):
        return add(x, other, alpha=alpha, in_place=in_place)
    if isinstance(x, Feature):
        return scaled(x, 1.0, alpha * other, in_place)
    return scaled(other, alpha, x)


@traces(torch.sub, torch.subtract, operator.sub, "sub")
def minus(x: Any, other: Any, *, alpha: Any = 1, in_place: bool = False) -> Step:
    if not _one_feature(x, other):
        reason = "it takes one feature map from another"
        raise Refused(reason, "change the sign of that branch's weights and add")
    if isinstance(x, Feature):
        return scaled(x, 1.0, -alpha * other, in_place)
    return scaled(other, -alpha, x)


@traces(torch.mul, torch.multiply, operator.mul, "mul", "multiply")
def times(x: Any, other: Any, *, in_place: bool = False) -> Step:
    if not _one_feature(x, other):
        raise refusal("mul")
    x, factor = (x, other) if isinstance(x, Feature) else (other, x)
    return scaled(x, factor, 0.0, in_place)


@traces(torch.div, torch.divide, torch.true_divide, operator.truediv, "div")
def over(x: Any, other: Any, *, rounding_mode: Any = None, in_place: bool = False) -> Step:
    if not (isinstance(x, Feature) and _one_feature(x, other)) or rounding_mode is not None:
        raise refusal("div")
    return scaled(x, 1.0 / torch.as_tensor(other, dtype=torch.float64), 0.0, in_place)


@traces(torch.neg, operator.neg, "neg")
def negative(x: Any) -> Step:
    return scaled(x, -1.0, 0.0)


traces(operator.iadd, "add_")(partial(plus, in_place=True))
traces(operator.isub, "sub_")(partial(minus, in_place=True))
traces(operator.imul, "mul_")(partial(times, in_place=True))
traces(operator.itruediv, "div_")(partial(over, in_place=True))

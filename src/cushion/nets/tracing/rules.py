"""One rule per understood operation: what a module, function or method of torch becomes in a
Network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from cushion.errors import BadInput
from cushion.nets.network import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    Affine,
    AvgPool,
    Cat,
    MaxPool,
    Op,
    ReLU,
    Shape,
)
from cushion.nets.operators import Conv2d, Diagonal, Linear
from cushion.nets.operators.conv2d import same_padding
from cushion.nets.tracing.reshapes import reshape_to
from cushion.nets.tracing.steps import Refused, Result, Step, feature, pair, tensor


def identity(x: Any, *_: Any, **__: Any) -> Result:
    """Changes nothing in eval mode."""
    return feature(x)


def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Result:
    """Functional dropout, which does not know about eval mode by itself."""
    del inplace
    if training and p > 0:
        raise Refused("it also drops units in eval mode", "pass training=self.training")
    return feature(x)


def linear(x: Any, weight: Any, bias: Any = None) -> Result:
    """x Wᵀ + b on vectors."""
    weight, bias = tensor(weight), None if bias is None else tensor(bias)

    def build(shape: Shape) -> tuple[Op, Shape]:
        if len(shape) != 1:
            raise Refused(
                f"it reads the last axis of a feature map of shape {shape}, once per position",
                "flatten the map before it, or use a 1x1 Conv2d",
            )
        if shape[0] != weight.shape[1]:
            raise BadInput(
                f"it reads {weight.shape[1]} numbers but gets {shape[0]}; check the input shape"
            )
        return Affine(Linear(weight), bias, "linear"), (weight.shape[0],)

    return Step("affine (linear)", (feature(x),), build)


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Result:
    """Two-dimensional convolution with zero padding."""
    weight, bias = tensor(weight), None if bias is None else tensor(bias)
    steps, spread = pair(stride), pair(dilation)
    if padding == "same":
        zeros = same_padding((weight.shape[2], weight.shape[3]), spread)
    elif padding == "valid":
        zeros = (0, 0, 0, 0)
    else:
        high, wide = pair(padding)
        zeros = (high, high, wide, wide)
    if padding_mode != "zeros" and any(zeros):
        raise Refused(f"it pads with padding_mode={padding_mode!r}", "use padding_mode='zeros'")

    def build(shape: Shape) -> tuple[Op, Shape]:
        operator = Conv2d(weight, shape, steps, zeros, spread, groups)
        return Affine(operator, bias, "conv2d"), operator.output_shape

    return Step("affine (conv2d)", (feature(x),), build)


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Result:
    """γ (x - mean) / √(var + ε) + β with fixed statistics: one factor and one shift per channel."""
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

    def build(shape: Shape) -> tuple[Op, Shape]:
        if len(shape) not in (1, 3):
            raise Refused(
                f"it normalises a feature map of shape {shape}",
                "use it on vectors or on (channels, height, width)",
            )
        if shape[0] != len(scale):
            raise BadInput(
                f"it reads {len(scale)} channels but gets {shape[0]}; check the input shape"
            )
        return Affine(Diagonal(scale, shape), shift, "batchnorm"), shape

    return Step("affine (batchnorm)", (feature(x),), build)


def relu(x: Any, inplace: bool = False) -> Result:
    """max(x, 0)."""
    del inplace
    return Step("relu", (feature(x),), lambda shape: (ReLU(), shape))


def _pool(role: str, x: Any, op: Any) -> Result:
    def build(shape: Shape) -> tuple[Op, Shape]:
        if len(shape) != 3:
            raise BadInput(
                f"it pools maps (channels, height, width) but gets {shape}; check the input shape"
            )
        try:
            pooled = op(torch.empty(1, *shape, device="meta"))
        except RuntimeError as error:
            raise BadInput(
                f"its windows do not fit into a feature map of shape {shape}; check the input shape"
            ) from error
        return op, tuple(pooled.shape[1:])

    return Step(role, (feature(x),), build)


def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Result:
    """Max pooling."""
    if return_indices:
        raise Refused("it also returns indices", "use return_indices=False")
    kernel = pair(kernel_size)
    steps = pair(stride) if stride not in (None, (), []) else kernel
    return _pool(
        "max pool", x, MaxPool(kernel, steps, pair(padding), pair(dilation), bool(ceil_mode))
    )


def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Result:
    """Average pooling."""
    kernel = pair(kernel_size)
    steps = pair(stride) if stride not in (None, (), []) else kernel
    op = AvgPool(
        kernel, steps, pair(padding), bool(ceil_mode), bool(count_include_pad), divisor_override
    )
    return _pool("average pool", x, op)


def _adaptive(role: str, x: Any, output_size: Any, make: Callable[[tuple[int, int]], Op]) -> Result:
    wanted = (
        (output_size,) * 2
        if output_size is None or isinstance(output_size, int)
        else tuple(output_size)
    )

    def build(shape: Shape) -> tuple[Op, Shape]:
        if len(shape) != 3:
            raise BadInput(
                f"it pools maps (channels, height, width) but gets {shape}; check the input shape"
            )
        high, wide = (
            have if want is None else int(want)
            for want, have in zip(wanted, shape[1:], strict=True)
        )
        return make((high, wide)), (shape[0], high, wide)

    return Step(role, (feature(x),), build)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Result:
    """Adaptive average pooling."""
    return _adaptive("adaptive average pool", x, output_size, AdaptiveAvgPool)


def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Result:
    """Adaptive max pooling."""
    if return_indices:
        raise Refused("it also returns indices", "use return_indices=False")
    return _adaptive("adaptive max pool", x, output_size, AdaptiveMaxPool)


def mean(x: Any, dim: Any = None, keepdim: bool = False) -> Result:
    """x.mean((2, 3)): average pooling to one number a channel."""
    x = feature(x)
    axes = sorted(d % 4 for d in dim) if isinstance(dim, (tuple, list)) else dim
    if axes != [2, 3]:
        raise Refused(
            f"it averages over the axes {dim}", "average over height and width: x.mean((2, 3))"
        )
    step = _adaptive("adaptive average pool", x, 1, AdaptiveAvgPool)
    assert isinstance(step, Step)
    then = None if keepdim else Step("flatten", (), reshape_to(lambda shape: (math.prod(shape),)))
    return Step(step.role, step.inputs, step.build, then)


def add(x: Any, other: Any, *, alpha: Any = 1) -> Result:
    """A residual addition."""
    if alpha != 1:
        raise Refused(f"it adds with alpha={alpha}", "scale the weights of that branch instead")

    def build(left: Shape, right: Shape) -> tuple[Op, Shape]:
        if left != right:
            raise Refused(
                f"it adds maps of shapes {left} and {right}", "bring both branches to one shape"
            )
        return Add(), left

    return Step("add", (feature(x), feature(other)), build)


def cat(tensors: Any = None, dim: int = 0, *, axis: int | None = None) -> Result:
    """A concatenation of channels."""
    where = dim if axis is None else axis
    if not isinstance(tensors, (tuple, list)):
        raise Refused(
            "its operands are not a list of feature maps", "pass a list: torch.cat([a, b], 1)"
        )

    def build(*shapes: Shape) -> tuple[Op, Shape]:
        if where % (1 + len(shapes[0])) != 1:
            raise Refused(
                f"it joins along axis {where}", "join along the channels: torch.cat([...], 1)"
            )
        if any(shape[1:] != shapes[0][1:] for shape in shapes):
            raise Refused(
                f"it joins maps of shapes {shapes}", "bring all branches to one height and width"
            )
        return Cat(), (sum(shape[0] for shape in shapes), *shapes[0][1:])

    return Step("concatenate", tuple(feature(t) for t in tensors), build)

"""The torch function that an ATen call stands for, with the arguments in that function's order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.nn import functional as F

_ATEN = torch.ops.aten

# ATen calls and functions that read the same arguments in the same order
_OF_F = (
    "linear conv1d conv2d conv3d conv_transpose1d relu relu6 gelu silu mish hardswish hardsigmoid "
    "hardtanh leaky_relu elu celu selu softplus layer_norm group_norm pad max_pool1d max_pool2d "
    "avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d "
    "adaptive_max_pool2d dropout alpha_dropout"
)
_OF_TORCH = "tanh sigmoid prelu neg unsqueeze cat permute chunk narrow amax clamp"
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(_ATEN, name).default: getattr(F, name) for name in _OF_F.split()},
    **{getattr(_ATEN, name).default: getattr(torch, name) for name in _OF_TORCH.split()},
    _ATEN.conv1d.padding: F.conv1d,
    _ATEN.conv2d.padding: F.conv2d,
    _ATEN.conv3d.padding: F.conv3d,
    _ATEN.conv_transpose2d.input: F.conv_transpose2d,
    _ATEN.conv_transpose3d.input: F.conv_transpose3d,
    _ATEN.log_sigmoid.default: F.logsigmoid,
    _ATEN.feature_dropout.default: F.dropout2d,
    _ATEN.relu_.default: torch.relu_,
    _ATEN.flatten.using_ints: torch.flatten,
    _ATEN.unflatten.int: torch.unflatten,
    _ATEN.squeeze.dim: torch.squeeze,
    _ATEN.transpose.int: torch.transpose,
    _ATEN.split.Tensor: torch.split,
    _ATEN.split_with_sizes.default: torch.split,
    _ATEN.unbind.int: torch.unbind,
    _ATEN.add.Tensor: torch.add,
    _ATEN.sub.Tensor: torch.sub,
    _ATEN.mul.Tensor: torch.mul,
    _ATEN.div.Tensor: torch.div,
    _ATEN.mean.dim: torch.mean,
    _ATEN.max.dim: torch.max,
    _ATEN.upsample_nearest1d.vec: F.interpolate,
    _ATEN.upsample_nearest2d.vec: F.interpolate,
    _ATEN.upsample_nearest3d.vec: F.interpolate,
}
_WITH_FLAG = "relu6 silu mish hardswish hardsigmoid hardtanh leaky_relu elu celu selu"
_IN_PLACE = {getattr(_ATEN, f"{name}_").default: getattr(F, name) for name in _WITH_FLAG.split()}
_ASSIGNMENTS = {
    _ATEN.add_.Tensor: operator.iadd,
    _ATEN.sub_.Tensor: operator.isub,
    _ATEN.mul_.Tensor: operator.imul,
    _ATEN.div_.Tensor: operator.itruediv,
}
_METHODS = {
    _ATEN.sym_size.int: "size",
    _ATEN.clone.default: "clone",
    _ATEN.detach.default: "detach",
    _ATEN.contiguous.default: "contiguous",
}
_NORMS = {_ATEN.layer_norm.default: 5, _ATEN.group_norm.default: 5}  # then a flag of no effect
VIEWS = (_ATEN.view.default, _ATEN.reshape.default)


def writes(node: fx.Node) -> bool:
    """Whether a call changes its operand, so that it matters even where its result is not read."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def has_indices(node: Any) -> bool:
    """Whether ATen returns a maximum's place too, where the torch function does not."""
    pools = (_ATEN.adaptive_max_pool1d.default, _ATEN.adaptive_max_pool2d.default)
    return node.target in pools


def translate(call: fx.Node) -> None:
    """Rewrite `call` in place; one without a torch function stays as it is."""
    target: Any = call.target
    given: Any = call.args
    if target in _FUNCTIONS:
        call.target, call.args = _FUNCTIONS[target], given[: _NORMS.get(target)]
    elif target in _IN_PLACE:
        call.target, call.kwargs = _IN_PLACE[target], {**call.kwargs, "inplace": True}
    elif target in _ASSIGNMENTS and not call.kwargs:
        call.target = _ASSIGNMENTS[target]
    elif target in _METHODS:
        call.op, call.target, call.kwargs = "call_method", _METHODS[target], {}
    elif target is _ATEN.rsub.Scalar and len(given) == 2:
        call.target, call.args = operator.sub, given[::-1]
    elif target is _ATEN.mT.default:
        call.target, call.args = torch.transpose, (given[0], -2, -1)
    elif target in (_ATEN.slice.Tensor, _ATEN.select.int) and given[1] >= 0:
        x, axis, *part = given
        one = slice(*part) if target is _ATEN.slice.Tensor else part[0]
        call.target, call.args = operator.getitem, (x, (slice(None),) * axis + (one,))
    elif target is _ATEN.batch_norm.default:
        # ATen has weight and bias before the statistics, and a last flag of no effect here.
        x, weight, bias, mean, var, training, momentum, eps, _ = given
        call.target, call.args = F.batch_norm, (x, mean, var, weight, bias, training, momentum, eps)

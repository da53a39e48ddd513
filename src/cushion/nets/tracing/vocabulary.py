"""Which rule reads which module, function or method of torch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from cushion.nets.tracing import reshapes, rules
from cushion.nets.tracing.steps import Result

Rule = Callable[..., Result]


def _norm(m: Any, x: Any) -> Result:
    return rules.batch_norm(x, m.running_mean, m.running_var, m.weight, m.bias, eps=m.eps)


def _conv(m: Any, x: Any) -> Result:
    return rules.conv2d(
        x, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups, m.padding_mode
    )


def _unchanged(_: Any, x: Any) -> Result:
    return rules.identity(x)


# Rules for modules read the module's options and defer to the rule for the function.
MODULES: dict[type[nn.Module], Callable[[Any, Any], Result]] = {
    nn.Linear: lambda m, x: rules.linear(x, m.weight, m.bias),
    nn.Conv2d: _conv,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
    nn.ReLU: lambda _, x: rules.relu(x),
    nn.MaxPool2d: lambda m, x: rules.max_pool2d(
        x, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, m.return_indices
    ),
    nn.AvgPool2d: lambda m, x: rules.avg_pool2d(
        x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad, m.divisor_override
    ),
    nn.AdaptiveAvgPool2d: lambda m, x: rules.adaptive_avg_pool2d(x, m.output_size),
    nn.AdaptiveMaxPool2d: lambda m, x: rules.adaptive_max_pool2d(
        x, m.output_size, m.return_indices
    ),
    nn.Flatten: lambda m, x: reshapes.flatten(x, m.start_dim, m.end_dim),
    nn.Unflatten: lambda m, x: reshapes.unflatten(x, m.dim, m.unflattened_size),
    nn.Identity: _unchanged,
    nn.Dropout: _unchanged,
    nn.Dropout1d: _unchanged,
    nn.Dropout2d: _unchanged,
    nn.AlphaDropout: _unchanged,
    nn.FeatureAlphaDropout: _unchanged,
}

FUNCTIONS: dict[Any, Rule] = {
    F.linear: rules.linear,
    F.conv2d: rules.conv2d,
    torch.conv2d: rules.conv2d,
    F.batch_norm: rules.batch_norm,
    F.relu: rules.relu,
    F.relu_: rules.relu,
    torch.relu: rules.relu,
    torch.relu_: rules.relu,
    F.max_pool2d: rules.max_pool2d,
    torch.max_pool2d: rules.max_pool2d,
    F.avg_pool2d: rules.avg_pool2d,
    F.adaptive_avg_pool2d: rules.adaptive_avg_pool2d,
    F.adaptive_max_pool2d: rules.adaptive_max_pool2d,
    F.dropout: rules.dropout,
    F.dropout2d: rules.dropout,
    F.alpha_dropout: rules.dropout,
    torch.dropout: rules.dropout,
    torch.flatten: reshapes.flatten,
    torch.unflatten: reshapes.unflatten,
    torch.reshape: reshapes.reshape,
    torch.squeeze: reshapes.squeeze,
    torch.unsqueeze: reshapes.unsqueeze,
    torch.mean: rules.mean,
    torch.add: rules.add,
    operator.add: rules.add,
    operator.iadd: rules.add,
    torch.cat: rules.cat,
    torch.concat: rules.cat,
    torch.concatenate: rules.cat,
}

METHODS: dict[str, Rule] = {
    "relu": rules.relu,
    "relu_": rules.relu,
    "flatten": reshapes.flatten,
    "unflatten": reshapes.unflatten,
    "view": reshapes.reshape,
    "reshape": reshapes.reshape,
    "squeeze": reshapes.squeeze,
    "unsqueeze": reshapes.unsqueeze,
    "mean": rules.mean,
    "add": rules.add,
    "add_": rules.add,
    "contiguous": rules.identity,
    "clone": rules.identity,
    "detach": rules.identity,
}

# Operations that write their result over their first operand, so that later readers of it see the
# result.
IN_PLACE = {"relu_", "add_", F.relu_, torch.relu_, operator.iadd}


def plain_type(module: nn.Module) -> type[nn.Module]:
    """The module's class; for a parametrized module (weight_norm, spectral_norm) the class it was
    before.
    """
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)

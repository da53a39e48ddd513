"""Which rule reads which module, function or method of torch, and why well-known others are refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from cushion.tracing import rules
from cushion.tracing.rules import Refused, Result

Rule = Callable[..., Result]


def _norm(m: Any, x: Any) -> Result:
    return rules.batch_norm(x, m.running_mean, m.running_var, m.weight, m.bias, eps=m.eps)


def _conv(m: Any, x: Any) -> Result:
    return rules.conv2d(x, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups, m.padding_mode)


# Rules for modules read the module's options and defer to the rule for the function.
MODULES: dict[type[nn.Module], Callable[[Any, Any], Result]] = {
    nn.Linear: lambda m, x: rules.linear(x, m.weight, m.bias),
    nn.Conv2d: _conv,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
    nn.ReLU: lambda m, x: rules.relu(x),
    nn.MaxPool2d: lambda m, x: rules.max_pool2d(
        x, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, m.return_indices
    ),
    nn.AvgPool2d: lambda m, x: rules.avg_pool2d(
        x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad, m.divisor_override
    ),
    nn.AdaptiveAvgPool2d: lambda m, x: rules.adaptive_avg_pool2d(x, m.output_size),
    nn.AdaptiveMaxPool2d: lambda m, x: rules.adaptive_max_pool2d(x, m.output_size, m.return_indices),
    nn.Flatten: lambda m, x: rules.flatten(x, m.start_dim, m.end_dim),
    nn.Unflatten: lambda m, x: rules.unflatten(x, m.dim, m.unflattened_size),
    nn.Identity: lambda m, x: rules.identity(x),
    nn.Dropout: lambda m, x: rules.identity(x),
    nn.Dropout1d: lambda m, x: rules.identity(x),
    nn.Dropout2d: lambda m, x: rules.identity(x),
    nn.AlphaDropout: lambda m, x: rules.identity(x),
    nn.FeatureAlphaDropout: lambda m, x: rules.identity(x),
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
    torch.flatten: rules.flatten,
    torch.unflatten: rules.unflatten,
    torch.reshape: rules.reshape,
    torch.squeeze: rules.squeeze,
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
    "flatten": rules.flatten,
    "unflatten": rules.unflatten,
    "view": rules.reshape,
    "reshape": rules.reshape,
    "squeeze": rules.squeeze,
    "mean": rules.mean,
    "add": rules.add,
    "add_": rules.add,
    "contiguous": rules.identity,
    "clone": rules.identity,
    "detach": rules.identity,
}

# Operations that write their result over their first operand, so that later readers of it see the result.
IN_PLACE = {"relu_", "add_", F.relu_, torch.relu_, operator.iadd}

_NOT_RELU = ("its activation is not a ReLU", "use ReLU and train again")
_OWN_STATISTICS = (
    "it normalises each example by its own statistics, which is no fixed affine map",
    "use BatchNorm2d or BatchNorm1d",
)
_RECURRENT = ("it is recurrent: the same weights act once per time step", "use a feed-forward net")
_SOFTMAX = (
    "softmax is not piecewise linear",
    "return the logits (a softmax at the end does not change the predicted class; apply it outside the net)",
)
_PRODUCT = ("it multiplies feature maps, which is not affine in the input", "use additions and concatenations")
_ATTENTION = ("attention weights are computed from the input", "use convolutions, linear layers and ReLU")
_DIMENSIONS = ("only two-dimensional convolution and pooling are understood", "write it with its 2d version")
_TRANSPOSED = ("transposed convolution is not understood", "use Conv2d")

_REASONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        "GELU SiLU Mish Tanh Sigmoid LeakyReLU PReLU RReLU ELU SELU CELU ReLU6 Hardtanh Hardswish Hardsigmoid "
        "Softplus Softsign LogSigmoid Threshold gelu silu mish tanh sigmoid leaky_relu prelu elu selu celu relu6 "
        "hardtanh hardswish hardsigmoid softplus softsign logsigmoid threshold clamp abs exp log pow sqrt".split(),
        _NOT_RELU,
    ),
    **dict.fromkeys(
        "LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d RMSNorm LocalResponseNorm layer_norm group_norm "
        "instance_norm rms_norm local_response_norm normalize".split(),
        _OWN_STATISTICS,
    ),
    **dict.fromkeys("RNN LSTM GRU RNNCell LSTMCell GRUCell".split(), _RECURRENT),
    **dict.fromkeys("Softmax LogSoftmax Softmax2d Softmin softmax log_softmax softmin".split(), _SOFTMAX),
    **dict.fromkeys(
        "mul mul_ imul multiply matmul bmm mm einsum baddbmm truediv div div_ Bilinear bilinear".split(), _PRODUCT
    ),
    **dict.fromkeys(
        "MultiheadAttention TransformerEncoderLayer TransformerEncoder TransformerDecoderLayer Transformer "
        "scaled_dot_product_attention multi_head_attention_forward".split(),
        _ATTENTION,
    ),
    **dict.fromkeys(
        "Conv1d Conv3d MaxPool1d MaxPool3d AvgPool1d AvgPool3d BatchNorm3d conv1d conv3d max_pool1d max_pool3d "
        "avg_pool1d avg_pool3d AdaptiveAvgPool1d adaptive_avg_pool1d".split(),
        _DIMENSIONS,
    ),
    **dict.fromkeys("ConvTranspose1d ConvTranspose2d ConvTranspose3d conv_transpose2d".split(), _TRANSPOSED),
    "Embedding": ("its input is a word, not a number", "start the net after the embedding"),
    "SyncBatchNorm": ("synchronised batch-norm is not understood", "convert it to BatchNorm2d"),
}

_GENERIC = (
    "there is no exact rule for it",
    "write it with the supported layers (Linear, Conv2d, batch-norm, ReLU, pooling, flatten, add, concatenate)",
)


def plain_type(module: nn.Module) -> type[nn.Module]:
    """The module's class; for a parametrized module (weight_norm, spectral_norm) the class it was before."""
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


def refusal(name: str) -> Refused:
    """Why the class or function called `name` has no rule."""
    return Refused(*_REASONS.get(name, _GENERIC))

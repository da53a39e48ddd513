"""Modules with weights as affine maps, from the shapes that a pass showed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from cushion.errors import BadInput
from cushion.nets.operations.affine import Affine
from cushion.nets.operations.operation import Shape
from cushion.nets.operators import Conv2d, ConvNd, Diagonal, Linear, Operator, Positionwise

CONVOLUTIONS = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
_CLOSE = {True: 1e-3, False: 0.1}  # of the largest output: rounding, in half precision
_LOUDEST = 1e6
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def weight_of(module: Any) -> Tensor | None:
    """The weight of a dense layer, [out, in], or of a convolution; None for any other module.

    Some nets have dense layers that keep their weight as [in, out] (`nf` outputs): it is turned.
    """
    if isinstance(module, (nn.Linear, *CONVOLUTIONS)):
        weight: Tensor = module.weight
        return weight
    if is_turned(module):
        turned: Tensor = module.weight.T
        return turned
    return None


def is_turned(module: Any) -> bool:
    """Whether the module is a dense layer with its weight as [in, out]."""
    weight = getattr(module, "weight", None)
    return (
        isinstance(getattr(module, "nf", None), int)
        and isinstance(weight, Tensor)
        and weight.ndim == 2
        and weight.shape[1] == module.nf
    )


def is_layer(module: nn.Module) -> bool:
    """Whether the module is of a kind that `affine_of` knows."""
    return isinstance(module, NORMALISATIONS) or weight_of(module) is not None


def proved_affine(module: Any, x: Tensor, y: Tensor) -> Affine | None:
    """The map that the module is, if it computes as that map does; None if it does otherwise.

    A subclass may do in its forward what its attributes do not say, such as padding a map first or
    scaling its weight. So it is tried on noise of the shape of x, [B, *shape], which it gave y for.
    """
    generator = torch.Generator().manual_seed(0)
    # in the layer's own precision, whatever the net ran it in (autocast)
    kind = next((t.dtype for t in (*module.parameters(), *module.buffers())), x.dtype)
    noise = torch.randn(x.shape, generator=generator).to(x.device, kind)
    try:
        start = module(torch.zeros_like(noise))
        moved = module(noise) - start
        louder = float(start.abs().max()) / max(float(moved.abs().max()), 1e-30)
        if 1 < louder < _LOUDEST:  # a large bias would swallow the digits of the difference
            noise *= louder
            moved = module(noise) - start
    except Exception:  # it reads something else than such a tensor
        return None
    for gives in (None, tuple(y.shape[1:])):
        try:
            affine = affine_of(module, tuple(x.shape[1:]), gives)
        except BadInput:  # such a kernel does not fit
            continue
        if affine is None or tuple(affine.operator.output_shape) != tuple(y.shape[1:]):
            continue
        own = affine.operator.weight.dtype
        linear = affine.operator.apply(noise.to(own))
        offset = affine(torch.zeros_like(noise, dtype=own))
        if _agree(moved, linear) and _agree(start, offset):
            return affine
    return None


def _agree(expected: Tensor, found: Tensor) -> bool:
    share = _CLOSE[expected.dtype.itemsize > 2]
    if expected.shape != found.shape:
        return False
    return float((found - expected).abs().max()) <= share * float(expected.abs().max())


def affine_of(module: Any, shape: Shape, gives: Shape | None = None) -> Affine | None:
    """The map that the module is on examples of this shape; None where it is none or unknown.

    gives: the output's shape, where a convolution pads to it instead of as its attributes say.
    """
    weight, bias = weight_of(module), getattr(module, "bias", None)
    if weight is not None:
        weight = weight.detach()
    bias = bias.detach() if isinstance(bias, Tensor) else None
    if isinstance(module, NORMALISATIONS):
        return _normalisation(module, shape)
    if weight is None:
        return None
    if isinstance(module, CONVOLUTIONS):
        operator = _convolution(module, weight, shape, gives)
        kind = type(module).__name__.lower()
        return None if operator is None else Affine(operator, bias, kind)
    operator = Linear(weight) if len(shape) == 1 else Positionwise(weight, shape)
    return Affine(operator, bias, "linear")


def idle_affine(name: str, module: Any) -> Iterator[tuple[str, Affine]]:
    """Maps inside a module that computes with its weights itself: embeddings, attention's
    projections, recurrent layers. Their norms, spectra and tails are known; what they read is not.
    """
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        yield name, Affine(Linear(module.weight.detach().T.contiguous()), None, "embedding")
    elif isinstance(module, nn.MultiheadAttention):
        names = ["q", "k", "v"]
        joint: Any = module.in_proj_weight
        apart = [getattr(module, f"{part}_proj_weight") for part in names]
        weights = apart if joint is None else joint.chunk(3)
        biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        rows = [*zip(names, weights, biases, strict=True)]
        rows.append(("out", module.out_proj.weight, module.out_proj.bias))
        for part, weight, bias in rows:
            own: Tensor | None = None if bias is None else bias.detach()
            yield f"{name}.{part}_proj", Affine(Linear(weight.detach()), own, "attention")
    elif isinstance(module, nn.RNNBase):
        for part, value in module.named_parameters(recurse=False):
            if part.startswith("weight"):
                started: Any = getattr(module, part.replace("weight", "bias", 1), None)
                own = started.detach() if isinstance(started, Tensor) else None
                yield f"{name}.{part}", Affine(Linear(value.detach()), own, "recurrent")


def _convolution(module: Any, weight: Tensor, shape: Shape, gives: Shape | None) -> Operator | None:
    if module.padding_mode != "zeros" or len(shape) != weight.ndim - 1:
        return None
    if isinstance(module, nn.Conv2d):
        zeros = _zeros(module) if gives is None else _padded(module, shape, gives)
        how: Any = (module.stride, zeros, module.dilation, module.groups)
        return Conv2d(weight, shape, *how)
    return ConvNd(
        weight,
        shape,
        module.stride,
        _zeros(module),
        module.dilation,
        module.groups,
        isinstance(module, nn.modules.conv._ConvTransposeNd),
    )


def _zeros(module: Any) -> tuple[int, ...]:
    """Padding before and after each axis, as `ConvNd` has it."""
    axes = len(module.kernel_size)
    if module.padding == "valid":
        return (0, 0) * axes
    if module.padding == "same":
        spread = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
        return tuple(side for whole in spread for side in (whole // 2, whole - whole // 2))
    more = getattr(module, "output_padding", (0,) * axes)
    return tuple(
        side for p, extra in zip(module.padding, more, strict=True) for side in (p, p - extra)
    )


def _padded(module: Any, shape: Shape, gives: Shape) -> tuple[int, ...]:
    """The padding that makes a map of this shape from the input, more of it behind ("same")."""
    zeros: list[int] = []
    how = zip(shape[1:], gives[1:], module.kernel_size, module.stride, module.dilation, strict=True)
    for side, wanted, kernel, step, spread in how:
        whole = max(0, (wanted - 1) * step + spread * (kernel - 1) + 1 - side)
        zeros += [whole // 2, whole - whole // 2]
    return tuple(zeros)


def _normalisation(module: Any, shape: Shape) -> Affine | None:
    scale_shift = normalising(module)
    if scale_shift is None:
        return None
    scale, shift = scale_shift
    return Affine(Diagonal(scale, shape), shift, "batchnorm")


def normalising(module: Any) -> tuple[Tensor, Tensor] | None:
    """γ/√(var + ε) and β - mean·γ/√(var + ε) of a batch-norm, a number a channel each."""
    mean, var = module.running_mean, module.running_var
    if mean is None or var is None:
        return None
    scale = torch.rsqrt(var.detach().double() + module.eps)
    if module.weight is not None:
        scale = scale * module.weight.detach().double()
    shift = -mean.detach().double() * scale
    if module.bias is not None:
        shift = shift + module.bias.detach().double()
    return scale.to(mean.dtype), shift.to(mean.dtype)

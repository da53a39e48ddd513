"""Specs as PyTorch modules: seeded initialisation, readable layer names, traceable by torch.fx."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from cushion.nets.batches import mix_seed
from cushion.nets.specs import Initialisation, Shape, Spec, parse
from cushion.nets.specs.layers import Item, Join, Layer, unrolled


class _Branches(nn.Module):
    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)


class Add(_Branches):
    """The sum of branches that read the same input."""

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.branches[0](x)
        for branch in list(self.branches)[1:]:
            total = total + branch(x)
        return total


class Cat(_Branches):
    """Branches that read the same input, side by side along the channels."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def build(spec: Spec | str, seed: int = 0, *, init: Initialisation = "he") -> nn.Sequential:
    """A float32 module on the CPU: input [b, *input_shape], output [b, classes] scores.

    Layers are named by kind and order: conv1, bn1, relu1, fc1, ... (inside branches
    add1.branches.0.conv2). `init="he"` (He 2015): weights N(0, 2/fan), where fan is k²·out/groups
    for convolutions (what keeps a VGG-19 without batch-norm trainable) and the number of inputs for
    dense layers; biases 0. `init="torch"`: PyTorch's own rule, weights and biases uniform in
    ±1/sqrt(inputs of one output). `init="centred"`: convolutions as "he" and dense layers as
    "torch", and the first layer, if a convolution, starts as if it read (x - 1/2) / (1/4) instead
    of pixels x in [0, 1]. Batch-norms start at scale 1, shift 0, mean 0, variance 1. The weights
    are a function of (spec, seed, init) alone and the global random state is not touched.
    """
    module = build_empty(spec).to_empty(device="cpu")
    first = True
    for name, layer in module.named_modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            # One stream a layer: its start does not depend on the sizes of the layers before it.
            stream = torch.Generator().manual_seed(mix_seed(seed, name, "initialisation"))
            _initialise(layer, stream, init)
            if first and init == "centred" and isinstance(layer, nn.Conv2d):
                _centre(layer)
            first = False
        elif isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            layer.reset_parameters()
    return module


def build_empty(spec: Spec | str) -> nn.Sequential:
    """The module on the meta device: shapes and names without memory."""
    spec = parse(spec) if isinstance(spec, str) else spec
    spec.check()
    with torch.device("meta"):
        modules, _ = _assemble(spec.items, spec.input_shape, Counter())
    return modules


@torch.no_grad()
def _initialise(
    layer: nn.Conv2d | nn.Linear, generator: torch.Generator, init: Initialisation
) -> None:
    fan = layer.weight[0].numel()
    if init == "torch" or (init == "centred" and isinstance(layer, nn.Linear)):
        bound = 1 / math.sqrt(fan)
        for numbers in layer.parameters():
            numbers.uniform_(-bound, bound, generator=generator)
        return
    if isinstance(layer, nn.Conv2d):
        fan = len(layer.weight) * math.prod(layer.kernel_size) // layer.groups
    layer.weight.normal_(0, math.sqrt(2 / fan), generator=generator)
    if layer.bias is not None:
        layer.bias.zero_()


@torch.no_grad()
def _centre(layer: nn.Conv2d) -> None:
    # W·(x - 1/2)/(1/4) + b = 4W·x + (b - 2 Σ W); without a bias only the scale can be taken over.
    layer.weight *= 4
    if layer.bias is not None:
        layer.bias -= layer.weight.sum(dim=(1, 2, 3)) / 2


def _assemble(
    items: tuple[Item, ...], shape: Shape, seen: Counter[str]
) -> tuple[nn.Sequential, Shape]:
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    for item in unrolled(items):
        seen[item.kind] += 1
        name = f"{item.kind}{seen[item.kind]}"
        if isinstance(item, Join):
            results = [_assemble(branch, shape, seen) for branch in item.branches]
            branches = [inner if len(inner) else nn.Identity() for inner, _ in results]
            modules[name] = Add(branches) if item.kind == "add" else Cat(branches)
            shape = item.after([after for _, after in results])
        else:
            modules[name], shape = _module(item, shape), item.after(shape)
    return nn.Sequential(modules), shape


def _module(layer: Layer, shape: Shape) -> nn.Module:
    sliding = layer.stride, layer.padding
    match layer.kind:
        case "conv":
            how = *sliding, layer.dilation, layer.groups, layer.bias
            return nn.Conv2d(shape[0], layer.size, layer.kernel, *how, dtype=torch.float32)
        case "fc":
            return nn.Linear(shape[0], layer.size, bias=layer.bias, dtype=torch.float32)
        case "maxpool":
            return nn.MaxPool2d(layer.size, *sliding)
        case "avgpool":
            return nn.AvgPool2d(layer.size, *sliding)
        case "drop":
            return nn.Dropout(layer.probability)
        case "bn":
            norm = nn.BatchNorm1d if len(shape) == 1 else nn.BatchNorm2d
            return norm(shape[0], dtype=torch.float32)
        case "relu":
            return nn.ReLU()
    return nn.AdaptiveAvgPool2d(1) if layer.kind == "gap" else nn.Flatten()

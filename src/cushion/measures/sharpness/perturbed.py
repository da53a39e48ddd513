"""A net's scores under Gaussian noise in its weights, without drawing these where it can be helped.

The definition adds one ν to the weights and evaluates a mini-batch (as the tests do). But given
its input h, what a dense layer hands on, (W + ν)h + b + ν_b, has independent normal entries with
mean Wh + b and variance Σ_j σ_ij² h_j² + σ_b,i²: `NoisyPass` draws those, a number per output
instead of one per weight. Each example then has a ν of its own. The ν of different layers are
independent, so by induction over the layers the law of one example's scores is exactly the
definition's, and so is the expectation of any mean over examples. What is not kept is the
dependence between the examples of a mini-batch, which only makes their mean vary more from draw to
draw.

A convolution applies one kernel at many positions of an example, whose noises are then dependent:
there, kernels are drawn, one for all examples of a mini-batch. A factor per channel (a batch-norm
that could not be folded) has a draw per example. Every affine node of the graph has a ν of its own:
a module that is called twice is two nodes, which are perturbed separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.measures.sharpness.functional import DrawnPass, MovedNet, module_parameters
from cushion.measures.sharpness.rule import NoiseRule
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operators import Diagonal, Linear

_FAR = 1e15  # entries beyond it, or all below its inverse, have squares that leave float32


def parameters(net: Network | HookedNet) -> Iterator[Tensor]:
    """The weight and then the bias, if any, of every affine node in order; of a net that hooks see,
    every parameter of its module.
    """
    if isinstance(net, HookedNet):
        yield from (value for _, value in module_parameters(net))
        return
    for node in net.affine_layers:
        yield node.affine.operator.weight
        if node.affine.bias is not None:
            yield node.affine.bias


def with_parameters(
    net: Network | HookedNet, changed: Callable[[Tensor], Tensor]
) -> Network | MovedNet:
    """The net with what `changed` makes of each of its `parameters`, in their order."""
    if isinstance(net, HookedNet):
        return MovedNet.of(net, changed)
    changes = {}
    for node in net.affine_layers:
        affine = node.affine
        operator = affine.operator.with_weight(changed(affine.operator.weight))
        bias = None if affine.bias is None else changed(affine.bias)
        changes[node.index] = replace(affine, operator=operator, bias=bias)
    return net.with_affine(changes)


def noisy_passes(
    net: Network | HookedNet, rule: NoiseRule
) -> Callable[[Any, int, torch.Generator], NoisyPass | DrawnPass]:
    """What makes a pass with noise of a batch, its number of draws and a generator."""
    if isinstance(net, HookedNet):
        return lambda x, draws, generator: DrawnPass(net, rule, x, draws, generator)
    return partial(NoisyPass, NoisyNet(net, rule))


class NoisyNet:
    """A net with the standard deviations of its noise at α = 1, prepared once for all draws."""

    def __init__(self, net: Network, rule: NoiseRule) -> None:
        self.net, self.rule = net, rule
        # A dense layer needs variances, σ²; with scale 0 they are all equal, and need no matrix.
        self.spread: dict[int, tuple[Tensor, Tensor | None]] = {}
        for node in net.affine_layers:
            operator, bias = node.affine.operator, node.affine.bias
            weight = rule.unit_std(operator.weight)
            bias = None if bias is None else rule.unit_std(bias)
            if isinstance(operator, Linear):
                weight = weight.square_() if rule.scale else weight[:1, :1].square()
                bias = None if bias is None else bias.square_()
            self.spread[node.index] = weight, bias
        layers = [node.index for node in net.affine_layers]
        behind = set[int]().union(*(net.descendants(index) for index in layers))
        self.first = frozenset(layers) - behind  # their input carries no noise


class NoisyPass:
    """One draw of the noise for each of `draws` mini-batches in x: [draws·b, *input_shape].

    Random: standard normal numbers from `generator`, drawn when scores are first asked for and then
    kept, so that scores at two α differ by nothing else. Kept, too, is what does not depend on α:
    mean and noise of dense layers that read the data directly.
    """

    def __init__(self, noisy: NoisyNet, x: Tensor, draws: int, generator: torch.Generator) -> None:
        self._noisy, self._x, self._draws, self._generator = noisy, x, draws, generator
        self._normals: dict[int, tuple[Tensor, Tensor]] = {}
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def scores(self, alpha: float) -> Tensor:
        """The perturbed net's logits, [draws·b, classes]."""

        def layer(node: Node, h: Tensor) -> Tensor:
            operator = node.affine.operator
            if isinstance(operator, Linear):
                return self._dense(node, h, alpha)
            if isinstance(operator, Diagonal):
                return self._diagonal(node, h, alpha)
            return self._kernels(node, h, alpha)

        return self._noisy.net.evaluate(self._x, layer)

    def _dense(self, node: Node, h: Tensor, alpha: float) -> Tensor:
        if node.index not in self._noisy.first:
            mean, noise = self._mean_and_noise(node, h)
            return mean.add_(noise, alpha=alpha)
        if node.index not in self._kept:
            self._kept[node.index] = self._mean_and_noise(node, h)
        return torch.add(*self._kept[node.index], alpha=alpha)

    def _mean_and_noise(self, node: Node, h: Tensor) -> tuple[Tensor, Tensor]:
        """Wh + b and √(Σ_j σ_ij² h_j² + σ_b,i²)·ε at α = 1: [n, out] each, ε standard normal."""
        weight, bias = self._noisy.spread[node.index]
        normal, _ = self._normal(node, (len(h), *node.shape), (0,))
        largest = torch.linalg.vector_norm(h, torch.inf, dim=1, keepdim=True)
        if bool(((largest > _FAR) | ((largest < 1 / _FAR) & (largest > 0))).any()):
            # Squares would overflow or vanish: take them of h over its largest entry.
            unit = torch.where(largest > 0, largest, torch.ones_like(largest))
            std = _variance(h / unit, weight, None).sqrt_() * unit
            std = std if bias is None else torch.hypot(std, bias.sqrt())
        else:
            std = _variance(h, weight, bias).sqrt_()
        # In place where it has all outputs already: allocating costs more than the product.
        return node.affine(h), std.mul_(normal) if std.shape == normal.shape else std * normal

    def _diagonal(self, node: Node, h: Tensor, alpha: float) -> Tensor:
        """A factor and a summand per channel, drawn for each example."""
        weight, bias = self._noisy.spread[node.index]
        size = (len(h), node.shape[0])
        factors, summands = self._normal(node, size, size if bias is not None else (0,))
        places = (*size, *(1 for _ in node.shape[1:]))
        output = torch.addcmul(node.affine(h), h, (weight * factors).reshape(places), value=alpha)
        if bias is None:
            return output
        return output.add_((bias * summands).reshape(places), alpha=alpha)

    def _kernels(self, node: Node, h: Tensor, alpha: float) -> Tensor:
        """A kernel and a bias for each mini-batch."""
        affine = node.affine
        weight, bias = self._noisy.spread[node.index]
        of_bias = (0,) if bias is None else (self._draws, *bias.shape)
        kernels, biases = self._normal(node, (self._draws, *weight.shape), of_bias)
        outputs = []
        for draw, rows in enumerate(torch.tensor_split(h, self._draws)):
            moved = torch.addcmul(affine.operator.weight, weight, kernels[draw], value=alpha)
            shift = affine.bias
            if bias is not None and shift is not None:
                shift = torch.addcmul(shift, bias, biases[draw], value=alpha)
            outputs.append(Affine(affine.operator.with_weight(moved), shift, affine.kind)(rows))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _normal(self, node: Node, *sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        if node.index not in self._normals:
            net, generator = self._noisy.net, self._generator
            drawn = (torch.randn(size, generator=generator, dtype=net.dtype) for size in sizes)
            first, second = (one.to(net.device) for one in drawn)
            self._normals[node.index] = first, second
        return self._normals[node.index]


def _variance(h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Σ_j σ_ij² h_j² + σ_b,i²: [n, out], or [n, 1] where all σ² are the one number `weight`."""
    if weight.numel() > 1:
        return F.linear(h.square(), weight, bias)
    variance = h.square().sum(1, keepdim=True).mul_(weight)
    return variance if bias is None else variance + bias

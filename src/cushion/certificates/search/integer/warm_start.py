"""A start for integer nets: trained and pruned with real weights and batch normalisation, folded.

Batch normalisation makes the first epochs many times faster than training rounded weights from
noise. Pruning happens here, gradually (the cubic schedule of Zhu and Gupta, "To prune, or not to
prune", 2017), because it is by far the fastest way to few bits: a rate penalty alone moves weights
to zero only slowly against the noise of their gradients. What goes first is what the loss needs
least by second-order reasoning (Le Cun, Denker, Solla, "Optimal brain damage", 1990): weight² times
its mean squared gradient, which no rescaling of layers changes. Folding the normalisation away
(weights times γ/σ, biases β - γμ/σ) leaves a net of the blueprint's own kind, whose weights are
scaled to the grid.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from cushion.certificates.format.limits import Stage
from cushion.certificates.search.integer import trainable
from cushion.certificates.search.integer.balance import balanced
from cushion.certificates.search.integer.blueprints import is_biased

_VALUE_BITS = 3.0  # of a kept weight, about


class _Scaled(nn.Module):
    """Batch normalisation for layers without biases: scales, and moves nothing."""

    eps, momentum, bias = 1e-5, 0.1, None

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(outputs))
        self.running_var = torch.ones(outputs)

    def forward(self, values: Tensor) -> Tensor:
        """values: [n, outputs, positions]"""
        variance = values.var((0, 2), unbiased=False) if self.training else self.running_var
        if self.training:
            self.running_var.lerp_(variance.detach(), self.momentum)
        return values * self.gain(variance)[:, None]

    def gain(self, variance: Tensor) -> Tensor:
        return self.weight / torch.sqrt(variance + self.eps)


class FloatTwin(nn.Module):
    """An integer net's blueprint with real weights and batch normalisation."""

    def __init__(self, net: trainable.TrainableIntegerNet, generator: torch.Generator) -> None:
        super().__init__()
        self.net = [net]  # in a list: its parameters are not ours
        self.weights = nn.ParameterDict()
        self.norms = nn.ModuleDict()
        self.masks: dict[str, Tensor] = {}
        for key, layer in net.affine():
            stored, outputs = layer.source.shape, layer.outputs
            spread = math.sqrt(2.0 / math.prod(stored[1:]))
            self.weights[key] = nn.Parameter(torch.randn(stored, generator=generator) * spread)
            # a linear net has nothing else to centre its inputs
            if int(key) < len(net.stages) or len(net.weights) == 1:
                norm = nn.BatchNorm1d if is_biased(layer) else _Scaled
                self.norms[key] = norm(outputs)
            self.masks[key] = torch.ones(stored)
        self.last_bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels: [n, *shape] -> [n, classes] logits."""
        return self.net[0].walk(pixels, self._sums, lambda values, _: torch.relu(values))

    def _sums(self, key: str, stage: Stage, values: Tensor) -> Tensor:
        net, weight = self.net[0], self.weights[key] * self.masks[key]
        values = net.linear(values, stage, net.expanded(key, weight))
        if key not in self.norms:
            return values + self.last_bias
        # One mean and variance for all positions of a filter: [n, stored outputs, the rest].
        grouped = values.reshape(len(values), len(weight), -1)
        normed: Tensor = self.norms[key](grouped)
        return normed.reshape(values.shape)

    def prune(self, squares: dict[str, Tensor], density: float) -> None:
        """Keep a part of all weights: those with the largest weight² · mean squared gradient a bit.

        A kept weight pays for its value, and for its place the more the sparser its layer is.
        """
        with torch.no_grad():
            worth = {}
            for key, weight in self.weights.items():
                kept = min(0.5, float(self.masks[key].mean()))
                bits = _VALUE_BITS + math.log2((1 - kept) / (kept + 1e-3))
                worth[key] = weight.square() * squares[key] * self.masks[key] / bits
            ranked = torch.cat([values.reshape(-1) for values in worth.values()])
            least = ranked.topk(max(1, round(density * len(ranked)))).values[-1]
            self.masks = {
                key: (values >= least).float() * self.masks[key] for key, values in worth.items()
            }

    def fold(self, pixels: Tensor, spread: float, needs: dict[str, list[Tensor]]) -> None:
        """Hand the numbers to the integer net; kept weights have root mean square `spread` steps.

        pixels: a batch on which shifts are set. needs: mean squared gradients of each layer's
        `numbers`, by which grid steps are balanced (`balance`). The net's answers stay those of the
        twin, up to rounding.
        """
        net = self.net[0]
        self.eval()
        folded, moved, curved = {}, {}, []
        with torch.no_grad():
            for key, weight in self.weights.items():
                gain, moved[key] = self._affine(key, len(weight))
                gain = gain.reshape(-1, *[1] * (weight.ndim - 1))
                folded[key] = weight * self.masks[key] * gain
                curved.append(needs[key][0] / gain.square().clamp_min(1e-12))
        stretches, need = balanced(net.stages, list(folded.values()), curved, spread)
        steps = dict(zip(folded, stretches, strict=True))
        scale = 1.0  # the integer net's values over the twin's, but for its channels' own

        def sums(key: str, stage: Stage, values: Tensor) -> Tensor:
            nonlocal scale
            holder = net.weights[key]
            assert isinstance(holder, trainable.GridWeights)
            holder.real.copy_(folded[key] * steps[key].each)
            holder.mask.copy_(self.masks[key])
            scale *= steps[key].layer
            units = scale * steps[key].channels
            bias = moved[key] * units
            values = net.linear(values, stage, net.expanded(key, holder.real))
            values = values + trainable.along_channels(bias, values)
            net.set_steps(key, values)
            if key in net.biases:  # a step of a bias should matter as much as one of a weight
                matters = float((needs[key][1] / units.square()).mean())
                step = 0.5 * math.log2((need + 1e-30) / (matters + 1e-30))
                net.bias_shifts[key] = max(0, round(step))
                net.biases[key].copy_(bias / 2.0 ** net.bias_shifts[key])
            scale *= 2.0 ** -net.shifts[key]  # of the last layer none
            return values

        with torch.no_grad():
            net.walk(pixels, sums, lambda sums, key: torch.relu(sums) * 2.0 ** -net.shifts[key])
            net.log_scale.fill_(-math.log(scale) - math.log(net.unit_logit()))
        net.refresh()

    def numbers(self, key: str) -> list[Tensor]:
        """What a layer trains: its weights, and what shifts its sums if it has biases."""
        moving = self.norms[key].bias if key in self.norms else self.last_bias
        return [self.weights[key], *([moving] if isinstance(moving, Tensor) else [])]

    def _affine(self, key: str, outputs: int) -> tuple[Tensor, Tensor]:
        """Gains and biases behind a layer's sums: its normalisation, or the last one's bias."""
        if key not in self.norms:
            return torch.ones(outputs), self.last_bias
        norm = self.norms[key]
        if isinstance(norm, _Scaled):
            return norm.gain(norm.running_var), torch.zeros(outputs)
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        return gain, norm.bias - gain * norm.running_mean

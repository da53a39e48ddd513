"""Noise in a net's weights by its definition: weights are drawn, one ν for each mini-batch."""

from __future__ import annotations

import torch
from torch import Tensor

from cushion.measures.sharpness.perturbed import NoiseRule, NoisyNet, with_parameters
from cushion.nets.network import Network


@torch.no_grad()
def perturb_weights(
    net: Network, rule: NoiseRule, alpha: float, generator: torch.Generator
) -> Network:
    """The net with weights and biases w + ν, for one draw of ν."""

    def moved(parameter: Tensor) -> Tensor:
        normal = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        return torch.addcmul(parameter, rule.unit_std(parameter), normal, value=alpha)

    return with_parameters(net, moved)


class ExplicitPass:
    """In the place of `NoisyPass`: the same normal numbers at every α."""

    def __init__(self, noisy: NoisyNet, x: Tensor, draws: int, generator: torch.Generator) -> None:
        self.noisy, self.parts, self.generator = noisy, torch.tensor_split(x, draws), generator
        self.start = generator.get_state()

    def scores(self, alpha: float) -> Tensor:
        self.generator.set_state(self.start)
        drawn = (self.noisy.net, self.noisy.rule, alpha, self.generator)
        return torch.cat([perturb_weights(*drawn).forward(part) for part in self.parts])

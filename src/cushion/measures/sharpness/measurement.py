"""Sharpness of a net on a sample: Keskar's, the largest loss in a box around the weights, by
stochastic ascent, and the curve of expected sharpness over KL.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.errors import Unsupported
from cushion.measures.probing import probe_generator
from cushion.measures.sharpness.expected import expected_sharpness
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.functional import MovedNet
from cushion.measures.sharpness.loss import Losses, all_losses, batch_of, mini_batches
from cushion.measures.sharpness.perturbed import parameters, with_parameters
from cushion.measures.sharpness.records import MaxSharpness, Sharpness
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Network
from cushion.progress import progress


def measure_sharpness(
    net: Network | HookedNet, data: Dataset, options: SharpnessOptions | None = None
) -> Sharpness:
    """Both kinds (Neyshabur 2017, §2.4); neither the net nor the global random state is touched."""
    options = options or SharpnessOptions()
    clean = all_losses(net, data)
    largest = max_sharpness(net, data, options, clean) if options.ascent_steps else None
    mean = expected_sharpness(net, data, options, clean) if options.draws else None
    return Sharpness(len(data), net.parameters, options.seed, largest, mean)


@dataclass(eq=False)
class _Climber:
    """One parameter tensor on its way: w + ν, with |ν| ≤ bound."""

    start: Tensor  # w, the net's own
    bound: Tensor  # α(|w| + 1)
    shift: Tensor  # ν; kept by itself, since w + ν would round it to the precision of w
    velocity: Tensor
    point: Tensor  # w + ν, where the gradient is taken

    @classmethod
    def at(cls, start: Tensor, alpha: float) -> _Climber:
        zeros = torch.zeros_like(start)
        bound = start.abs().add_(1).mul_(alpha)
        return cls(start, bound, zeros, zeros.clone(), start.clone().requires_grad_())

    @torch.no_grad()
    def climb(self, gradient: Tensor, step_size: float, momentum: float) -> None:
        """v ← momentum·v + g, ν ← ν + step·v, then every ν_i into its bounds."""
        self.velocity.mul_(momentum).add_(gradient)
        self.shift.add_(self.velocity, alpha=step_size)
        torch.clamp(self.shift, min=-self.bound, max=self.bound, out=self.shift)
        torch.add(self.start, self.shift, out=self.point)


def ascend(
    net: Network | HookedNet, data: Dataset, options: SharpnessOptions
) -> tuple[Network | MovedNet, list[Tensor]]:
    """The net at the end of the ascent, w + ν, and ν itself, in the order of `parameters`.

    `options.ascent_steps` steps from ν = 0, each up the gradient of the mean cross-entropy of a
    mini-batch, with momentum, then projected onto |ν_i| ≤ max_alpha·(|w_i| + 1). Every parameter
    moves, biases included; a module that is called twice moves as two. Random: the mini-batches,
    from `options.seed`.
    """
    climbers: list[_Climber] = []

    def climbing(parameter: Tensor) -> Tensor:
        climbers.append(_Climber.at(parameter, options.max_alpha))
        return climbers[-1].point

    moving = with_parameters(net, climbing)
    generator = probe_generator(options.seed, "sharpness ascent", 0)
    batches = mini_batches(len(data), options.batch, generator)
    points = [climber.point for climber in climbers]
    for _ in progress(range(options.ascent_steps), "ascent", "step"):
        x, y = batch_of(data, next(batches), net)
        with torch.enable_grad():  # even where the caller has switched gradients off
            loss = F.cross_entropy(moving.evaluate(x), y)
            if not loss.requires_grad:
                said = (
                    "the net's forward switches gradients off (no_grad), and sharpness climbs them"
                )
                raise Unsupported(f"{said}; take that out of the forward")
            gradients = torch.autograd.grad(loss, points, allow_unused=True)
        for climber, gradient in zip(climbers, gradients, strict=True):
            if gradient is not None:  # a branch that nothing reads has none
                climber.climb(gradient, options.step_size, options.momentum)
    for point in points:
        point.requires_grad_(False)
    return moving, [climber.shift for climber in climbers]


def max_sharpness(
    net: Network | HookedNet, data: Dataset, options: SharpnessOptions, clean: Losses
) -> MaxSharpness:
    """ζ_α of eq. 4 as far as the ascent climbs; `clean` are the losses of w itself."""
    end, shifts = ascend(net, data, options)
    found = all_losses(end, data, "loss after ascent")
    difference = max(0.0, found.loss - clean.loss)
    bound = options.max_alpha * (1 - 1e-6)
    both = zip(shifts, parameters(net), strict=True)
    edge = sum(int((shift.abs() >= bound * (start.abs() + 1)).sum()) for shift, start in both)
    return MaxSharpness(
        alpha=options.max_alpha,
        steps=options.ascent_steps,
        batch=min(options.batch, len(data)),
        step_size=options.step_size,
        momentum=options.momentum,
        loss_before=clean.loss,
        loss_after=found.loss,
        error_before=clean.error,
        error_after=found.error,
        difference=difference,
        value=difference / (1 + clean.loss),
        ended_below=found.loss < clean.loss,
        at_the_edge=edge / net.parameters,
    )

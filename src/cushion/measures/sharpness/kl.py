"""Divergences between Gaussians of the weights, in closed form (nats, float64)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def kl_from_centred(weights: Iterable[Tensor], stds: Iterable[Tensor]) -> float:
    """KL(N(w, diag σ²) ‖ N(0, diag σ²)) = ½ Σ w_i²/σ_i² (Neyshabur 2017, under eq. 6).

    weights and stds are tensors of the same shapes. The prior has the posterior's variances: where
    they depend on w it is no prior. A parameter with w_i = σ_i = 0 is the same point in both and
    adds 0; σ_i = 0 ≠ w_i makes the sum infinite.

    >>> kl_from_centred([torch.tensor([3.0, -1.0])], [torch.tensor([1.0, 0.5])])
    6.5
    """
    total = 0.0
    for weight, std in zip(weights, stds, strict=True):
        ratio = weight.detach().double() / std.detach().double()
        total += float(torch.where(weight == 0, torch.zeros_like(ratio), ratio).square().sum())
    return total / 2


def kl_from_unit_gaussian(weights: Iterable[Tensor], std: float) -> float:
    """KL(N(w, σ² I) ‖ N(0, I)) = ½ [‖w‖² + D(σ² - 1 - ln σ²)]: what eq. 6 needs where its prior has
    unit variance.

    >>> kl_from_unit_gaussian([torch.tensor([3.0, 4.0])], 1.0)
    12.5
    """
    weights = list(weights)
    squares = math.fsum(float(weight.detach().double().square().sum()) for weight in weights)
    count = sum(weight.numel() for weight in weights)
    return (squares + count * (std**2 - 1 - math.log(std**2))) / 2


def kl_from_isotropic(
    weights: Sequence[Tensor],
    stds: Sequence[Tensor],
    prior_std: float,
    centre: Sequence[Tensor] | None = None,
) -> float:
    """KL(N(w, diag σ²) ‖ N(w₀, s² I)) = ½ Σ [(σ_i² + (w_i - w₀_i)²)/s² - 1 - ln(σ_i²/s²)].

    `centre` is w₀, such as the weights at initialisation (None: 0); `prior_std` is s.

    >>> w, one = [torch.tensor([3.0, 4.0])], [torch.ones(2)]
    >>> kl_from_isotropic(w, one, 1.0), kl_from_isotropic(w, one, 1.0, centre=w)
    (12.5, 0.0)
    """
    total = 0.0
    for at, (weight, std) in enumerate(zip(weights, stds, strict=True)):
        shift = weight.detach().double()
        if centre is not None:
            shift = shift - centre[at].detach().double()
        variance = (std.detach().double() / prior_std).square()
        total += float((variance + (shift / prior_std).square() - 1 - variance.log()).sum())
    return total / 2

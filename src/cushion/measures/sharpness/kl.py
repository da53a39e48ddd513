"""The divergence between Gaussians of the weights, in closed form (nats, float64)."""

from __future__ import annotations

from collections.abc import Iterable

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

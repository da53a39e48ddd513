"""Errors of a net under isotropic noise in its weights, counted for a binomial bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cushion.data import Dataset
from cushion.measures.probing import probe_generator
from cushion.measures.sharpness.loss import batch_of, sample_losses
from cushion.measures.sharpness.perturbed import NoiseRule, NoisyNet, NoisyPass
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d, LocalConv2d
from cushion.progress import progress

_BATCH = 64  # rows that share their kernels, in a net with convolutions
_STACK = 1024


@dataclass(frozen=True)
class ErrorCount:
    """`errors` among `draws` (row, net) pairs at noise `sigma`; see `independent`."""

    sigma: float
    errors: int
    draws: int
    clusters: int  # groups of pairs that are independent of each other, all of one size


def count_noisy_errors(
    net: Network, data: Dataset, sigmas: Sequence[float], *, draws: int, seed: int
) -> tuple[list[ErrorCount], bool]:
    """For each sigma, errors of nets from N(w, σ²I) on rows drawn uniformly with replacement, about
    `draws` of them.

    The second answer: whether every pair of a row and a net is independent of the others, so that
    the count is binomial with the mean error of Q on S. That is so in nets without convolutions;
    with them, clusters of pairs share kernels and only the clusters' means are independent. Random:
    rows and noise, from `seed`; the same for all sigmas.
    """
    independent = not any(
        isinstance(node.affine.operator, Conv2d | LocalConv2d) for node in net.affine_layers
    )
    noisy = NoisyNet(net, NoiseRule(0.0, 1.0))
    stack = min(draws, _STACK if independent else _BATCH)
    stacks = max(1, round(draws / stack))
    wrong = [0] * len(sigmas)
    for at in progress(range(stacks), "noisy nets", "stack"):
        generator = probe_generator(seed, "noisy errors", at)
        rows = torch.randint(len(data), (stack,), generator=generator).numpy()
        x, y = batch_of(data, rows, net.dtype)
        noise = NoisyPass(noisy, x, 1, generator)
        for i, sigma in enumerate(sigmas):
            _, missed = sample_losses(noise.scores(sigma), y)
            wrong[i] += int(missed.sum())
    total = stacks * stack
    clusters = total if independent else stacks
    return [
        ErrorCount(sigma, errors, total, clusters)
        for sigma, errors in zip(sigmas, wrong, strict=True)
    ], independent

"""What Gaussian noise in the weights does: the expected sharpness E_ν L̂(w + ν) - L̂(w) of
Neyshabur 2017 (eq. 5) at several sizes of noise with its KL, and errors counted for a binomial
bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.probing import probe_generator
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.loss import Losses, batch_of, mini_batches, sample_losses
from cushion.measures.sharpness.perturbed import noisy_passes, parameters
from cushion.measures.sharpness.records import ExpectedSharpness, SharpnessPoint
from cushion.measures.sharpness.rule import NoiseRule
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal, Linear
from cushion.progress import progress, working

_STACK = 1024  # rows that pass the net together: enough for matrix products at full speed
_KERNELS = 64  # rows that share their kernels where errors of a convolutional net are counted
_LARGEST = 1 << 22  # numbers in the largest activation or set of kernels of a stack


def expected_sharpness(
    net: Network | HookedNet, data: Dataset, options: SharpnessOptions, clean: Losses
) -> ExpectedSharpness:
    """Both losses under noise of every alpha, from `options.draws` perturbations each, and the KL.

    `clean` are the losses of w itself. What is averaged is the change that ν makes on the rows of a
    mini-batch, so that it matters little which rows were drawn; ν and -ν, equally likely, are used
    on the same rows, so that what is linear in ν cancels. `perturbed` says what is drawn. Random:
    the mini-batches and ν, both from `options.seed`.
    """
    rule = NoiseRule(options.scale, options.offset)
    changes: list[NDArray[np.float64]] = []  # [2, alphas, pairs of one stack]
    noisy = noisy_passes(net, rule)
    with working("sharpness", options.draws, "draw") as bar:
        for rows, generator in _stacks(net, len(data), options):
            x, y = batch_of(data, rows.reshape(-1), net)
            both = clean.cross_entropy[rows], clean.wrong[rows]
            before = torch.from_numpy(np.stack(both)).to(net.device)  # [2, pairs, b]
            noise = noisy(x, len(rows), generator)
            found = []
            for alpha in options.alphas:
                change = before.new_zeros((2, len(rows)))
                for signed in (alpha, -alpha):
                    losses = sample_losses(noise.scores(signed), y)
                    after = torch.stack([part.double() for part in losses]).reshape(before.shape)
                    if not bool(torch.isfinite(after).all()):
                        what = f"noise at alpha {alpha:g} overflows the net's scores"
                        raise BadInput(f"{what}; use smaller `alphas`")
                    change += (after - before).mean(2) / 2
                found.append(change.cpu().numpy())
            changes.append(np.stack(found, axis=1))
            bar.advance(2 * len(rows))
    whole = np.concatenate(changes, axis=2)
    unit = kl_from_centred(parameters(net), (rule.unit_std(weight) for weight in parameters(net)))
    batch = min(options.batch, len(data))
    by_alpha = zip(options.alphas, whole.swapaxes(0, 1), strict=True)
    points = tuple(_point(alpha, unit, part, batch, clean) for alpha, part in by_alpha)
    return ExpectedSharpness(rule.scale, rule.offset, clean.loss, clean.error, False, points)


def _stacks(
    net: Network | HookedNet, rows: int, options: SharpnessOptions
) -> Iterator[tuple[NDArray[np.int64], torch.Generator]]:
    """Rows of several mini-batches, [pairs, b], and the generator of their noise, to the end."""
    batches = mini_batches(rows, options.batch, probe_generator(options.seed, "sharpness rows", 0))
    together, pairs = _batches_together(net, min(options.batch, rows)), -(-options.draws // 2)
    for stack, start in enumerate(range(0, pairs, together)):
        count = min(together, pairs - start)
        rows_of = np.stack([next(batches) for _ in range(count)])
        yield rows_of, probe_generator(options.seed, "sharpness noise", stack)


def _batches_together(net: Network | HookedNet, batch: int) -> int:
    """How many mini-batches form a stack: limited by activations, and by kernels if drawn."""
    if isinstance(net, HookedNet):
        return 1
    activation = batch * max(math.prod(node.shape) for node in net.nodes)
    operators = [node.affine.operator for node in net.affine_layers]
    drawn = sum(one.parameters for one in operators if not isinstance(one, Linear))
    return max(1, min(_STACK // batch, _LARGEST // max(activation, drawn)))


def _point(
    alpha: float, unit: float, changes: NDArray[np.float64], batch: int, clean: Losses
) -> SharpnessPoint:
    """From the divergence at α = 1 and the changes of both losses, [2, pairs of draws]."""
    pairs = changes.shape[1]
    loss, error = changes.mean(1).tolist()
    loss_spread = error_spread = None
    if pairs > 1:
        loss_spread, error_spread = (changes.std(1, ddof=1) / math.sqrt(pairs)).tolist()
    return SharpnessPoint(
        alpha=alpha,
        kl=unit / alpha**2,
        kl_as_printed=2 * unit / alpha**2,
        expected_loss=clean.loss + loss,
        expected_error=clean.error + error,
        sharpness=loss,
        sharpness_standard_error=loss_spread,
        error_sharpness=error,
        error_sharpness_standard_error=error_spread,
        draws=2 * pairs,
        batch=batch,
    )


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


@dataclass(frozen=True)
class ErrorCount:
    """`errors` among `draws` (row, net) pairs at noise `sigma`; see `independent`."""

    sigma: float
    errors: int
    draws: int
    clusters: int  # groups of pairs that are independent of each other, all of one size


def count_noisy_errors(
    net: Network | HookedNet, data: Dataset, sigmas: Sequence[float], *, draws: int, seed: int
) -> tuple[list[ErrorCount], bool]:
    """For each sigma, errors of nets from N(w, σ²I) on about `draws` rows, drawn with replacement.

    The second answer: whether every pair of a row and a net is independent of the others, so that
    the count is binomial with the mean error of Q on S. That is so in traced nets without
    convolutions; in others clusters of pairs share kernels and only the clusters' means are
    independent. Random: rows and noise, from `seed`; the same for all sigmas.
    """
    operators = [node.affine.operator for node in net.affine_layers]
    shared = not all(isinstance(one, Linear | Diagonal) for one in operators)
    independent = not shared and not isinstance(net, HookedNet)
    noisy = noisy_passes(net, NoiseRule(0.0, 1.0))
    stack = min(draws, _STACK if independent else _KERNELS)
    stacks = max(1, round(draws / stack))
    wrong = [0] * len(sigmas)
    for at in progress(range(stacks), "noisy nets", "stack"):
        generator = probe_generator(seed, "noisy errors", at)
        rows = torch.randint(len(data), (stack,), generator=generator).numpy()
        x, y = batch_of(data, rows, net)
        noise = noisy(x, 1, generator)
        for i, sigma in enumerate(sigmas):
            _, missed = sample_losses(noise.scores(sigma), y)
            wrong[i] += int(missed.sum())
    total = stacks * stack
    clusters = total if independent else stacks
    counts = zip(sigmas, wrong, strict=True)
    return [ErrorCount(sigma, errors, total, clusters) for sigma, errors in counts], independent

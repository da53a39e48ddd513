"""Expected sharpness E_ν L̂(w + ν) - L̂(w) (Neyshabur 2017, eq. 5) at several sizes of noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.probing import probe_generator
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.kl import kl_from_centred
from cushion.measures.sharpness.loss import Losses, batch_of, mini_batches, sample_losses
from cushion.measures.sharpness.perturbed import (
    NoiseRule,
    NoisyNet,
    NoisyPass,
    parameters,
    perturb_weights,
)
from cushion.measures.sharpness.records import ExpectedSharpness, SharpnessPoint
from cushion.nets.network import Network
from cushion.nets.operators import Linear
from cushion.progress import working

_STACK = 1024  # rows that pass the net together: enough for matrix products at full speed
_LARGEST = 1 << 22  # numbers in the largest activation or set of kernels of a stack


def expected_sharpness(
    net: Network, data: Dataset, options: SharpnessOptions, clean: Losses, *, shared: bool = False
) -> ExpectedSharpness:
    """Both losses under noise of every alpha, from `options.draws` perturbations each, and the
    divergence.

    `clean` are the losses of w itself. What is averaged is the change that ν makes on the rows of a
    mini-batch, so that it matters little which rows were drawn; ν and -ν, equally likely, are used
    on the same rows, so that what is linear in ν cancels. `shared` draws the weights, one ν for
    each mini-batch, as the definition has it; otherwise `perturbed` says what is drawn. Random: the
    mini-batches and ν, both from `options.seed`.
    """
    rule = NoiseRule(options.scale, options.offset)
    changes: list[NDArray[np.float64]] = []  # [2, alphas, pairs of one stack]
    noisy = None if shared else NoisyNet(net, rule)
    with working("sharpness", options.draws, "draw") as bar:
        for rows, generator in _stacks(net, len(data), options):
            x, y = batch_of(data, rows.reshape(-1), net.dtype)
            before = torch.from_numpy(
                np.stack([clean.cross_entropy[rows], clean.wrong[rows]])
            )  # [2, pairs, b]
            noise = None if noisy is None else NoisyPass(noisy, x, len(rows), generator)
            start = generator.get_state()
            found = []
            for alpha in options.alphas:
                change = torch.zeros(2, len(rows), dtype=torch.float64)
                for signed in (alpha, -alpha):
                    if noise is not None:
                        logits = noise.scores(signed)
                    else:
                        generator.set_state(start)  # the same normal numbers at every alpha
                        logits = _shared_scores(net, rule, signed, x, len(rows), generator)
                    after = torch.stack(
                        [part.double() for part in sample_losses(logits, y)]
                    ).reshape(before.shape)
                    if not bool(torch.isfinite(after).all()):
                        raise BadInput(
                            f"noise at alpha {alpha:g} overflows the net's scores; use smaller "
                            "`alphas`"
                        )
                    change += (after - before).mean(2) / 2
                found.append(change.numpy())
            changes.append(np.stack(found, axis=1))
            bar.advance(2 * len(rows))
    whole = np.concatenate(changes, axis=2)
    unit = kl_from_centred(parameters(net), (rule.unit_std(weight) for weight in parameters(net)))
    batch = min(options.batch, len(data))
    points = tuple(
        _point(alpha, unit, whole[:, at], batch, clean) for at, alpha in enumerate(options.alphas)
    )
    return ExpectedSharpness(options.scale, options.offset, clean.loss, clean.error, shared, points)


def _stacks(
    net: Network, rows: int, options: SharpnessOptions
) -> Iterator[tuple[NDArray[np.int64], torch.Generator]]:
    """Rows of several mini-batches, [pairs, b], and the generator of their noise, to the end."""
    batches = mini_batches(rows, options.batch, probe_generator(options.seed, "sharpness rows", 0))
    together, pairs = _batches_together(net, min(options.batch, rows)), -(-options.draws // 2)
    for stack, start in enumerate(range(0, pairs, together)):
        count = min(together, pairs - start)
        yield (
            np.stack([next(batches) for _ in range(count)]),
            probe_generator(options.seed, "sharpness noise", stack),
        )


def _batches_together(net: Network, batch: int) -> int:
    """How many mini-batches form a stack: limited by activations, and by kernels if drawn."""
    activation = batch * max(math.prod(node.shape) for node in net.nodes)
    drawn = sum(
        n.affine.operator.parameters
        for n in net.affine_layers
        if not isinstance(n.affine.operator, Linear)
    )
    return max(1, min(_STACK // batch, _LARGEST // max(activation, drawn)))


def _shared_scores(
    net: Network, rule: NoiseRule, alpha: float, x: Tensor, draws: int, generator: torch.Generator
) -> Tensor:
    """The logits of each mini-batch under its own draw of the weights."""
    return torch.cat(
        [
            perturb_weights(net, rule, alpha, generator).forward(part)
            for part in torch.tensor_split(x, draws)
        ]
    )


def _point(
    alpha: float, unit: float, changes: NDArray[np.float64], batch: int, clean: Losses
) -> SharpnessPoint:
    """From the divergence at α = 1 and the changes of both losses, [2, pairs of draws]."""
    pairs = changes.shape[1]
    loss, error = changes.mean(1)
    loss_spread, error_spread = (
        changes.std(1, ddof=1) / math.sqrt(pairs) if pairs > 1 else (None, None)
    )
    return SharpnessPoint(
        alpha=alpha,
        kl=unit / alpha**2,
        kl_as_printed=2 * unit / alpha**2,
        expected_loss=clean.loss + float(loss),
        expected_error=clean.error + float(error),
        sharpness=float(loss),
        sharpness_standard_error=None if loss_spread is None else float(loss_spread),
        error_sharpness=float(error),
        error_sharpness_standard_error=None if error_spread is None else float(error_spread),
        draws=2 * pairs,
        batch=batch,
    )

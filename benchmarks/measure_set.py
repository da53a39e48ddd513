"""The measures that cushion shares with a peer, on W1: the peer's plain recipe against cushion's
own functions.

The peer (nitarshan/robust-generalization-measures, after Jiang et al. 2020) reports 34 numbers.
What they need from the net is done again here in the plainest way and with its counts: Frobenius
and spectral norms of every weight and of its distance from the initialisation, the spectral ones by
full SVD; the path norm by a forward pass on squared weights; the 10th percentile of the margins;
and the size of noise that costs a tenth of the accuracy, isotropic and in proportion to the
weights, each by a bisection of at most 15 steps with 10 draws of the weights, on all images in
batches of 5000. Its spectral norms by FFT are for convolutions only and are left out. Cushion
answers the last item by a curve of expected errors over five sizes of the noise, not by a
bisection; the ascent, which the peer lacks, is left out.

One thread, process CPU time; the unit is a forward pass of all images.
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

import cushion
from benchmarks.workloads import W1
from cushion.data.dataset import Dataset
from cushion.measures.margins import epsilon_margin
from cushion.measures.norms.paths import path_norms
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.nets.models import build
from cushion.nets.tracing import trace

_IMAGES, _BATCH = 2048, 5000
_DEPTH, _DRAWS, _DROP, _TOLERANCE = 15, 10, 0.1, 0.01  # of the peer's search
# mini-batches of 64, each example with noise of its own: an error of 0.1 to 0.007, within the
# tolerance
_ENOUGH = 32
_FLOOR = 1e-3  # of noise in proportion to the weights


@dataclass
class Workload:
    """A net, its initialisation, and images with the labels that the net gives them."""

    net: nn.Module
    start: nn.Module
    x: Tensor
    y: Tensor
    data: Dataset


def run() -> dict[str, object]:
    """Both in forward passes, and their ratio."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _compare(_workload())
    finally:
        torch.set_num_threads(threads)


def _workload() -> Workload:
    generator = torch.Generator().manual_seed(0)
    start = build(W1, seed=0).eval()
    net = copy.deepcopy(start)
    with torch.no_grad():
        for parameter in net.parameters():  # as after training: somewhere else than at the start
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.01)
        pixels = torch.randint(0, 256, (_IMAGES, 1, 28, 28), generator=generator, dtype=torch.uint8)
        x = pixels.float() / 255
        y = net(x).argmax(1)
    return Workload(
        net, start, x, y, Dataset("random images", pixels.numpy(), y.numpy().astype(np.int64), 10)
    )


def _compare(work: Workload) -> dict[str, object]:
    forward = statistics.median(_seconds(lambda: _accuracy(work.net, work)) for _ in range(9))
    searches: list[int] = []
    peer = {
        "norms": _seconds(lambda: _norms(work)),
        "path_norm": _seconds(lambda: _path_norm(work.net)),
        "margin": _seconds(lambda: _margin(work)),
        "noise": _seconds(lambda: searches.append(_search(work, in_proportion=False)[1])),
        "noise_in_proportion": _seconds(
            lambda: searches.append(_search(work, in_proportion=True)[1])
        ),
    }
    total = sum(peer.values())
    ours = {
        "norms_paths_margins": _median(lambda: _cushion_norms(work)),
        "noise_by_default": _median(lambda: _cushion_noise(work, 100)),
        "noise_at_the_peers_tolerance": _median(lambda: _cushion_noise(work, _ENOUGH)),
    }
    norms, default, enough = ours.values()
    return {
        "images": _IMAGES,
        "peer_in_forwards": {name: seconds / forward for name, seconds in peer.items()},
        "peer_total_in_forwards": total / forward,
        "peer_draws": sum(searches),
        "cushion_in_forwards": {name: seconds / forward for name, seconds in ours.items()},
        "cushion_faster_than_peer": total / (norms + enough),
        "cushion_by_default_faster_than_peer": total / (norms + default),
        "goal": "cushion >= 5 times faster than the peer on the measures that both compute",
    }


def _median(job: Callable[[], object]) -> float:
    return statistics.median(_seconds(job) for _ in range(3))


def _seconds(job: Callable[[], object]) -> float:
    begin = time.process_time()
    job()
    return time.process_time() - begin


def _cushion_norms(work: Workload) -> list[float]:
    """What the peer computes, and no more: `measure` adds upper bounds, trace and group norms and
    distributions.
    """
    net, start = (trace(each, (1, 28, 28)) for each in (work.net, work.start))
    found = [path_norms(net, [2.0])[0].value, epsilon_margin(cushion.margins(net, work.data), 0.1)]
    for node, before in zip(net.affine_layers, start.affine_layers, strict=True):
        operator = node.affine.operator
        for one in (
            operator,
            operator.with_weight(operator.weight - before.affine.operator.weight),
        ):
            found += [one.frobenius() ** 2, one.spectral() ** 2]
    return found


def _cushion_noise(work: Workload, draws: int) -> None:
    """Expected errors under five sizes of both kinds of noise."""
    for scale in (10, 0):
        options = SharpnessOptions(ascent_steps=0, draws=draws, scale=scale)
        cushion.measure(work.net, work.data, only="sharpness", sharpness=options)


@torch.no_grad()
def _norms(work: Workload) -> list[float]:
    """Squared Frobenius norm and largest squared singular value of W and of W - W₀, layer by
    layer.
    """
    found = []
    for (name, weight), start in zip(
        work.net.named_parameters(), work.start.parameters(), strict=True
    ):
        if "bias" in name:
            continue
        for matrix in (weight, weight - start):
            values = torch.linalg.svd(
                matrix, full_matrices=False
            ).S  # singular vectors come along, as at the peer's
            found += [float(matrix.square().sum()), float(values[0]) ** 2]
    return found


@torch.no_grad()
def _path_norm(net: nn.Module) -> float:
    """Σ over outputs of the net whose parameters are squared, at an image of ones."""
    squared = copy.deepcopy(net)
    for parameter in squared.parameters():
        parameter.square_()
    return float(squared(torch.ones(1, 1, 28, 28)).sum())


@torch.no_grad()
def _margin(work: Workload) -> float:
    """The 10th percentile of the margins over all images."""
    margins = []
    for start in range(0, _IMAGES, _BATCH):
        scores, labels = (
            work.net(work.x[start : start + _BATCH]),
            work.y[start : start + _BATCH, None],
        )
        own = scores.gather(1, labels).squeeze(1)
        margins.append(own - scores.scatter(1, labels, -math.inf).amax(1))
    return float(torch.cat(margins).kthvalue(_IMAGES // 10).values)


@torch.no_grad()
def _accuracy(net: nn.Module, work: Workload) -> float:
    right = 0
    for start in range(0, _IMAGES, _BATCH):
        scores = net(work.x[start : start + _BATCH])
        right += int((scores.argmax(1) == work.y[start : start + _BATCH]).sum())
    return right / _IMAGES


@torch.no_grad()
def _search(work: Workload, *, in_proportion: bool) -> tuple[float, int]:
    """The size σ of noise that costs a tenth of the accuracy, and how many nets were drawn for it.

    Standard deviation σ in every parameter, or √(σ²w² + floor²) `in_proportion` (the peer passes
    the squares of both to a function that expects standard deviations, which takes as long).
    """
    generator, before = torch.Generator().manual_seed(1), _accuracy(work.net, work)
    low, high, size, drawn = 0.0, 2.0, 1.0, 0
    for _ in range(_DEPTH):
        size = (low + high) / 2
        accuracies = []
        for _ in range(_DRAWS):
            noisy = copy.deepcopy(work.net)
            for parameter in noisy.parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                if in_proportion:
                    noise *= (size**2 * parameter.square() + _FLOOR**2).sqrt()
                else:
                    noise *= size
                parameter.add_(noise)
            accuracies.append(_accuracy(noisy, work))
            drawn += 1
        lost = abs(statistics.mean(accuracies) - before)
        if abs(lost - _DROP) < _TOLERANCE:
            break
        if lost > _DROP:
            high = size
        else:
            low = size
    return size, drawn


if __name__ == "__main__":
    print(run())

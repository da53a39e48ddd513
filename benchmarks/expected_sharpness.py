"""Expected sharpness on W1: drawn pre-activations against a forward pass and against the loop that
drew weights.

The unit is a forward pass of one mini-batch of 64 examples. One thread, process CPU time, medians,
interleaved. The noise has standard deviation α(10|w| + 1), and α (isotropic) beside it, where no
second matrix product is needed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.workloads import W1
from cushion.measures.sharpness.perturbed import NoisyNet, NoisyPass
from cushion.measures.sharpness.rule import NoiseRule
from cushion.nets.models import build
from cushion.nets.network import Network
from cushion.nets.tracing import trace

_BATCH, _STACK, _ROUNDS = 64, 16, 9
_ALPHAS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
_PAPER, _ISOTROPIC = NoiseRule(10.0, 1.0), NoiseRule(0.0, 1.0)


def run() -> dict[str, object]:
    """Times per perturbation of a mini-batch, in forward passes of it; and what a given standard
    error costs.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _compare()
    finally:
        torch.set_num_threads(threads)


def _compare() -> dict[str, object]:
    module = build(W1, seed=0)
    net = trace(module, (1, 28, 28))
    x = torch.rand(_STACK * _BATCH, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    some, generator = x[:_BATCH], torch.Generator().manual_seed(2)
    paper, isotropic = NoisyNet(net, _PAPER), NoisyNet(net, _ISOTROPIC)
    curve = 2 * len(_ALPHAS) * _STACK  # perturbations of one stack: every alpha with both signs
    jobs: dict[str, tuple[Callable[[], object], int]] = {
        "forward": (lambda: [net.forward(some) for _ in range(8)], 8),
        "loop": (lambda: [_in_place(module, some, 0.01, generator) for _ in range(2)], 2),
        "alone": (lambda: NoisyPass(paper, x, _STACK, generator).scores(0.01), _STACK),
        "curve": (lambda: _curve(paper, x, generator), curve),
        "isotropic_alone": (
            lambda: NoisyPass(isotropic, x, _STACK, generator).scores(0.01),
            _STACK,
        ),
        "isotropic_curve": (lambda: _curve(isotropic, x, generator), curve),
        "stacked_forward": (lambda: net.forward(x), _STACK),
    }
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(_ROUNDS + 1):
        for name, (job, count) in jobs.items():
            begin = time.process_time()
            job()
            taken[name].append((time.process_time() - begin) / count)
    middle = {
        name: statistics.median(times[1:]) for name, times in taken.items()
    }  # the first warms up
    found: dict[str, object] = {
        f"{name}_over_forward": middle[name] / middle["forward"] for name in jobs
    }
    del found["forward_over_forward"]
    for name in ("alone", "curve", "isotropic_alone", "isotropic_curve"):
        found[f"{name}_faster_than_loop"] = middle["loop"] / middle[name]
    less = _variances(net, x)
    found["variance_of_loop_over_curve"] = less
    found["curve_over_forward_at_equal_standard_error"] = middle["curve"] / middle["forward"] / less
    found["goal"] = "curve <= 0.8 forward a perturbation, and >= 3.5 times faster than the loop"
    return found


def _curve(noisy: NoisyNet, x: Tensor, generator: torch.Generator) -> list[Tensor]:
    """What `measure` does with one stack of mini-batches."""
    noise = NoisyPass(noisy, x, _STACK, generator)
    return [noise.scores(sign * alpha) for alpha in _ALPHAS for sign in (1, -1)]


@torch.no_grad()
def _in_place(
    module: torch.nn.Module, x: Tensor, alpha: float, generator: torch.Generator
) -> Tensor:
    """The usual loop: fresh noise into every parameter, forward, and back to a copy kept aside."""
    kept = [parameter.clone() for parameter in module.parameters()]
    for parameter in module.parameters():
        std = parameter.abs().mul_(10).add_(1)
        parameter.addcmul_(std, torch.randn(parameter.shape, generator=generator), value=alpha)
    scores: Tensor = module(x)
    for parameter, start in zip(module.parameters(), kept, strict=True):
        parameter.copy_(start)
    return scores


def _variances(net: Network, x: Tensor, draws: int = 96, alpha: float = 1e-2) -> float:
    """The variance of the loop's sharpness of a mini-batch over that of ours, for one perturbation
    each.

    Both take the change of the loss on the same rows; ours averages ν and -ν, which counts as two
    perturbations.
    """
    module, generator = build(W1, seed=0), torch.Generator().manual_seed(3)
    labels, noisy = net.forward(x).argmax(1), NoisyNet(net, _PAPER)
    loop, ours = [], []
    for _ in range(draws):
        rows = torch.randperm(len(x), generator=generator)[:_BATCH]
        before = float(F.cross_entropy(net.forward(x[rows]), labels[rows]))
        loop.append(
            float(F.cross_entropy(_in_place(module, x[rows], alpha, generator), labels[rows]))
            - before
        )
        noise = NoisyPass(noisy, x[rows], 1, generator)
        both = [
            float(F.cross_entropy(noise.scores(sign * alpha), labels[rows])) for sign in (1, -1)
        ]
        ours.append(sum(both) / 2 - before)
    return statistics.variance(loop) / (2 * statistics.variance(ours))


if __name__ == "__main__":
    print(run())

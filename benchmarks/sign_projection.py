"""Seeded sign projection of a 784x784 weight, in signs a core-second (reach: ≥ 0.9e9), against signs drawn by torch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from cushion.operators.sign_projection import sign_coefficients, sign_project, sign_reconstruction

_SHAPE, _K, _ROUNDS = (784, 784), 10_000, 3
_DRAWN = 64  # helper matrices that torch draws: enough to measure its rate


def run() -> dict[str, float]:
    """Process CPU time on one thread, interleaved, medians; every helper sign counts once."""
    weight = torch.randn(_SHAPE, generator=torch.Generator().manual_seed(0))
    coefficients = sign_coefficients(weight, _K, seed=0)
    works: dict[str, tuple[Callable[[], object], int]] = {
        "project": (lambda: sign_project(weight, _K, seed=0), _K),
        "coefficients": (lambda: sign_coefficients(weight, _K, seed=0), _K),
        "reconstruction": (lambda: sign_reconstruction(coefficients, _SHAPE, seed=0), _K),
        "drawn_by_torch": (lambda: _drawn(weight), _DRAWN),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(_ROUNDS):
            for name, (work, _) in works.items():
                begin = time.process_time()
                work()
                seconds[name].append(time.process_time() - begin)
    finally:
        torch.set_num_threads(threads)
    rates = {name: weight.numel() * k / statistics.median(seconds[name]) / 1e9 for name, (_, k) in works.items()}
    return {f"{name}_gigasigns_per_core_second": rate for name, rate in rates.items()} | {
        "project_over_drawn_by_torch": rates["project"] / rates["drawn_by_torch"]
    }


def _drawn(weight: torch.Tensor) -> torch.Tensor:
    """Algorithm 1 as one would write it: each helper matrix drawn whole."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros_like(weight)
    for _ in range(_DRAWN):
        signs = torch.randint(0, 2, _SHAPE, generator=generator, dtype=weight.dtype) * 2 - 1
        total += (weight * signs).sum() * signs
    return total / _DRAWN


if __name__ == "__main__":
    print(run())

"""Seeded projections of a 784x784 weight.

Signs: signs a core-second (reach: ≥ 0.9e9) against signs drawn by torch, two threads against one
(reach: ≥ 1.7 where both cores are idle), and peak memory at k = 10³ and 10⁵ (reach: equal but for
the k numbers themselves). Structured (SRHT): seconds of projection and reconstruction on one core
at the least, a middle and the largest k (reach: ≤ 0.1).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from cushion.nets.operators.hadamard import padded_size, srht_coefficients, srht_reconstruction
from cushion.nets.operators.sign_projection import (
    sign_coefficients,
    sign_project,
    sign_reconstruction,
)

_SHAPE, _K, _ROUNDS = (784, 784), 10_000, 3
_DRAWN = 64  # helper matrices that torch draws: enough to measure its rate
_STRUCTURED_ROUNDS = 9
_MEMORY_SHAPE, _MEMORY_KS = (200, 300), (1_000, 100_000)
_PEAK = """
import re, sys, torch
from cushion.nets.operators.sign_projection import sign_project
rows, columns, k = map(int, sys.argv[1:])
sign_project(torch.ones(rows, columns), k, seed=0)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


def run() -> dict[str, float]:
    """Interleaved, medians; every helper sign counts once, though projecting generates it twice."""
    weight = torch.randn(_SHAPE, generator=torch.Generator().manual_seed(0))
    return _signs(weight) | _two_threads(weight) | _structured(weight) | _memory()


def _signs(weight: torch.Tensor) -> dict[str, float]:
    """Process CPU time on one thread."""
    coefficients = sign_coefficients(weight, _K, seed=0)
    works: dict[str, tuple[Callable[[], object], int]] = {
        "project": (lambda: sign_project(weight, _K, seed=0), _K),
        "coefficients": (lambda: sign_coefficients(weight, _K, seed=0), _K),
        "reconstruction": (lambda: sign_reconstruction(coefficients, _SHAPE, seed=0), _K),
        "drawn_by_torch": (lambda: _drawn(weight), _DRAWN),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    with _threads(1):
        for _ in range(_ROUNDS):
            for name, (work, _) in works.items():
                seconds[name].append(_timed(work, time.process_time))
    rates = {
        name: weight.numel() * k / statistics.median(seconds[name]) / 1e9
        for name, (_, k) in works.items()
    }
    return {f"{name}_gigasigns_per_core_second": rate for name, rate in rates.items()} | {
        "project_over_drawn_by_torch": rates["project"] / rates["drawn_by_torch"]
    }


def _two_threads(weight: torch.Tensor) -> dict[str, float]:
    """Wall clock: how many times as fast two threads are, and how much CPU time they take for
    it.
    """
    wall: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(_ROUNDS):
        for count in wall:
            with _threads(count):
                begin = time.process_time()
                wall[count].append(
                    _timed(lambda: sign_project(weight, _K, seed=0), time.perf_counter)
                )
                cpu[count].append(time.process_time() - begin)
    return {
        "two_threads_speedup": statistics.median(wall[1]) / statistics.median(wall[2]),
        "two_threads_cpu_over_one": statistics.median(cpu[2]) / statistics.median(cpu[1]),
    }


def _structured(weight: torch.Tensor) -> dict[str, float]:
    """Process CPU time on one thread, projection and reconstruction together; every round has a
    seed of its own.
    """

    def both(k: int, seed: int) -> None:
        srht_reconstruction(srht_coefficients(weight, k, seed), _SHAPE, seed)

    found = {}
    with _threads(1):
        for k in (1, 10_000, padded_size(weight.numel())):
            seconds = [
                _timed(partial(both, k, seed), time.process_time)
                for seed in range(_STRUCTURED_ROUNDS)
            ]
            found[f"srht_seconds_at_{k}"] = statistics.median(seconds)
    return found


def _memory() -> dict[str, float]:
    """In processes of their own: the peak is that of one projection (PyTorch's own memory
    included).
    """
    peaks = []
    for k in _MEMORY_KS:
        command = [sys.executable, "-c", _PEAK, *map(str, (*_MEMORY_SHAPE, k))]
        peaks.append(
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        )
    return {
        **{f"peak_mebibytes_at_{k}": peak for k, peak in zip(_MEMORY_KS, peaks, strict=True)},
        "mebibytes_of_the_signs": _MEMORY_SHAPE[0] * _MEMORY_SHAPE[1] * _MEMORY_KS[1] / 8 / 1024**2,
    }


def _timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    begin = clock()
    work()
    return clock() - begin


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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

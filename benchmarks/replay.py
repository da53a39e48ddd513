"""Exact integer evaluation of MNIST-sized data, against one float32 torch forward pass of the same net."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from cushion.encoding.integer_net import Conv, Dense, IntegerNet, Pool

_EXAMPLES, _ROUNDS = 10_000, 3


def run() -> dict[str, float]:
    """CPU time of both, interleaved; seconds for 60 000 images follow from the exact one."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (_EXAMPLES, 1, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, _EXAMPLES)
    first = rng.integers(-3, 4, (6, 1, 3, 3))
    second = rng.integers(-3, 4, (10, 6, 3, 3))
    last = rng.integers(-3, 4, (10, 490))
    layers = (Conv(first, None, 3, 4, 1, 1), Pool("max", 2), Conv(second, None, 3, 4, 1, 1), Pool("max", 2))
    net = IntegerNet((1, 28, 28), 4, (*layers, Dense(last, None, 3, 0)))
    weights = [torch.from_numpy(w).float() for w in (first, second, last)]

    def exact() -> None:
        net.errors(x, y)

    def floats() -> None:
        for start in range(0, _EXAMPLES, 512):
            values = torch.from_numpy(x[start : start + 512]).float()
            for weight in weights[:2]:
                values = F.max_pool2d(F.conv2d(values, weight, padding=1).relu(), 2)
            F.linear(values.flatten(1), weights[2])

    times: dict[Callable[[], None], list[float]] = {exact: [], floats: []}
    wall = []
    for _ in range(_ROUNDS):
        for work, taken in times.items():
            begin, clock = time.process_time(), time.perf_counter()
            work()
            taken.append(time.process_time() - begin)
            if work is exact:
                wall.append(time.perf_counter() - clock)
    return {
        "exact_over_float_forward": statistics.median(times[exact]) / statistics.median(times[floats]),
        "seconds_for_60000_images": min(wall) * 60_000 / _EXAMPLES,
    }


if __name__ == "__main__":
    print(run())

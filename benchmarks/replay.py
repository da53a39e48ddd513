"""Exact integer evaluation of MNIST-sized data, against one float32 torch forward pass of the same
net.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.message import encode, read
from cushion.certificates.format.sources import Grid

_EXAMPLES, _ROUNDS = 10_000, 3


def certified_net() -> IntegerNet:
    """A net of the size that MNIST's certificates have: 25 752 weights, 2.7 million products an
    example.
    """
    rng = np.random.default_rng(0)

    def grid(*shape: int) -> Grid:
        return Grid(rng.integers(-2, 3, shape), 2)

    layers = (
        Conv(grid(24, 1, 5, 5), None, 0, 5, stride=2, padding=2),
        Conv(grid(40, 24, 3, 3), None, 0, 5, padding=1),
        Pool("max", 2),
        Conv(grid(48, 40, 3, 3), None, 0, 6, padding=1),
        Pool("max", 2),
        Dense(grid(10, 432), None, 0, 0),
    )
    return IntegerNet((1, 28, 28), Bytes(4), layers)


def run() -> dict[str, float]:
    """CPU time of both, interleaved; seconds for 60 000 images follow from the exact one."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (_EXAMPLES, 1, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, _EXAMPLES)
    net = certified_net()
    first, second, third, last = (
        torch.from_numpy(layer.weight).float()
        for layer in net.layers
        if not isinstance(layer, Pool)
    )

    def exact() -> None:
        net.errors(x, y)

    def floats() -> None:
        for start in range(0, _EXAMPLES, 512):
            values = torch.from_numpy(x[start : start + 512]).float()
            values = F.conv2d(values, first, stride=2, padding=2).relu()
            values = F.max_pool2d(F.conv2d(values, second, padding=1).relu(), 2)
            values = F.max_pool2d(F.conv2d(values, third, padding=1).relu(), 2)
            F.linear(values.flatten(1), last)

    times: dict[Callable[[], None], list[float]] = {exact: [], floats: []}
    wall = []
    for _ in range(_ROUNDS):
        for work, taken in times.items():
            begin, clock = time.process_time(), time.perf_counter()
            work()
            taken.append(time.process_time() - begin)
            if work is exact:
                wall.append(time.perf_counter() - clock)
    begin = time.process_time()
    message = encode(net)
    read(message.data, message.bits)
    return {
        "exact_over_float_forward": statistics.median(times[exact])
        / statistics.median(times[floats]),
        "seconds_for_60000_images": min(wall) * 60_000 / _EXAMPLES,
        "seconds_to_encode_and_read_the_message": time.process_time() - begin,
    }


if __name__ == "__main__":
    print(run())

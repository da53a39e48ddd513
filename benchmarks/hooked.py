"""A net that hooks see: ResNet-50 at 224x224 against bare loops (reach: margins ≤ 1.1x a forward
loop and ≤ 1.3x its memory; cushions and attenuation ≤ 1.15x the passes they need).
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.measures.one_pass import one_pass
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.stability.hooked import attenuation
from cushion.nets.batches import as_floats
from cushion.nets.hooked.net import HookedNet
from cushion.nets.scored import ScoredNet

_ROWS, _BATCH, _ROUNDS = 16, 8, 5
_DEPTHS = (3, 4, 6, 3)


class _Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut (He et al. 2016)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        sides = ((inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        parts: list[nn.Module] = []
        for before, after, kernel, step in sides:
            conv = nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False)
            parts += [conv, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts[:-1])
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            conv = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.body(x) + self.shortcut(x))  # type: ignore[no-any-return]


def resnet50(depths: tuple[int, ...] = _DEPTHS) -> nn.Module:
    """Random weights: only the time matters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        parts = [stem, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for stage, depth in enumerate(depths):
            for at in range(depth):
                width, stride = 64 << stage, 2 if at == 0 and stage > 0 else 1
                parts.append(_Bottleneck(channels, width, stride))
                channels = 4 * width
        parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
        return nn.Sequential(*parts).eval()


def _sample(rows: int, side: int) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (rows, 3, side, side), dtype=np.uint8)
    return Dataset("noise", x, rng.integers(0, 1000, rows), 1000)


def run() -> dict[str, object]:
    """Ratios of CPU time on one thread, interleaved, and of the peak memory of two processes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = {**_margins(), **_passes()}
    finally:
        torch.set_num_threads(threads)
    peaks = {what: _peak(what) for what in ("forward", "margins")}
    memory = peaks["margins"] / peaks["forward"]
    reached = found["margins_over_forward"] <= 1.1 and memory <= 1.3
    reached &= max(found["cushions_over_passes"], found["attenuation_over_passes"]) <= 1.15
    return {**found, "margins_memory_over_forward": memory, "held": bool(reached)}


def _margins() -> dict[str, float]:
    data, module = _sample(_ROWS, 224), resnet50()
    net = ScoredNet(module, as_floats(data.x[:2]))
    margins = _timed(
        lambda: _forward(module, data),
        lambda: one_pass(net, data, _BATCH, norms=False, margins=True),
    )
    return {"margins_over_forward": margins}


def _passes() -> dict[str, float]:
    """At 64 pixels and half the depth: attenuation needs a pass a layer."""
    data, module = _sample(_BATCH, 64), resnet50((1, 1, 1, 1))
    net = HookedNet(module, as_floats(data.x[:2]))
    options = StabilityOptions(levels=(0.1,), attenuation_draws=1)
    passes = 1 + len(net.seen)
    return {
        "cushions_over_passes": _timed(
            lambda: _forward(net.module, data),
            lambda: one_pass(net, data, _BATCH, norms=True, margins=True),
        ),
        "attenuation_over_passes": _timed(
            lambda: [_forward(net.module, data) for _ in range(passes)],
            lambda: attenuation(net, data, options, _BATCH),
        ),
    }


@torch.no_grad()
def _forward(module: nn.Module, data: Dataset) -> None:
    for start in range(0, len(data), _BATCH):
        module(as_floats(data.x[start : start + _BATCH]))


def _timed(bare: Callable[[], object], ours: Callable[[], object]) -> float:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for work, taken in zip((bare, ours), times, strict=True):
            begin = time.process_time()
            work()
            taken.append(time.process_time() - begin)
    return statistics.median(times[1]) / statistics.median(times[0])


def _peak(what: str) -> float:
    """Peak memory in MB of a process that does one of the two."""
    command = [sys.executable, "-m", "benchmarks.hooked", what]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(answer)["peak"])


def _alone(what: str) -> None:
    torch.set_num_threads(1)
    data, module = _sample(_ROWS, 224), resnet50()
    if what == "forward":
        _forward(module, data)
    else:
        import cushion

        cushion.margins(module, data, batch=_BATCH)
    print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    _alone(sys.argv[1])

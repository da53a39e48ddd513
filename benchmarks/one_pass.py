"""Margins and the norms that cushions and contractions need: one pass against a forward pass
(reach: ≤ 1.10).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.workloads import W1
from cushion.data.dataset import Dataset
from cushion.measures.one_pass import one_pass
from cushion.nets.batches import as_floats
from cushion.nets.models import build
from cushion.nets.specs import parse
from cushion.nets.tracing import trace

_EXAMPLES, _BATCH, _ROUNDS = 4096, 256, 9


def run() -> dict[str, float]:
    """Process CPU time of both on one thread, interleaved; the ratio of their medians."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _compare()
    finally:
        torch.set_num_threads(threads)


def _compare() -> dict[str, float]:
    rng = np.random.default_rng(0)
    data = Dataset(
        "noise",
        rng.integers(0, 256, (_EXAMPLES, 1, 28, 28), dtype=np.uint8),
        rng.integers(0, 10, _EXAMPLES),
        10,
    )
    net = trace(build(parse(W1), seed=0), data.shape)

    def forward() -> None:
        for start in range(0, _EXAMPLES, _BATCH):
            net.forward(as_floats(data.x[start : start + _BATCH]))

    def observed() -> None:
        passed = one_pass(net, data, _BATCH, norms=True, margins=True)
        assert len(passed) == 1 + 3 * len(net.affine_layers)

    data.fingerprint  # noqa: B018
    times: dict[Callable[[], None], list[float]] = {forward: [], observed: []}
    for _ in range(_ROUNDS):
        for work, taken in times.items():
            begin = time.process_time()
            work()
            taken.append(time.process_time() - begin)
    return {
        "one_pass_over_forward": statistics.median(times[observed])
        / statistics.median(times[forward])
    }


if __name__ == "__main__":
    print(run())

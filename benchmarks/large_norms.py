"""All norms of an MLP with 100 million parameters against `scipy.sparse.linalg.svds(k=1)` summed
over its layers (reach: ≤ 2x its time, ≤ 3x the weights' memory).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from scipy.sparse.linalg import svds
from torch import nn

_SIDE, _LAYERS = 5000, 4


def _net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers: list[nn.Module] = []
        for _ in range(_LAYERS):
            layers += [nn.Linear(_SIDE, _SIDE), nn.ReLU()]
        return nn.Sequential(*layers[:-1]).eval()


def run() -> dict[str, object]:
    """Each in a process of its own, one thread; CPU time, and peak memory above the start."""
    ours, theirs = (_alone(what) for what in ("norms", "svds"))
    ratio = ours["seconds"] / theirs["seconds"]
    memory = ours["peak"] / (4 * _LAYERS * _SIDE**2)
    return {
        "norms_over_svds": ratio,
        "peak_over_weights": memory,
        "held": ratio <= 2 and memory <= 3,
    }


def _alone(what: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.large_norms", what]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer)
    return found


def _work(what: str) -> None:
    import cushion

    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net = _net()
    data = cushion.Dataset(np.zeros((2, _SIDE), dtype=np.float32), np.array([0, 1]))
    begin = time.process_time()
    if what == "norms":
        cushion.measure(net, data, only="norms")
    else:
        for layer in net.children():
            if isinstance(layer, nn.Linear):
                svds(layer.weight.detach().numpy(), k=1, return_singular_vectors=False)
    seconds = time.process_time() - begin
    # of our own process: the weights are part of it
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


if __name__ == "__main__":
    _work(sys.argv[1])

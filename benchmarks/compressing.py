"""Matrix-Project of a whole VGG-like net at 5 % of its parameters (goal: under 10 minutes on two
cores), and rivals.

Wall clock with as many threads as there are cores: storing the numbers, coding them, and the net
rebuilt from them. Ratios against a forward pass of 256 images in the same run.
"""

from __future__ import annotations

import time

import torch

from benchmarks.workloads import W2
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.storing import LayerPlan, low_rank_sizes, size_of, store_net
from cushion.nets.models import build
from cushion.nets.network import Network
from cushion.nets.tracing import trace

_SIZE = "5%"
_IMAGES = 256


def run() -> dict[str, float]:
    """Seconds and forwards of each method at the same size; the sign rate of the whole."""
    net = trace(build(W2, seed=0).eval(), (3, 32, 32))
    x = torch.rand(_IMAGES, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    begin = time.perf_counter()
    for _ in range(3):
        net.forward(x)
    forward = (time.perf_counter() - begin) / 3
    found: dict[str, float] = {"parameters": net.parameters, "forward_seconds": forward}
    for name, method, options in (
        ("low_rank", "low-rank", NetOptions(k=_SIZE)),
        ("matrix_project_srht", "matrix-project", NetOptions(k=_SIZE, helper="srht")),
        ("matrix_project_signs", "matrix-project", NetOptions(k=_SIZE)),
    ):
        begin = time.perf_counter()
        signs = _compress(net, method, options)
        seconds = time.perf_counter() - begin
        found |= {f"{name}_seconds": seconds, f"{name}_forwards": seconds / forward}
        if name == "matrix_project_signs":
            found |= {"gigasigns": signs / 1e9, "gigasigns_per_second": signs / 1e9 / seconds}
    return found


def _compress(net: Network, method: str, options: NetOptions) -> float:
    """Store, code and rebuild; how many signs a projection at this size has."""
    operators = [node.affine.operator for node in net.affine_layers]
    if method == "low-rank":
        sizes = low_rank_sizes(_SIZE, net, None)
    else:
        sizes = [size_of(_SIZE, operator, method) for operator in operators]
    stored = store_net(net, None, method, [LayerPlan(size=size) for size in sizes], options, seed=0)
    assert stored.bits > 0
    stored.network(net)
    return sum(size * operator.parameters for size, operator in zip(sizes, operators, strict=True))


if __name__ == "__main__":
    print(run())

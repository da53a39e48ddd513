"""Path norms of two nets against a forward pass of one example, and against the same sums written
down naively.

Goal: at most 2 forward passes a norm. The floor reads float32 weights once; a path norm has to
raise each to its power in float64, and gives the sums with and without biases. p = 1 and p = 2 in
one pass share the conversion. The naive version is the textbook's: copy the net with |w|^p in
float64 for weights, send ones through it, once without and once with biases.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F

from benchmarks.workloads import W1, W2
from cushion.measures.norms.paths import path_norms
from cushion.nets.models import build
from cushion.nets.network import Network
from cushion.nets.operations import Affine, MaxPool
from cushion.nets.specs import parse
from cushion.nets.tracing import trace

_ROUNDS = 41
_GOAL = "each_of_both_over_forward at most 2: `measure` computes both norms in one pass"


def run() -> dict[str, object]:
    """Process CPU time on one thread, path norms and forward passes interleaved; ratios of their
    medians.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return {"goal": _GOAL, "W1": _compare(W1, (1, 28, 28)), "W2": _compare(W2, (3, 32, 32))}
    finally:
        torch.set_num_threads(threads)


def _compare(text: str, shape: tuple[int, ...]) -> dict[str, float]:
    net = trace(build(parse(text), seed=0), shape)
    generator = torch.Generator().manual_seed(0)
    example = torch.rand(1, *shape, generator=generator)
    medians = _medians(
        {
            "forward": lambda: net.forward(example),
            "p1": lambda: path_norms(net, [1.0]),
            "p2": lambda: path_norms(net, [2.0]),
            "both": lambda: path_norms(net, (1.0, 2.0)),
        }
    )
    # In rounds of their own: the naive copies leave the caches cold for whoever comes next.
    slow = _medians({"forward": lambda: net.forward(example), "naive": lambda: _naive(net, 2.0)})
    naive = slow["naive"] / slow["forward"]
    errors = [abs(path_norms(net, [p])[0].value / _naive(net, p)[0] - 1) for p in (1.0, 2.0)]
    return {
        "p1_over_forward": medians["p1"] / medians["forward"],
        "p2_over_forward": medians["p2"] / medians["forward"],
        "each_of_both_over_forward": medians["both"] / 2 / medians["forward"],
        "naive_over_p2": naive * medians["forward"] / medians["p2"],
        "naive_over_forward": naive,
        "worst_relative_error": max(errors),
        "forward_milliseconds": 1e3 * medians["forward"],
    }


def _medians(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(_ROUNDS):
        for name, job in work.items():
            begin = time.process_time()
            job()
            taken[name].append(time.process_time() - begin)
    return {name: statistics.median(times) for name, times in taken.items()}


@torch.no_grad()
def _naive(net: Network, p: float) -> tuple[float, float]:
    """The path norm of a chain without and with biases: ones through a copy of the net with |w|^p
    for weights.
    """
    sums = []
    for biases in (False, True):
        x = torch.ones(1, *net.input_shape, dtype=torch.float64)
        for node in net.nodes[1:]:
            x = (
                _powered(node.op, p, biases)(x)
                if isinstance(node.op, Affine)
                else _pooled(node.op, x)
            )
        sums.append(float(x.sum()) ** (1 / p))
    return sums[0], sums[1]


def _powered(layer: Affine, p: float, biases: bool) -> Affine:
    operator = layer.operator.with_weight(layer.operator.weight.double().abs().pow(p))
    bias = layer.bias.double().abs().pow(p) if biases and layer.bias is not None else None
    return replace(layer, operator=operator, bias=bias)


def _pooled(op: object, x: Tensor) -> Tensor:
    if isinstance(op, MaxPool):
        return F.avg_pool2d(x, op.kernel, op.stride, divisor_override=1)  # the sum over each window
    assert callable(op)
    result: Tensor = op(x)
    return result


if __name__ == "__main__":
    print(run())

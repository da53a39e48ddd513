"""Jacobian norms between all pairs of layers: against vmap(jacrev) on a dense net, against forward
passes on both.

W1 is the 784-wide five-layer MLP, W2 a VGG-like net on 32x32 images. One thread, process CPU time,
medians; a forward pass of 256 examples, warm and scaled to the batch, is the unit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from benchmarks.workloads import W1, W2
from cushion.measures.stability.jacobians import (
    JacobianPlan,
    PairSquares,
    pair_squares,
    plan_jacobians,
)
from cushion.nets.linearisation import Linearisation
from cushion.nets.models import build
from cushion.nets.network import Network
from cushion.nets.tracing import trace

_ROUNDS = 5


def run() -> dict[str, object]:
    """Ratios of CPU time; the errors are relative, of ‖J‖_F, over examples and all pairs (exact
    ones included).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {"dense": _dense(), "conv": _conv()}
    finally:
        torch.set_num_threads(threads)


def _dense() -> dict[str, object]:
    net, batch = _net(W1), 64
    x = torch.rand(batch, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    plans = {
        "exact": plan_jacobians(net, 0, "exact"),
        "hybrid_64": plan_jacobians(net, 64, "probes"),
        "hybrid_16": plan_jacobians(net, 16, "probes"),
    }
    few = 4
    work: dict[str, Callable[[], object]] = {"vmap_jacrev": lambda: _vmap_jacrev(net, x[:few])}
    for name, plan in plans.items():
        work[name] = partial(_pairs, net, x, plan)
    times = _times(net, batch, work)
    times["vmap_jacrev"] *= batch / few
    truth = pair_squares(Linearisation(net, x), plans["exact"], 0)
    peer = _vmap_jacrev(net, x[:few])
    found: dict[str, object] = {
        "vmap_jacrev_over_forward": times["vmap_jacrev"],
        "exact_worst_difference_from_vmap_jacrev": max(
            float((truth[pair].squared[:few] / peer[pair] - 1).abs().max()) for pair in peer
        ),
        "goal": "faster than vmap(jacrev): exact >= 15, hybrid_64 >= 25, hybrid_16 >= 70; mean "
        "error "
        "<= 0.005",
    }
    for name in plans:
        found[f"{name}_over_forward"] = times[name]
        found[f"{name}_faster_than_vmap_jacrev"] = times["vmap_jacrev"] / times[name]
    for name in ("hybrid_64", "hybrid_16"):
        runs = [pair_squares(Linearisation(net, x), plans[name], seed) for seed in range(4)]
        errors = torch.stack([_errors(answer, truth) for answer in runs])
        found[f"{name}_mean_error"] = float(errors.mean())
        found[f"{name}_largest_error"] = float(errors.max())
    # The products of active units alone: four multiplications of half-size matrices an example.
    forward = sum(node.affine.operator.multiplications for node in net.affine_layers)
    found["exact_over_its_matrix_products"] = times["exact"] / (4 * 392**3 / forward)
    return found


def _conv() -> dict[str, object]:
    net, batch = _net(W2), 32
    x = torch.rand(batch, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    none, four = plan_jacobians(net, 0), plan_jacobians(net, 4, "probes")
    work: dict[str, Callable[[], object]] = {
        "exact_part": partial(_pairs, net, x, none),
        "four_probes": partial(_pairs, net, x, four),
    }
    times = _times(net, batch, work, rounds=3)
    return {
        "exact_part_over_forward": times["exact_part"],
        "interior_over_forward_per_probe": (times["four_probes"] - times["exact_part"]) / 4,
        "goal": "exact part <= 10; interior <= 4.0 per probe",
    }


def _pairs(net: Network, x: Tensor, plan: JacobianPlan) -> dict[tuple[int, int], PairSquares]:
    return pair_squares(Linearisation(net, x), plan, 0)


def _net(spec: str) -> Network:
    net = trace(build(spec, seed=0), tuple(int(side) for side in spec.split(":")[0].split("x")))
    generator = torch.Generator().manual_seed(0)
    for node in net.affine_layers:  # as after training: biases that are not zero
        assert node.affine.bias is not None
        node.affine.bias.normal_(generator=generator).mul_(0.05)
    return net


def _times(
    net: Network, batch: int, work: dict[str, Callable[[], object]], rounds: int = _ROUNDS
) -> dict[str, float]:
    """CPU time of each, in forward passes of `batch` examples; interleaved with the forward
    pass.
    """
    x = torch.rand(256, *net.input_shape)
    jobs: dict[str, Callable[[], object]] = {"forward": lambda: net.forward(x), **work}
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            if name == "forward":
                job()
            begin = time.process_time()
            job()
            taken[name].append(time.process_time() - begin)
    middle = {
        name: statistics.median(times[1:]) for name, times in taken.items()
    }  # the first warms up
    return {name: middle[name] / middle["forward"] * 256 / batch for name in work}


def _vmap_jacrev(net: Network, x: Tensor) -> dict[tuple[int, int], Tensor]:
    """‖J^{i,j}‖_F² of all pairs as torch.func computes whole Jacobians: [B] each."""
    line = Linearisation(net, x)
    layers = net.affine_layers
    found = {}
    for at, source in enumerate(layers[:-1]):

        def onwards(value: Tensor, start: int = source.index) -> tuple[Tensor, ...]:
            outputs = []
            value = value[None]
            for node in net.nodes[start + 1 :]:
                value = node.op(value)
                if node in layers:
                    outputs.append(value[0])
            return tuple(outputs)

        for target, jacobian in zip(
            layers[at + 1 :], vmap(jacrev(onwards))(line.outputs[source.index]), strict=True
        ):
            found[source.index, target.index] = jacobian.flatten(1).square().sum(1).double()
    return found


def _errors(
    answer: dict[tuple[int, int], PairSquares], truth: dict[tuple[int, int], PairSquares]
) -> Tensor:
    """[pairs, B] relative errors of the norms."""
    return torch.stack(
        [((answer[pair].squared / truth[pair].squared).sqrt() - 1).abs() for pair in truth]
    )


if __name__ == "__main__":
    print(run())

"""Norms of a VGG-like net's convolutions, against a forward pass of 256 images and against FFT +
SVD.

Reach: at most 2 forward passes and a relative error of at most 1e-6. The peer method takes the
largest singular value among the Fourier blocks of a circular convolution (Sedghi et al. 2019):
quick on one thread, slower by a factor on two that compete, and in either case the norm of another
map than the layer's.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.workloads import W2
from cushion.nets.models import build
from cushion.nets.operators import Conv2d
from cushion.nets.operators.norms import Gram, lanczos_norm
from cushion.nets.specs import parse
from cushion.nets.tracing import trace

_IMAGES, _ROUNDS = 256, 5


def run() -> dict[str, float]:
    """Process CPU time on one thread, norms and forward passes interleaved; the ratio of their
    medians.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return _compare()
    finally:
        torch.set_num_threads(threads)


def _compare() -> dict[str, float]:
    net = trace(build(parse(W2), seed=0), (3, 32, 32))
    operators = (node.affine.operator for node in net.affine_layers)
    layers = [operator for operator in operators if isinstance(operator, Conv2d)]
    images = torch.rand(_IMAGES, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    taken: dict[str, list[float]] = {"forward": [], "norms": [], "peer": []}
    for _ in range(_ROUNDS):
        begin = time.process_time()
        net.forward(images)
        taken["forward"].append(time.process_time() - begin)
        begin = time.process_time()
        found = [lanczos_norm(layer) for layer in layers]
        taken["norms"].append(time.process_time() - begin)
        begin = time.process_time()
        circular = [_circular_norm(layer) for layer in layers]
        taken["peer"].append(time.process_time() - begin)
    exact = [_converged_norm(layer) for layer in layers]
    medians = {name: statistics.median(times) for name, times in taken.items()}
    return {
        "norms_over_forward": medians["norms"] / medians["forward"],
        "worst_relative_error": _worst_error(found, exact),
        "peer_over_norms": medians["peer"] / medians["norms"],
        "peer_worst_relative_error": _worst_error(circular, exact),
        "norms_seconds": medians["norms"],
    }


def _worst_error(found: list[float], exact: list[float]) -> float:
    return max(abs(a - b) / b for a, b in zip(found, exact, strict=True))


def _converged_norm(layer: Conv2d) -> float:
    """‖A‖₂ by Lanczos in float64 to a residual of 1e-11, with two vectors sought so that neither
    can hide.
    """
    gram = Gram(layer, torch.float64)
    linear = LinearOperator((gram.size, gram.size), matvec=gram, dtype=np.float64)
    start = np.random.default_rng(12345).standard_normal(gram.size)
    top = eigsh(linear, k=2, which="LA", v0=start, ncv=40, tol=1e-11, return_eigenvectors=False)
    return float(np.sqrt(top.max()))


def _circular_norm(layer: Conv2d) -> float:
    """The peer: an SVD at every frequency of a circular grid of the map's size."""
    transform = np.fft.fft2(layer.weight.double().numpy(), layer.input_shape[1:], axes=(2, 3))
    return float(np.linalg.svd(np.moveaxis(transform, (2, 3), (0, 1)), compute_uv=False).max())


if __name__ == "__main__":
    print(run())

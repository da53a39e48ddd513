"""Small nets as the numbers that theorems read, computed naively with numpy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cushion.theorems.facts import LayerFacts, NetFacts

Matrix = NDArray[np.float64]


def layer(
    a: Matrix, b: Matrix | None = None, *, name: str = "fc", start: Matrix | None = None
) -> LayerFacts:
    """A dense layer; `start` is its initialisation (with zero bias)."""
    bias = np.zeros(len(a)) if b is None else b
    rows = np.linalg.norm(a, axis=1)
    top = float(np.linalg.svd(a, compute_uv=False)[0])
    return LayerFacts(
        name=name,
        inputs=a.shape[1],
        outputs=a.shape[0],
        parameters=a.size + (0 if b is None else b.size),
        frobenius=float(np.linalg.norm(a)),
        spectral=top,
        spectral_upper=top * (1 + 1e-9),
        l1_inf=float(np.abs(a).sum(1).max()),
        l2_inf=float(rows.max()),
        l2_1=float(rows.sum()),
        bias=float(np.linalg.norm(bias)),
        bias_largest=float(np.abs(bias).max()),
        moved_l2_1=None if start is None else float(np.linalg.norm(a - start, axis=1).sum()),
        moved_bias=None if start is None else float(np.linalg.norm(bias)),
    )


def facts(layers: list[LayerFacts], x: Matrix, *, margin: float = 0.5, **more: object) -> NetFacts:
    """A chain of dense layers and ReLUs on the inputs x, [m, n]."""
    values: dict[str, object] = {
        "m": len(x),
        "delta": 0.05,
        "classes": layers[-1].outputs,
        "errors": 1,
        "margin": margin,
        "margin_loss": 0.05,
        "layers": tuple(layers),
        "input_size": x.shape[1],
        "input_energy": float(np.linalg.norm(x)),
        "input_column": float(np.linalg.norm(x, axis=0).max()),
        "radius": float(np.linalg.norm(x, axis=1).max()),
        "is_chain": True,
        "not_a_chain_because": "",
        "plain": True,
        "largest_score": 1.0,
        "path_logs": {1: 0.0, 2: 0.0},
    }
    return NetFacts(**(values | more))  # type: ignore[arg-type]


def run(weights: list[Matrix], biases: list[Matrix], x: Matrix) -> Matrix:
    """The scores of a dense ReLU net, [m, classes]."""
    for at, (a, b) in enumerate(zip(weights, biases, strict=True)):
        x = x @ a.T + b
        x = np.maximum(x, 0) if at < len(weights) - 1 else x
    return x


def random_net(
    sizes: list[int], seed: int, scale: float = 1.0
) -> tuple[list[Matrix], list[Matrix]]:
    rng = np.random.default_rng(seed)
    pairs = list(zip(sizes[1:], sizes, strict=False))
    weights = [scale * rng.normal(size=pair) / math.sqrt(pair[1]) for pair in pairs]
    return weights, [0.3 * rng.normal(size=out) for out, _ in pairs]

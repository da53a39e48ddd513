"""Pruning, ‖Δ‖₂ and sketch recovery (Guha 2023) at the sizes that must be reached, and against
other ways.

Goals: the 784-2500-2500-2500-2500-10 net pruned and put on a grid in under 5 s; ‖Δ‖₂ of all its
layers to a relative 1e-6 in under 10 s; a 200 x 200 matrix with 5 non-zeros a row back from its
sketch in under 30 s, 784 x 784 attempted; all within 4 GiB. Wall clock with as many threads as
there are cores, each part in a process of its own for its peak. Rivals in the same run: a full SVD
for the norms, HiGHS for recovery at a size that it solves in some twenty seconds.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from scipy import sparse
from scipy.optimize import linprog

from cushion.compressors.pruning.masks import apply_masks, masks_for
from cushion.compressors.pruning.recovery import recover
from cushion.compressors.pruning.sketched import (
    MARGIN,
    bipartite,
    default_ones,
    statistical_dimension,
)
from cushion.compressors.storage.pruned import fitted
from cushion.nets.models import build
from cushion.nets.tracing import trace
from cushion.papers.guha.sketch import sparse_matrix

_NET = "1x28x28: flatten fc2500 relu fc2500 relu fc2500 relu fc2500 relu fc10"
_PER_ROW = 5
_HIGHS_SIDE = 40  # p of the largest matrix that HiGHS gets


def run() -> dict[str, object]:
    """Every part in its own process; {part: figures}."""
    parts = ("prune", "norms", "recover_200", "recover_784", "recover_784_normal", "rival")
    return {part: json.loads(_own_process(part)) for part in parts}


def prune() -> dict[str, float]:
    """Algorithm 1 and an 8-bit grid on every layer, against a forward pass of 256 images."""
    net = trace(build(_NET, seed=0).eval(), (1, 28, 28))
    begin = time.perf_counter()
    net.forward(torch.zeros(256, 1, 28, 28))
    forward = time.perf_counter() - begin
    begin = time.perf_counter()
    masks = masks_for(net, "bernoulli", d=1.0, sparsity=None, seed=0)
    layers = [
        fitted(node.affine.operator.weight, mask, 8)
        for node, mask in zip(net.affine_layers, masks, strict=True)
    ]
    seconds = time.perf_counter() - begin
    kept = sum(int(np.count_nonzero(layer.integers)) for layer in layers)
    return {
        "seconds": seconds,
        "goal_seconds": 5,
        "forwards": seconds / forward,
        "kept": kept / net.parameters,
    }


def norms() -> dict[str, float]:
    """‖Δ‖₂ of every layer by the operators' own norm, against torch.linalg.matrix_norm."""
    net = trace(build(_NET, seed=0).eval(), (1, 28, 28))
    pruned = apply_masks(net, masks_for(net, "bernoulli", d=1.0, sparsity=None, seed=0))
    shifts = [
        before.affine.operator.minus(after.affine.operator)
        for before, after in zip(net.affine_layers, pruned.affine_layers, strict=True)
    ]
    begin = time.perf_counter()
    ours = [shift.spectral() for shift in shifts]
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    exact = [float(torch.linalg.matrix_norm(shift.weight, 2)) for shift in shifts]
    rival = time.perf_counter() - begin
    worst = max(abs(a - b) / b for a, b in zip(ours, exact, strict=True))
    return {
        "seconds": seconds,
        "goal_seconds": 10,
        "worst_relative_error": worst,
        "svd_over_ours": rival / seconds,
    }


def recover_200() -> dict[str, float]:
    return _recovery(200, normal=False)


def recover_784() -> dict[str, float]:
    return _recovery(784, normal=False)


def recover_784_normal() -> dict[str, float]:
    """With normal values: many are small, which takes longer to find."""
    return _recovery(784, normal=True)


def rival() -> dict[str, float]:
    """HiGHS and ours on the same sketch; the norms must agree."""
    X, A, B = _case(_HIGHS_SIDE, normal=False)
    Y = A @ X @ B.T
    begin = time.perf_counter()
    M = sparse.kron(sparse.csr_array(A), sparse.csr_array(B))
    answer = linprog(
        np.ones(2 * X.size), A_eq=sparse.hstack([M, -M]), b_eq=Y.reshape(-1), method="highs"
    )
    highs = time.perf_counter() - begin
    begin = time.perf_counter()
    ours = recover(Y, A, B)
    seconds = time.perf_counter() - begin
    apart = abs(float(np.abs(ours.matrix).sum()) - answer.fun) / answer.fun
    return {
        "p": _HIGHS_SIDE,
        "seconds": seconds,
        "highs_seconds": highs,
        "highs_over_ours": highs / seconds,
        "apart": apart,
    }


def _case(p: int, *, normal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix and factors a little above the size at which recovery sets in."""
    m = int(np.ceil(p * np.sqrt(MARGIN * statistical_dimension(_PER_ROW / p))))
    ones = default_ones(p, p, m, m)
    X = sparse_matrix(p, _PER_ROW, 0, 0)
    if normal:
        X = np.where(X != 0, np.random.default_rng(0).normal(size=X.shape), 0.0)
    return X, bipartite(m, p, ones, 0, "left"), bipartite(m, p, ones, 0, "right")


def _recovery(p: int, *, normal: bool) -> dict[str, float]:
    X, A, B = _case(p, normal=normal)
    begin = time.perf_counter()
    found = recover(A @ X @ B.T, A, B)
    seconds = time.perf_counter() - begin
    return {
        "m": len(A),
        "ones": int(A[:, 0].sum()),
        "seconds": seconds,
        "iterations": found.iterations,
        "worst_error": float(np.abs(found.matrix - X).max() / np.abs(X).max()),
        "optimal_gap": found.optimal_gap,
        "unique": found.unique,
    }


def _own_process(part: str) -> str:
    command = [sys.executable, "-m", "benchmarks.pruning", part]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _main() -> None:
    if len(sys.argv) == 1:
        print(run())
        return
    figures = globals()[sys.argv[1]]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(json.dumps({**figures, "peak_gibibytes": peak}))


if __name__ == "__main__":
    _main()

"""Spectral norms: Lanczos iteration from below, a completed Cholesky factorisation from above."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

if TYPE_CHECKING:
    from cushion.operators.operator import Operator

_DENSE = 48  # up to this many rows or columns the whole spectrum costs less than Lanczos' start
EXPLICIT = 1 << 23  # entries of a matrix that may be written out (64 MB)
_UNIT = 2.0**-53  # unit roundoff of float64


def lanczos_norm(operator: Operator) -> float:
    """‖A‖₂ by Lanczos iteration (ARPACK) in float64 on AᵀA or AAᵀ, whichever is smaller.

    The residual tolerance 1e-6 relative to σ² puts σ within a relative 5e-7 of a singular value. The start
    vector comes from a fixed seed, so repeated calls agree. Ritz values lie below σ² but for float64 rounding.
    """
    if operator.frobenius() == 0.0:
        return 0.0
    double = operator.to(torch.float64)
    wide = double.input_size > double.output_size
    size = double.output_size if wide else double.input_size
    if size <= _DENSE:
        return float(torch.linalg.matrix_norm(double.dense(), 2))
    shape = double.output_shape if wide else double.input_shape
    device = double.weight.device
    matrix = double.dense() if double.input_size * double.output_size <= EXPLICIT else None

    def gram(vector: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float64)).to(device)
        if matrix is not None:  # a matrix-vector product costs less than two convolutions in float64
            y = matrix @ (x @ matrix) if wide else (matrix @ x) @ matrix
        else:
            x = x.reshape(1, *shape)
            y = double.apply(double.adjoint(x)) if wide else double.adjoint(double.apply(x))
        return y.reshape(-1).cpu().numpy()

    start = np.random.default_rng(0).standard_normal(size)
    top = eigsh(
        LinearOperator((size, size), matvec=gram, dtype=np.float64),
        k=1,
        which="LA",
        v0=start,
        tol=1e-6,
        return_eigenvectors=False,
    )
    return math.sqrt(max(float(top[0]), 0.0))


def gram_upper(blocks: Tensor, guess: float = 0.0, perturbation: float = 0.0) -> float:
    """An upper bound on the largest spectral norm among `blocks`, [F, rows, columns] in float64 or complex128.

    t bounds the eigenvalues of G = B Bᴴ if the Cholesky factorisation of t·I - G runs to completion, up to
    (n + 2)·u·trace for its rounding (Rump 2006, "Verification of positive definiteness", Theorem 2.3) and
    γ·‖B‖_F² for the rounding of G; both are added. `guess` is where the search for t starts (any number is
    safe; a good one makes the bound tight to 1e-5), `perturbation` how far, in Frobenius norm, each given block may
    be from the true one.
    """
    if blocks.shape[1] > blocks.shape[2]:
        blocks = blocks.mH
    rows, columns = blocks.shape[1:]
    largest = float(blocks.abs().max())
    if largest == 0.0:
        return perturbation
    unit = 2.0 ** math.frexp(largest)[1]  # a power of two: scaling by it is exact, and squares cannot underflow
    blocks = blocks / unit
    gram = blocks @ blocks.mH
    squares = float(torch.linalg.vector_norm(blocks, dim=(1, 2)).max()) ** 2
    identity = torch.eye(rows, dtype=blocks.dtype, device=blocks.device)
    top, step, pending = (guess / unit) ** 2 * (1 + 1e-5), 1e-3, gram
    while len(pending):
        if top > 0.0:
            failed = torch.linalg.cholesky_ex(top * identity - pending).info != 0
            pending = pending[failed]
        if len(pending):
            top, step = max(top, _power_estimate(pending)) * (1 + step), 2 * step
    # Complex products cost four real ones, hence the factor 4 on every count of roundings.
    slack = 4 * (columns + 4) * _UNIT * squares + 4 * (rows + 4) * _UNIT * rows * top
    return (unit * math.sqrt(top + slack) + perturbation) * (1 + 8 * _UNIT)


def _power_estimate(gram: Tensor) -> float:
    """A lower estimate of the largest eigenvalue among positive semidefinite blocks, [F, n, n]."""
    vectors = gram[:, :, gram.diagonal(dim1=1, dim2=2).real.sum(0).argmax(), None]
    estimate = gram.diagonal(dim1=1, dim2=2).real.max()
    for _ in range(24):
        vectors = gram @ (vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_min(1e-300))
        estimate = torch.maximum(estimate, torch.linalg.vector_norm(vectors, dim=1).max())
    return float(estimate)

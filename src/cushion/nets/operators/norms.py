"""Spectral norms: Lanczos iteration from below, a completed Cholesky factorisation from above."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

if TYPE_CHECKING:
    from cushion.nets.operators.operator import Operator

_DENSE = 48  # up to this many rows or columns the whole spectrum costs less than Lanczos' start
EXPLICIT = 1 << 23  # entries of a matrix that may be written out (64 MB)
_ERROR = 1e-6  # of σ², relative: half as much of σ
_FIRST, _SECOND = 1e-5, (1e-3, 5e-5)  # residuals in float32, relative to σ²; see `lanczos_norm`
_RESTARTS = 100  # of Lanczos in float32, before float64 takes over
_UNIT = 2.0**-53  # unit roundoff of float64

Vector = NDArray[np.floating[Any]]


_BLOCK = 256  # rows of a large matrix that are widened at a time


def lanczos_norm(operator: Operator) -> float:
    """‖A‖₂ to a relative 1e-6, from below but for float64 rounding; calls with fixed seeds agree.

    G is AᵀA or AAᵀ, whichever is smaller. Lanczos iteration (ARPACK) in float32 finds a vector x;
    the answer is its Rayleigh quotient ρ = ‖A x‖² in float64, with the residual r = ‖G x - ρ x‖.
    Some eigenvalue lies within r of ρ. That alone is no proof that the largest does: where two are
    nearly equal, a start vector that is poor in the first converges to the second. So Lanczos runs
    again from another start, on the complement of x. Its top, β, bounds the second eigenvalue
    (interlacing), and if β < ρ the largest is at most ρ + r² / (ρ - β) (Kato-Temple). Unless that
    or r is within 1e-6·ρ, Lanczos goes on from x in float64 until r is.
    """
    if operator.operator_frobenius() == 0.0:
        return 0.0
    if min(operator.input_size, operator.output_size) <= _DENSE:
        return float(torch.linalg.matrix_norm(operator.to(torch.float64).dense(), 2))
    scaled, unit = scale_to_one(operator)
    exact, fast = Gram(scaled, torch.float64), Gram(scaled, torch.float32)
    starts: Vector = np.random.default_rng(0).standard_normal((2, exact.size), dtype=np.float32)
    try:
        value, vector = _largest(fast, starts[0], _FIRST, _RESTARTS)
        rest, other = _second_look(fast, starts[1], value, vector)
        starts = np.stack([vector, other])
    except ArpackNoConvergence:
        rest = math.inf
    value, vector, residual = exact.rayleigh_ritz(starts)
    if residual > _ERROR * value and residual**2 > _ERROR * value * (value - rest):
        _, vector = _largest(exact, vector, _ERROR)
        value, _, _ = exact.rayleigh_ritz(vector[None])
    return unit * math.sqrt(value)


def scale_to_one(operator: Operator) -> tuple[Operator, float]:
    """A / unit, with weights in [-1, 1]; unit is a power of two: exact, and squares are floats."""
    unit = 2.0 ** math.frexp(float(operator.weight.abs().max()))[1]
    weight = operator.weight.detach().to(torch.float64) / unit
    return dataclasses.replace(operator, weight=weight), unit  # type: ignore[type-var]


class Gram:
    """The smaller of AᵀA and AAᵀ as a function of flat vectors, [size] or [N, size], in `dtype`."""

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        operator = operator.to(dtype)
        # a quarter faster on single images
        if operator.weight.dim() == 4 and dtype == torch.float32:
            weight = operator.weight.to(memory_format=torch.channels_last)
            operator = dataclasses.replace(operator, weight=weight)  # type: ignore[type-var]
        wide = operator.input_size > operator.output_size
        self.first: Callable[[Tensor], Tensor] = operator.adjoint if wide else operator.apply
        self.then: Callable[[Tensor], Tensor] = operator.apply if wide else operator.adjoint
        self.shape = operator.output_shape if wide else operator.input_shape
        self.size = math.prod(self.shape)
        self.weight = operator.weight

    def __call__(self, vectors: Vector) -> Vector:
        products = self.then(self.first(self.maps(vectors.reshape(-1, self.size))))
        return self.flat(products).reshape(vectors.shape)

    def maps(self, vectors: Vector) -> Tensor:
        """[N, size] -> [N, *shape]: channels vary fastest in a flat vector."""
        maps = torch.from_numpy(vectors).to(self.weight)
        return maps.reshape(len(vectors), *self.shape[1:], self.shape[0]).movedim(-1, 1)

    def flat(self, maps: Tensor) -> Vector:
        """[N, *shape] -> [N, size], the inverse of `maps`."""
        flat: Vector = maps.movedim(1, -1).flatten(1).cpu().numpy()
        return flat

    def rayleigh_ritz(self, vectors: Vector) -> tuple[float, Vector, float]:
        """The largest ρ = ‖A x‖² over unit x in the span, its x, and the residual ‖G x - ρ x‖."""
        basis = np.linalg.qr(vectors.T.astype(np.float64))[0].T.copy()
        images = self.first(self.maps(basis))
        left, singular, _ = torch.linalg.svd(images.flatten(1), full_matrices=False)
        value, mix = float(singular[0]) ** 2, left[:, 0]
        vector = mix.cpu().numpy() @ basis
        product = self.flat(self.then(torch.tensordot(mix[None], images, 1)))[0]
        return value, vector, float(np.linalg.norm(product - value * vector))


def _largest(
    gram: Callable[[Vector], Vector], start: Vector, tolerance: float, restarts: int | None = None
) -> tuple[float, Vector]:
    """The largest eigenvalue of a symmetric map, residual ≤ tolerance · it, and its unit vector."""
    linear = LinearOperator((start.size, start.size), matvec=gram, dtype=start.dtype)
    values, vectors = eigsh(linear, k=1, which="LA", v0=start, tol=tolerance, maxiter=restarts)
    return float(values[0]), vectors[:, 0]


def _second_look(
    gram: Callable[[Vector], Vector], start: Vector, value: float, vector: Vector
) -> tuple[float, Vector]:
    """The top of G on the complement of `vector`, Ritz value plus residual, and the Ritz vector.

    Precise only where `value` is close. The map is shifted by `value` because ARPACK's tolerance is
    relative: on the complement there may be nothing left but rounding.
    """

    def rest(x: Vector) -> Vector:
        y = gram(x - vector * (vector @ x))
        y -= vector * (vector @ y)
        return y + np.float32(value) * x

    for tolerance in _SECOND:
        top, start = _largest(rest, start, tolerance, _RESTARTS)
        upper = top * (1 + tolerance) - value
        if _FIRST**2 * value < _ERROR * (value - upper):
            break
    return upper, start


def gram_upper(blocks: Tensor, guess: float = 0.0, perturbation: float = 0.0) -> float:
    """An upper bound on the spectral norms of `blocks`, [F, rows, columns], float64 or complex128.

    t bounds the eigenvalues of G = B Bᴴ if the Cholesky factorisation of t·I - G runs to
    completion, up to (n + 2)·u·trace for its rounding (Rump 2006, "Verification of positive
    definiteness", Theorem 2.3) and γ·‖B‖_F² for the rounding of G; both are added. `guess` is where
    the search for t starts (any number is safe; a good one makes the bound tight to 1e-5),
    `perturbation` how far, in Frobenius norm, each given block may be from the true one.
    """
    if blocks.shape[1] > blocks.shape[2]:
        blocks = blocks.mH
    rows, columns = blocks.shape[1:]
    largest = float(blocks.abs().max())
    if largest == 0.0:
        return perturbation
    # a power of two: scaling by it is exact, and squares cannot underflow
    unit = 2.0 ** math.frexp(largest)[1]
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


def sums_upper(weight: Tensor) -> float:
    """min(‖W‖_F, √(largest column sum · largest row sum) of |W|), at least ‖W‖₂ with its rounding.

    Sums of n numbers err by less than n·u of themselves; both factors have at most n + 4 roundings.
    """
    rows, columns, squares = 0.0, weight.new_zeros(weight.shape[1], dtype=torch.float64), 0.0
    for start in range(0, len(weight), _BLOCK):
        block = weight.detach()[start : start + _BLOCK]
        sizes = block.to(torch.float64).abs_()
        rows = max(rows, float(sizes.sum(1).max()))
        columns += sizes.sum(0)
        squares += float(torch.linalg.vector_norm(sizes)) ** 2
    slack = 1 + 4 * (weight.numel() + 8) * _UNIT
    return min(math.sqrt(rows) * math.sqrt(float(columns.max())), math.sqrt(squares)) * slack


def _power_estimate(gram: Tensor) -> float:
    """A lower estimate of the largest eigenvalue among positive semidefinite blocks, [F, n, n]."""
    vectors = gram[:, :, gram.diagonal(dim1=1, dim2=2).real.sum(0).argmax(), None]
    estimate = gram.diagonal(dim1=1, dim2=2).real.max()
    for _ in range(24):
        lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        vectors = gram @ (vectors / lengths.clamp_min(1e-300))
        estimate = torch.maximum(estimate, torch.linalg.vector_norm(vectors, dim=1).max())
    return float(estimate)

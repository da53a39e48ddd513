"""Spectral norms: Lanczos iteration from below, a completed Cholesky factorisation from above."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from torch import Tensor

from cushion.nets.operators.block_lanczos import top_of

if TYPE_CHECKING:
    from cushion.nets.operators.operator import Operator

_DENSE = 48  # up to this many rows or columns the whole spectrum costs less than Lanczos' start
EXPLICIT = 1 << 23  # entries of a matrix that may be written out (64 MB)
_ERROR = 1e-6  # of σ², relative: half as much of σ
_FIRST, _SECOND = 1e-5, 1e-3  # residuals in float32, relative to σ²; see `lanczos_norm`
_FLOOR = 3e-6  # below it products in float32 are hardly better
_RESTARTS = 100  # of Lanczos in float32, before float64 takes over
_USUAL = 20  # weights between 2⁻²⁰ and 2²⁰ are not scaled
_UNIT = 2.0**-53  # unit roundoff of float64

Vector = NDArray[np.floating[Any]]


def lanczos_norm(operator: Operator) -> float:
    """‖A‖₂ to a relative 1e-6, from below but for float64 rounding; calls with fixed seeds agree.

    G is AᵀA or AAᵀ, whichever is smaller. Block Lanczos in float32 from random starts, two and of
    matrices four (`block_lanczos`), finds a vector x; the answer is its Rayleigh quotient
    ρ = ‖A x‖² in float64, with the residual r = ‖G x - ρ x‖. Some eigenvalue lies within r of ρ.
    That alone is no proof that the largest does: where some are nearly equal, a start that is poor
    in the first converges to another. So there are several starts, and β, the second Ritz value
    plus its residual, stands for the second eigenvalue: if β < ρ the largest is at most
    ρ + r² / (ρ - β) (Kato-Temple). Unless that or r is within 1e-6·ρ, the search goes on in float64
    until r is. β is an estimate, so this is no proof: where more values crowd within about 1e-5
    than there are starts, the first may stay hidden (of 1200 such maps one, off by 2e-6).
    """
    if operator.operator_frobenius() == 0.0:
        return 0.0
    if min(operator.input_size, operator.output_size) <= _DENSE:
        return float(torch.linalg.matrix_norm(operator.to(torch.float64).dense(), 2))
    scaled, unit = scale_to_one(operator)
    exact, fast = Gram(scaled, torch.float64), Gram(scaled, torch.float32)
    count = 4 if operator.weight.dim() == 2 else 2  # products of matrices are bound by memory
    shape = min(count, exact.size // 5), exact.size
    starts: Vector = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    top = top_of(fast.product, torch.from_numpy(starts), _enough, _RESTARTS)
    value, _, residual = exact.rayleigh_ritz(top.vectors[:1].numpy())
    rest = top.values[1] + top.residuals[1]
    if residual > _ERROR * value and not residual**2 <= _ERROR * value * (value - rest):
        top = top_of(exact.product, top.vectors[:-1].double(), _surely)
        value, _, _ = exact.rayleigh_ritz(top.vectors.numpy())
    return unit * math.sqrt(value)


def _enough(values: Vector, residuals: Vector) -> bool:
    """Where float32 may stop: the wanted proof with a factor 4 to spare, or little left to gain."""
    first, second = residuals[:2] / values[0]
    apart = 1 - values[1] / values[0] - second
    proved = first <= _FIRST and second <= _SECOND and 4 * first**2 <= _ERROR * apart
    return bool(proved or first <= _FLOOR)


def _surely(values: Vector, residuals: Vector) -> bool:
    return bool(residuals[0] <= 0.9 * _ERROR * values[0])


def scale_to_one(operator: Operator) -> tuple[Operator, float]:
    """A / unit with a power of two such that squares are floats, in float32 or wider.

    Weights of a usual size stay as they are, uncopied, with a unit of 1. Else the largest is scaled
    to about 1: exact, but for what is below 2⁻¹⁴⁹ of it.
    """
    exponent = math.frexp(operator.largest())[1]
    weight, unit = operator.weight.detach(), 1.0
    dtype = torch.promote_types(weight.dtype, torch.float32)
    if abs(exponent) > _USUAL:
        unit = 2.0**exponent
        weight = weight.to(torch.float64) / unit
    return operator.with_weight(weight.to(dtype)), unit


class Gram:
    """The smaller of AᵀA and AAᵀ as a function of flat vectors, [size] or [N, size], in `dtype`."""

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        operator = operator.multiplying(dtype)
        # a quarter faster on single images
        if operator.weight.dim() == 4 and dtype == torch.float32:
            weight = operator.weight.to(memory_format=torch.channels_last)
            operator = operator.with_weight(weight)
        wide = operator.input_size > operator.output_size
        self.first: Callable[[Tensor], Tensor] = operator.adjoint if wide else operator.apply
        self.then: Callable[[Tensor], Tensor] = operator.apply if wide else operator.adjoint
        self.shape = operator.output_shape if wide else operator.input_shape
        self.size = math.prod(self.shape)
        self.dtype, self.device = dtype, operator.weight.device

    def __call__(self, vectors: Vector) -> Vector:
        found: Vector = self.product(torch.from_numpy(vectors)).numpy()
        return found

    def product(self, vectors: Tensor) -> Tensor:
        products = self.then(self.first(self.maps(vectors.reshape(-1, self.size))))
        return self.flat(products).reshape(vectors.shape)

    def maps(self, vectors: Tensor) -> Tensor:
        """[N, size] -> [N, *shape]: channels vary fastest in a flat vector."""
        maps = vectors.to(self.device, self.dtype)
        return maps.reshape(len(vectors), *self.shape[1:], self.shape[0]).movedim(-1, 1)

    def flat(self, maps: Tensor) -> Tensor:
        """[N, *shape] -> [N, size] in main memory, the inverse of `maps`."""
        return maps.movedim(1, -1).flatten(1).cpu()

    def rayleigh_ritz(self, vectors: Vector) -> tuple[float, Vector, float]:
        """The largest ρ = ‖A x‖² over unit x in the span, its x, and the residual ‖G X - X H‖_F of
        the whole span, with orthonormal X and H = Xᵀ G X.
        """
        basis = np.linalg.qr(vectors.T.astype(np.float64))[0].T.copy()
        images = self.first(self.maps(torch.from_numpy(basis)))
        left, singular, _ = torch.linalg.svd(images.flatten(1), full_matrices=False)
        mix = left.mT.cpu().numpy()
        ritz, squares = mix @ basis, singular.square().cpu().numpy()
        products = mix @ self.flat(self.then(images)).numpy()
        residual = float(np.linalg.norm(products - squares[:, None] * ritz))
        return float(squares[0]), ritz[0], residual


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
    gram = torch.stack([square(block) for block in blocks])
    squares = float(gram.diagonal(dim1=1, dim2=2).real.sum(1).max())
    top = positive_top(gram, (guess / unit) ** 2 * (1 + 1e-5))
    # Complex products cost four real ones, hence the factor 4 on every count of roundings.
    slack = 4 * (columns + 4) * _UNIT * squares + factor_slack(rows, top)
    return (unit * math.sqrt(top + slack) + perturbation) * (1 + 8 * _UNIT)


def square(block: Tensor) -> Tensor:
    """B Bᴴ; of a large real block one triangle is computed, and mirrored."""
    if block.device.type != "cpu" or block.dtype != torch.float64 or len(block) < _DENSE:
        return block @ block.mH
    # the transpose of a row-major matrix is what Fortran reads without a copy
    upper = dsyrk(1.0, block.contiguous().numpy().T, trans=1)
    lower = torch.from_numpy(upper.T)
    return lower + lower.tril(-1).mT


def positive_top(gram: Tensor, top: float) -> float:
    """t ≥ top for which the factorisations of all t·I - G run to completion, [F, n, n].

    Lower triangles are read. With `factor_slack` added t bounds the eigenvalues of the G.
    """
    step, pending = 1e-3, gram
    while len(pending):
        if top > 0.0:
            shifted = -pending
            shifted.diagonal(dim1=1, dim2=2).add_(top)
            failed = torch.linalg.cholesky_ex(shifted).info != 0
            pending = pending[failed]
        if len(pending):
            top, step = max(top, _power_estimate(pending)) * (1 + step), 2 * step
    return top


def factor_slack(rows: int, top: float) -> float:
    """What the rounding of a factorisation of t·I - G may hide (Rump), its trace at most rows·t."""
    return 4 * (rows + 4) * _UNIT * rows * top


def _power_estimate(gram: Tensor) -> float:
    """A lower estimate of the largest eigenvalue among positive semidefinite blocks, [F, n, n]."""
    vectors = gram[:, :, gram.diagonal(dim1=1, dim2=2).real.sum(0).argmax(), None]
    estimate = gram.diagonal(dim1=1, dim2=2).real.max()
    for _ in range(24):
        lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        vectors = gram @ (vectors / lengths.clamp_min(1e-300))
        estimate = torch.maximum(estimate, torch.linalg.vector_norm(vectors, dim=1).max())
    return float(estimate)

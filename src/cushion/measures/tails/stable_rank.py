"""The stable rank of a matrix, exactly, and the spectral norm as Shin 2021 has it (Appendix D)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput


def stable_rank(matrix: NDArray[np.floating]) -> float:
    """‖M‖_F²/‖M‖₂² of [n, m] by its singular values: from 1 to the rank, 0 if M is zero."""
    values = np.linalg.svd(_checked(matrix), compute_uv=False)
    if values.size == 0 or values[0] == 0:
        return 0.0
    return float(((values / values[0]) ** 2).sum())  # in this order nothing overflows


def power_iteration_norm(
    matrix: NDArray[np.floating], iterations: int = 1000, seed: int = 0
) -> float:
    """‖M v‖ of the unit vector v that products with MᵀM make of a random one: ‖M‖₂ from below.

    The share of direction i in v falls as (σ_i/σ₁)^(2·iterations) beside the first. Where singular
    values nearly equal the first, the answer lies between them.
    """
    numbers = _checked(matrix)
    scale = float(np.abs(numbers).max(initial=0.0))
    if scale == 0:
        return 0.0
    scaled = numbers / scale
    vector = np.random.default_rng(seed).standard_normal((numbers.shape[1],))
    for _ in range(iterations):
        vector /= np.linalg.norm(vector)
        vector = scaled.T @ (scaled @ vector)
    return scale * float(np.linalg.norm(scaled @ (vector / np.linalg.norm(vector))))


def _checked(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    numbers = np.asarray(matrix, dtype=np.float64)
    if numbers.ndim != 2:
        shape = f"an array of shape {numbers.shape}; reshape it to [out, rest]"
        raise BadInput(f"a stable rank needs a matrix, not {shape}")
    if not np.isfinite(numbers).all():
        raise BadInput("the matrix has entries infinite or not a number; check the training")
    return numbers

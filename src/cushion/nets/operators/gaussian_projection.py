"""A weight as k products with seeded normal vectors: Vector-Project, Algorithm 3 of Arora 2018.

For a weight c with n numbers and independent v_1, ..., v_k ~ N(0, I_n),

    z_t = ⟨c, v_t⟩,    ĉ = (1/k) Σ_t z_t v_t.

**Layout.** With P = ⌈n/2⌉, row v_t (t from 0) owns words 2P·t, ..., 2P·t + 2P - 1 of
`counter.stream(purpose, seed)`. A word w is the number (⌊w/2¹¹⌋ + 1)/2⁵³ in (0, 1]. With radius ρ_j
= √(-2 ln a_j) from the first P words and the angle θ_j = 2π b_j from the last P, entry j is ρ_j cos
θ_j and entry P + j is ρ_j sin θ_j (Box and Muller 1958); for odd n the last one is left out. So v_t
depends on n, t, seed and purpose alone. No entry exceeds √(106 ln 2) < 8.58.

**Moments.** E ĉ = c, and for every u, by Isserlis' formula, E⟨u, ĉ - c⟩² = (‖c‖²‖u‖² + ⟨c, u⟩²)/k.

**Arithmetic.** float64 throughout; every z_t is summed on its own, and ĉ row after row, so that no
block size or thread count changes a bit. (Logarithm, sine and cosine are numpy's: another build may
round their last bit otherwise.) Memory is O(n + k).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data.counter import stream
from cushion.nets.operators.sign_projection import flat_coefficients, flat_weight

PURPOSE = "gaussian projection"
LARGEST = 8.58  # no |entry| of a row exceeds it
_BLOCK = 1 << 16  # normals generated at once: few calls for short rows, little memory for long ones


def gaussian_rows(
    size: int, first: int, count: int, seed: int, purpose: str = PURPOSE
) -> NDArray[np.float64]:
    """v_first, ...: [count, size]; row t depends on (size, t, seed, purpose) alone."""
    pairs = -(-size // 2)
    words = stream(purpose, seed, count * 2 * pairs, first * 2 * pairs).reshape(count, 2, pairs)
    uniform = ((words >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[:, 0]))
    angle = (2.0 * math.pi) * uniform[:, 1]
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)), axis=1)[:, :size]


def gaussian_coefficients(weight: Tensor, k: int, seed: int, purpose: str = PURPOSE) -> Tensor:
    """z_t = ⟨c, v_t⟩ for t < k: [k], in the dtype (float32 or float64) and place of `weight`.

    The first numbers do not change when k grows.
    """
    values = flat_weight(weight, k, LARGEST)
    coefficients = np.empty(k)
    for t, row in enumerate(_streamed(values.size, k, seed, purpose)):
        # pairwise, by the row's length alone; a library's dot may use threads
        coefficients[t] = (values * row).sum()
    return torch.from_numpy(coefficients).to(weight.device, weight.dtype)


def gaussian_reconstruction(
    coefficients: Tensor, shape: Sequence[int], seed: int, purpose: str = PURPOSE
) -> Tensor:
    """ĉ = (1/k) Σ_t z_t v_t from the [k] numbers alone, as a decoder has them: [*shape]."""
    values = flat_coefficients(coefficients, shape, LARGEST)
    total = np.zeros(math.prod(shape))
    rows = _streamed(total.size, values.size, seed, purpose)
    for z, row in zip(values / values.size, rows, strict=True):
        total += z * row
    return torch.from_numpy(total.reshape(tuple(shape))).to(coefficients.device, coefficients.dtype)


def _streamed(size: int, k: int, seed: int, purpose: str) -> Iterator[NDArray[np.float64]]:
    """Rows 0, ..., k-1 one by one, generated in blocks."""
    step = max(1, _BLOCK // size)
    for first in range(0, k, step):
        yield from gaussian_rows(size, first, min(step, k - first), seed, purpose)

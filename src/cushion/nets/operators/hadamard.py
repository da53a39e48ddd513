"""A weight as k rows of its signed Hadamard transform (SRHT), a structured Matrix-Project.

Arora 2018, Algorithm 1, draws helper matrices of independent signs; here they are rows of one
orthogonal matrix, so all k inner products cost one fast transform. The n numbers of A are padded
with zeros to N = 2^⌈log2 n⌉; with the N x N Hadamard matrix H (H_rs = -1 to the number of bits that
r and s share), signs D and distinct rows r_1, ..., r_k,

    M_t = (D_s H_{r_t s})_s,    c_t = ⟨A, M_t⟩,    Â = (1/k) Σ_t c_t M_t.

**Layout.** D_s is bit s mod 64, counted from the least significant, of word ⌊s/64⌋ of
`counter.stream` with purpose "<purpose> signs": 1 means +1, 0 means -1. The rows are 0, ..., N-1 in
the order of words 0, ..., N-1 of the stream with purpose "<purpose> rows" without their lowest log2
N bits, equal words in the order of the rows: a uniform permutation, but for such ties, of which
N³/2⁶⁵ are expected. So M_t depends on N, t, seed and purpose alone, not on k.

**Moments.** E Â = A. For every U of A's shape, since two distinct rows are uniform among the pairs
of rows,

    E⟨U, Â - A⟩² = (N - k)/(k(N - 1)) · (‖A‖²‖U‖² + ⟨A, U⟩² - 2 Σ_s A_s² U_s²)    (Frobenius norms)

never more than with independent signs, and 0 at k = N: then nothing is lost but rounding. Lemma 2's
failure probability is not proved for these helper matrices: only their variance is stated here.

**Arithmetic.** Additions and subtractions in float64, in one order: no library of matrix products,
so that the result depends on neither threads nor machine. Only results are rounded to the weight's
dtype. Each number is a tree of depth log2 N: |error of c_t| ≤ log2 N·2⁻⁵³·‖A‖₁ to first order.
Cost: N log2 N additions for each function, at any k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators.sign_projection import flat_coefficients, flat_weight

PURPOSE = "hadamard projection"
_WORD = 64  # signs in a word
_STRETCH = 1 << 16  # numbers transformed at once: they stay in the cache, and the calls are few


def srht_coefficients(weight: Tensor, k: int, seed: int, purpose: str = PURPOSE) -> Tensor:
    """c_t = ⟨A, M_t⟩ for t < k ≤ N: [k], in the dtype (float32, float64) and place of `weight`.

    The first numbers do not change when k grows.
    """
    values = flat_weight(weight, k)
    size = padded_size(values.size)
    rows = _rows(size, k, seed, purpose)
    padded = np.zeros(size)
    np.multiply(values, _signs(values.size, seed, purpose), out=padded[: values.size])
    found = walsh_hadamard(padded).take(rows, mode="clip")
    return torch.from_numpy(found).to(weight.device, weight.dtype)


def srht_reconstruction(
    coefficients: Tensor, shape: Sequence[int], seed: int, purpose: str = PURPOSE
) -> Tensor:
    """Â = (1/k) Σ_t c_t M_t from the [k] numbers alone, as a decoder has them: [*shape]."""
    values = flat_coefficients(coefficients, shape)
    n, k = math.prod(shape), values.size
    size = padded_size(n)
    placed = np.zeros(size)
    placed[_rows(size, k, seed, purpose)] = values / k
    total = walsh_hadamard(placed)[:n]
    total *= _signs(n, seed, purpose)
    return torch.from_numpy(total.reshape(tuple(shape))).to(coefficients.device, coefficients.dtype)


def padded_size(n: int) -> int:
    """N: the least power of two that is at least n ≥ 1; k is at most that."""
    return 1 << (n - 1).bit_length()


def walsh_hadamard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """H · values for [N] numbers, N a power of two, in place; H is symmetric and H² = N.

    The low bits of the index first, inside stretches that fit the cache, then the high ones,
    between stretches: every number is the same tree of sums whatever the length of a stretch.
    """
    stretches = values.reshape(-1, min(_STRETCH, values.size))
    for stretch in stretches:
        stretch[:] = _butterflies(stretch[:, None].copy())[:, 0]
    width = max(1, _STRETCH // len(stretches))
    for first in range(0, stretches.shape[1], width):
        columns = stretches[:, first : first + width]
        columns[:] = _butterflies(columns.copy())
    return values


def _butterflies(now: NDArray[np.float64]) -> NDArray[np.float64]:
    """H · now for an [N, w] array, which is used up.

    Each step adds and subtracts neighbours, and puts the sums before the differences: the lowest
    bit of the index becomes the highest, so that after log2 N steps every bit is back in its place.
    """
    half, then = len(now) // 2, np.empty_like(now)
    for _ in range(len(now).bit_length() - 1):
        np.add(now[0::2], now[1::2], out=then[:half])
        np.subtract(now[0::2], now[1::2], out=then[half:])
        now, then = then, now
    return now


# whoever reconstructs has mostly just projected, and sorting is a third of the work
@lru_cache(maxsize=1)
def _rows(size: int, k: int, seed: int, purpose: str) -> NDArray[np.intp]:
    """r_1, ..., r_k out of 0, ..., size-1: [k], not to be written to."""
    if k > size:
        said = f"a Hadamard projection of this weight has at most {size} coefficients, not {k}"
        raise BadInput(f"{said}: use a smaller k")
    low = np.uint64(size - 1)
    keys = np.arange(size, dtype=np.uint64)
    for first in range(0, size, _STRETCH):
        words = stream(f"{purpose} rows", seed, min(_STRETCH, size - first), first)
        keys[first : first + _STRETCH] |= words & ~low
    if k < size:
        keys.partition(k)
        keys = keys[:k].copy()
    keys.sort()
    keys &= low
    rows = keys.view(np.int64).astype(np.intp, copy=False)
    rows.setflags(write=False)
    return rows


def _signs(n: int, seed: int, purpose: str) -> NDArray[np.float64]:
    """D_0, ..., D_{n-1}: [n] of ±1."""
    words = stream(f"{purpose} signs", seed, -(-n // _WORD))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=n, bitorder="little")
    return bits.astype(np.float64) * 2.0 - 1.0

"""A weight as k inner products with seeded ±1 matrices: Matrix-Project, Algorithm 1 of Arora 2018.

For a weight A with n numbers and helper matrices M_1, ..., M_k of independent, uniform signs,

    c_t = ⟨A, M_t⟩,    Â = (1/k) Σ_t c_t M_t.

The k numbers c_t are the compressed weight; the signs come from a seed and cost nothing.

**Layout.** Entry s of M_t (rows of A one after the other, s and t from 0) is bit t mod 64, counted from the least
significant, of word ⌊t/64⌋·n + s of `counter.stream(purpose, seed, ...)`: 1 means +1, 0 means -1. So M_t depends on
n, t, seed and purpose alone, not on k, the machine or how the work is cut up. Two weights of the same size
share their helper matrices unless their seeds or purposes differ: give every layer a purpose of its own.

**Moments.** E Â = A. For every U of A's shape, since E[m_p m_q m_r m_s] is 1 if the four indices pair up and 0 if not,

    E⟨U, Â - A⟩² = (‖A‖²‖U‖² + ⟨A, U⟩² - 2 Σ_s A_s² U_s²) / k    (Frobenius norms)

which is at most 2‖A‖²‖U‖²/k. Summed over U = e_i xᵀ, and over all U with a single one, for a matrix A with h rows:

    E‖(Â - A)x‖² = (h‖A‖²‖x‖² + ‖Ax‖² - 2 Σ_ij A_ij² x_j²) / k,    E‖Â - A‖² = (n - 1)‖A‖²/k.

`sign_projection_k` states how large k must be for one pair of vectors; a union bound pays for several.

**Arithmetic.** All sums are in float64, in one order that no chunk size or thread count changes; only the results are
rounded to the weight's dtype. To first order |error of c_t| ≤ (n + 200)·2⁻⁵³·‖A‖₁ and |error of Â_s| ≤
(k/8 + 10)·2⁻⁵³·mean|c_t|, plus 2⁻²⁴|c_t| and 2⁻²⁴|Â_s| for a float32 weight: 10⁵ signed terms cost 1e-11 of ‖A‖₁.

**Cost.** Eight signs of an entry make a byte. Adding A up by the value of the byte, in 256 bins, gives eight c_t; a
table of the 256 signed sums of eight c_t gives their part of Â ("four Russians"). Memory is O(n + k): never k·n signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.counter import stream
from cushion.errors import BadInput

PURPOSE = "sign projection"
_WORD = 64  # signs in a word: one for each of 64 matrices
_BYTE = 8  # signs looked up at once: tables of 256 numbers stay in the fastest cache
_BLOCK = 1 << 16  # entries worked on at once: large enough to hide Python's overhead, small enough for the cache

_Block = tuple[slice, NDArray[np.uint64]]  # a range of entries, and one word for each of them


def sign_coefficients(weight: Tensor, k: int, seed: int, purpose: str = PURPOSE) -> Tensor:
    """c_t = ⟨A, M_t⟩ for t < k: [k], in the dtype and on the device of `weight` (float32 or float64, any shape).

    The first numbers do not change when k grows.
    """
    values = _flat(weight, k)
    coefficients = torch.empty(k, dtype=weight.dtype)
    for first in range(0, k, _WORD):
        part = coefficients[first : first + _WORD]
        part.copy_(torch.from_numpy(_inner_products(values, _blocks(values.size, first, seed, purpose), len(part))))
    return coefficients.to(weight.device)


def sign_reconstruction(coefficients: Tensor, shape: Sequence[int], seed: int, purpose: str = PURPOSE) -> Tensor:
    """Â = (1/k) Σ_t c_t M_t from the [k] numbers alone: [*shape], in their dtype. This is what a decoder runs.

    Equal, bit for bit, to the Â of `sign_project` with the same seed and purpose.
    """
    _check_float(coefficients, "coefficients of a sign projection")
    if coefficients.ndim != 1:
        raise BadInput(f"coefficients of a sign projection must be one row of numbers, not {tuple(coefficients.shape)}")
    if any(size < 1 for size in shape):
        raise BadInput(f"a weight of shape {tuple(shape)} holds no numbers to reconstruct")
    k, total = len(coefficients), np.zeros(math.prod(shape))
    scaled = coefficients.detach().to("cpu", torch.float64).numpy() / k
    for first in range(0, k, _WORD):
        _add_combination(total, scaled[first : first + _WORD], _blocks(total.size, first, seed, purpose))
    return torch.from_numpy(total.reshape(tuple(shape))).to(coefficients.device, coefficients.dtype)


def sign_project(weight: Tensor, k: int, seed: int, purpose: str = PURPOSE) -> tuple[Tensor, Tensor]:
    """Both (c, Â): [k] and the shape of `weight`, in its dtype; every sign is generated once.

    Â is built from the c that is returned, rounded to the weight's dtype, as a decoder would see it.
    """
    values = _flat(weight, k)
    coefficients, total = torch.empty(k, dtype=weight.dtype), np.zeros(values.size)
    for first in range(0, k, _WORD):
        blocks = list(_blocks(values.size, first, seed, purpose))
        part = coefficients[first : first + _WORD]
        part.copy_(torch.from_numpy(_inner_products(values, blocks, len(part))))
        _add_combination(total, part.to(torch.float64).numpy() / k, blocks)
        del blocks  # before the next ones are generated
    projected = torch.from_numpy(total.reshape(tuple(weight.shape)))
    return coefficients.to(weight.device), projected.to(weight.device, weight.dtype)


def sign_projection_k(epsilon: float, eta: float) -> int:
    """The least whole k ≥ ln(4/η) / (ε²/4 - ε³/6), which gives P[|uᵀ(Â - A)v| ≤ ε‖A‖_F‖u‖‖v‖] ≥ 1 - η.

    u and v may not depend on the signs. Proof: with a = A/‖A‖_F and b = uvᵀ/(‖u‖‖v‖), the sign version of
    Johnson-Lindenstrauss (Achlioptas 2003) keeps ‖a+b‖² and ‖a-b‖² to a relative ε, each but for a probability of
    2 exp(-k(ε²/4 - ε³/6)); ⟨a, b⟩ is a quarter of their difference and ‖a+b‖² + ‖a-b‖² = 4. The paper's own k is too
    small for the failure probability that it states.

    >>> sign_projection_k(0.1, 0.01)
    2568
    """
    if not 0.0 < epsilon < 1.0:
        raise BadInput(f"the accuracy ε of a sign projection must lie strictly between 0 and 1, not {epsilon}")
    if not 0.0 < eta < 1.0:
        raise BadInput(f"the failure probability η of a sign projection must lie strictly between 0 and 1, not {eta}")
    needed = (math.log(4.0) - math.log(eta)) / (0.25 - epsilon / 6.0) / epsilon / epsilon
    if not math.isfinite(needed):
        raise BadInput(f"an accuracy ε of {epsilon} needs more coefficients than can be counted: choose a larger one")
    return math.ceil(needed * (1.0 + 1e-14))  # the margin covers the rounding of the line above


def _blocks(n: int, first: int, seed: int, purpose: str) -> Iterator[_Block]:
    """The signs of matrices first, ..., first+63 (first is a multiple of 64), in ranges of the n entries."""
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        yield slice(start, start + count), stream(purpose, seed, count, first // _WORD * n + start)


def _byte(words: NDArray[np.uint64], number: int) -> NDArray[np.intp]:
    """Byte `number` of every word, as an index; shifts give the same answer whatever the machine's byte order."""
    return ((words >> np.uint64(_BYTE * number)) & np.uint64(255)).view(np.int64).astype(np.intp, copy=False)


def _inner_products(values: NDArray[np.float64], blocks: Iterable[_Block], count: int) -> NDArray[np.float64]:
    """⟨values, M_t⟩ for the first `count` of 64 matrices: [count]."""
    bins = np.zeros((-(-count // _BYTE), 1 << _BYTE))
    for entries, words in blocks:
        for number, row in enumerate(bins):
            np.add.at(row, _byte(words, number), values[entries])  # entry after entry: blocks cannot change the sum
    products = np.empty((len(bins), _BYTE))
    for bit in range(_BYTE):
        pairs = bins.reshape(len(bins), -1, 2)  # the lowest bit left is 0 or 1
        products[:, bit] = (pairs[:, :, 1] - pairs[:, :, 0]).sum(axis=1)
        bins = pairs[:, :, 0] + pairs[:, :, 1]  # that bit no longer matters
    return products.reshape(-1)[:count]


def _add_combination(total: NDArray[np.float64], coefficients: NDArray[np.float64], blocks: Iterable[_Block]) -> None:
    """Add Σ_t c_t M_t over at most 64 matrices to `total`, in place."""
    padded = np.zeros((-(-len(coefficients) // _BYTE), _BYTE))
    padded.reshape(-1)[: len(coefficients)] = coefficients
    tables = np.zeros((len(padded), 1))
    for bit in range(_BYTE):
        c = padded[:, bit : bit + 1]
        tables = np.concatenate((tables - c, tables + c), axis=1)  # the upper half has this bit set
    for entries, words in blocks:
        for number, table in enumerate(tables):
            total[entries] += table.take(_byte(words, number))


def _flat(weight: Tensor, k: int) -> NDArray[np.float64]:
    """The numbers of a usable weight in row-major order, float64: [n]."""
    if k < 1:
        raise BadInput(f"a sign projection needs at least 1 coefficient, not {k}")
    _check_float(weight, "weights of a sign projection")
    values = weight.detach().to("cpu", torch.float64).reshape(-1)
    if not values.abs().sum() <= torch.finfo(weight.dtype).max / 2:  # |c_t| ≤ ‖A‖₁ must fit the dtype
        raise BadInput("the weights are too large to project: their absolute sum must fit their own dtype")
    return values.numpy()


def _check_float(numbers: Tensor, name: str) -> None:
    if numbers.dtype not in (torch.float32, torch.float64):
        raise BadInput(f"the {name} must be float32 or float64, not {str(numbers.dtype).removeprefix('torch.')}")
    if numbers.numel() == 0:
        raise BadInput(f"the {name} are empty: there is nothing to project")
    if not torch.isfinite(numbers).all():
        raise BadInput(f"the {name} must be finite numbers, and some are infinite or not a number")

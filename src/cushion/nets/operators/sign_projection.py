"""A weight as k inner products with seeded ±1 matrices: Matrix-Project, Algorithm 1 of Arora 2018.

For a weight A with n numbers and helper matrices M_1, ..., M_k of independent, uniform signs,

    c_t = ⟨A, M_t⟩,    Â = (1/k) Σ_t c_t M_t.

The k numbers c_t are the compressed weight; the signs come from a seed and cost nothing.

**Layout.** Entry s of M_t (rows of A one after the other, s and t from 0) is bit t mod 64, counted
from the least significant, of word ⌊t/64⌋·n + s of `counter.stream(purpose, seed, ...)`: 1 means
+1, 0 means -1. So M_t depends on n, t, seed and purpose alone, not on k, the machine or how the
work is cut up. Two weights of the same size share their helper matrices unless their seeds or
purposes differ: give every layer a purpose of its own.

**Moments.** E Â = A. For every U of A's shape, since E[m_p m_q m_r m_s] is 1 if the four indices
pair up and 0 if not,

    E⟨U, Â - A⟩² = (‖A‖²‖U‖² + ⟨A, U⟩² - 2 Σ_s A_s² U_s²) / k    (Frobenius norms)

which is at most 2‖A‖²‖U‖²/k. Summed over U = e_i xᵀ, and over all U with a single one, for a matrix
A with h rows:

    E‖(Â - A)x‖² = (h‖A‖²‖x‖² + ‖Ax‖² - 2 Σ_ij A_ij² x_j²) / k,    E‖Â - A‖² = (n - 1)‖A‖²/k.

`sign_projection_k` states how large k must be for one pair of vectors; a union bound pays for
several.

**Arithmetic.** All sums are in float64, in one order that no chunk size or thread count changes;
only the results are rounded to the weight's dtype. To first order |error of c_t| ≤ (n +
200)·2⁻⁵³·‖A‖₁ and |error of Â_s| ≤ (k/8 + 10)·2⁻⁵³·mean|c_t|, plus 2⁻²⁴|c_t| and 2⁻²⁴|Â_s| for a
float32 weight: 10⁵ signed terms cost 1e-11 of ‖A‖₁.

**Cost.** Eight signs of an entry make a byte. Adding A up by the value of the byte, in 256 bins,
gives eight c_t; a table of the 256 signed sums of eight c_t gives their part of Â ("four
Russians"). Threads, as many as `torch.get_num_threads()`, share the coefficients, and the entries
of Â. Memory is O(n + k): never k·n signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.progress import working

PURPOSE = "sign projection"
_WORD = 64  # signs in a word: one for each of 64 matrices
_BYTE = 8  # signs looked up at once: tables of 256 numbers stay in the fastest cache
# entries worked on at once: large enough to hide Python's overhead, small enough for the cache
_BLOCK = 1 << 16
_SHARE = 1 << 13  # entries that make a thread worth its while
# matrices between two looks at the progress bar, and between two waits for all threads
_ROUND = 32 * _WORD

# the first of 64 matrices, and the tables of their part of Â
_Group: TypeAlias = tuple[int, NDArray[np.float64]]


def sign_coefficients(weight: Tensor, k: int, seed: int, purpose: str = PURPOSE) -> Tensor:
    """c_t = ⟨A, M_t⟩ for t < k: [k], in the dtype (float32 or float64) and place of `weight`.

    The first numbers do not change when k grows.
    """
    values = torch.from_numpy(flat_weight(weight, k))
    coefficients = torch.empty(k, dtype=weight.dtype)

    def fill(first: int) -> None:
        part = coefficients[first : first + _WORD]
        part.copy_(torch.from_numpy(_inner_products(values, first, len(part), seed, purpose)))

    with _threads(len(values)) as share:
        for firsts in _rounds(k, "projection"):
            list(share(fill, firsts))
    return coefficients.to(weight.device)


def sign_reconstruction(
    coefficients: Tensor, shape: Sequence[int], seed: int, purpose: str = PURPOSE
) -> Tensor:
    """Â = (1/k) Σ_t c_t M_t from the [k] numbers alone, as a decoder has them: [*shape].

    Equal, bit for bit, to the Â of `sign_project` with the same seed and purpose.
    """
    scaled = flat_coefficients(coefficients, shape) / len(coefficients)
    total = np.zeros(math.prod(shape))
    with _threads(total.size) as share:
        for firsts in _rounds(scaled.size, "reconstruction"):
            groups = [(first, _tables(scaled[first : first + _WORD])) for first in firsts]
            add = partial(_add_combination, total, groups, seed, purpose)
            list(share(add, _blocks(total.size)))
    return torch.from_numpy(total.reshape(tuple(shape))).to(coefficients.device, coefficients.dtype)


def sign_project(
    weight: Tensor, k: int, seed: int, purpose: str = PURPOSE
) -> tuple[Tensor, Tensor]:
    """Both (c, Â): [k] and the shape of `weight`, in its dtype.

    Â is built from the c that is returned, rounded to the weight's dtype, as a decoder sees it.
    """
    coefficients = sign_coefficients(weight, k, seed, purpose)
    return coefficients, sign_reconstruction(coefficients, weight.shape, seed, purpose)


def sign_projection_k(epsilon: float, eta: float) -> int:
    """The least k ≥ ln(4/η) / (ε²/4 - ε³/6): P[|uᵀ(Â - A)v| ≤ ε‖A‖_F‖u‖‖v‖] ≥ 1 - η.

    u and v may not depend on the signs. Proof: with a = A/‖A‖_F and b = uvᵀ/(‖u‖‖v‖), the sign
    version of Johnson-Lindenstrauss (Achlioptas 2003) keeps ‖a+b‖² and ‖a-b‖² to a relative ε, each
    but for a probability of 2 exp(-k(ε²/4 - ε³/6)); ⟨a, b⟩ is a quarter of their difference and
    ‖a+b‖² + ‖a-b‖² = 4. The paper's own k is too small for the failure probability that it states.

    >>> sign_projection_k(0.1, 0.01)
    2568
    """
    for name, value in (("accuracy ε", epsilon), ("failure probability η", eta)):
        if not 0.0 < value < 1.0:
            said = f"the {name} of a sign projection must lie strictly between 0 and 1"
            raise BadInput(f"{said}, not {value}")
    needed = (math.log(4.0) - math.log(eta)) / (0.25 - epsilon / 6.0) / epsilon / epsilon
    if not math.isfinite(needed):
        said = f"an accuracy ε of {epsilon} needs more coefficients than can be counted"
        raise BadInput(f"{said}: choose a larger one")
    return math.ceil(needed * (1.0 + 1e-14))  # the margin covers the rounding of the line above


@contextmanager
def _threads(n: int) -> Iterator[Callable[..., Iterator[None]]]:
    """As many threads as torch may use and n entries can feed; errors are raised to the reader."""
    if _thread_count(n) == 1:
        yield map
        return
    with ThreadPoolExecutor(_thread_count(n)) as pool:
        yield pool.map


def _thread_count(n: int) -> int:
    return max(1, min(torch.get_num_threads(), n // _SHARE))


def _rounds(k: int, name: str) -> Iterator[range]:
    """The first matrix of every 64, a round at a time."""
    with working(name, k, "number") as bar:
        for start in range(0, k, _ROUND):
            stop = min(k, start + _ROUND)
            yield range(start, stop, _WORD)
            bar.advance(stop - start)


def _blocks(n: int) -> list[slice]:
    """Ranges of the n entries, at least one for each thread."""
    size = min(_BLOCK, -(-n // _thread_count(n)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _octets(entries: slice, n: int, first: int, seed: int, purpose: str) -> NDArray[np.uint8]:
    """The signs of matrices first, ..., first+63 (64 divides first) at n entries: [entries, 8].

    Byte i holds matrices first+8i, ..., first+8i+7, the lowest bit first, whatever the machine's
    byte order.
    """
    words = stream(purpose, seed, entries.stop - entries.start, first // _WORD * n + entries.start)
    return words.astype("<u8", copy=False).view(np.uint8).reshape(-1, _WORD // _BYTE)


def _inner_products(
    values: Tensor, first: int, count: int, seed: int, purpose: str
) -> NDArray[np.float64]:
    """⟨values, M_t⟩ for first ≤ t < first + count, at most 64 matrices: [count]."""
    totals = torch.zeros(-(-count // _BYTE), 1 << _BYTE, dtype=torch.float64)
    for entries in _blocks(len(values)):
        octets = _octets(entries, len(values), first, seed, purpose)
        for number, row in enumerate(totals):
            # entry after entry: no block changes the sum; numpy's `add.at` would block threads
            bins = torch.from_numpy(octets[:, number].astype(np.int64))
            row.scatter_add_(0, bins, values[entries])
    sums = totals.numpy()
    products = np.empty((len(sums), _BYTE))
    for bit in range(_BYTE):
        pairs = sums.reshape(len(sums), -1, 2)  # the lowest bit left is 0 or 1
        products[:, bit] = (pairs[:, :, 1] - pairs[:, :, 0]).sum(axis=1)
        sums = pairs[:, :, 0] + pairs[:, :, 1]  # that bit no longer matters
    return products.reshape(-1)[:count]


def _add_combination(
    total: NDArray[np.float64], groups: list[_Group], seed: int, purpose: str, entries: slice
) -> None:
    """Add Σ_t c_t M_t over these groups of matrices to these entries of `total`, in place."""
    for first, tables in groups:
        octets = _octets(entries, total.size, first, seed, purpose)
        for number, table in enumerate(tables):
            total[entries] += table.take(octets[:, number])


def _tables(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The 256 signed sums of every eight of at most 64 coefficients: [bytes, 256]."""
    padded = np.zeros((-(-len(coefficients) // _BYTE), _BYTE))
    padded.reshape(-1)[: len(coefficients)] = coefficients
    tables = np.zeros((len(padded), 1))
    for bit in range(_BYTE):
        c = padded[:, bit : bit + 1]
        tables = np.concatenate((tables - c, tables + c), axis=1)  # the upper half has this bit set
    return tables


def flat_weight(weight: Tensor, k: int, largest: float = 1.0) -> NDArray[np.float64]:
    """The numbers of a usable weight, row-major, float64: [n]; `largest` bounds |entries|."""
    if k < 1:
        raise BadInput(f"a projection needs at least 1 coefficient, not {k}")
    _greatest(weight, "weights of a projection")
    values = weight.detach().to("cpu", torch.float64).reshape(-1)
    # |c_t| ≤ ‖A‖₁ · largest and |Â_s| ≤ ‖A‖₁ · largest² must fit the dtype
    if not values.norm(1) <= torch.finfo(weight.dtype).max / 2 / largest**2:
        said = "the weights are too large to project"
        raise BadInput(f"{said}: their absolute sum must fit their own dtype")
    return values.numpy()


def flat_coefficients(
    coefficients: Tensor, shape: Sequence[int], largest: float = 1.0
) -> NDArray[np.float64]:
    """Usable coefficients of such a weight, float64: [k]; `largest` bounds |entries|."""
    greatest = _greatest(coefficients, "coefficients of a projection")
    if coefficients.ndim != 1:
        found = tuple(coefficients.shape)
        raise BadInput(f"the coefficients of a projection must be one row of numbers, not {found}")
    if any(size < 1 for size in shape):
        raise BadInput(f"a weight of shape {tuple(shape)} holds no numbers to reconstruct")
    if greatest > torch.finfo(coefficients.dtype).max / largest:  # |Â_s| ≤ max |c_t| · largest
        said = "a weight built from them would not fit their own dtype"
        raise BadInput(f"the coefficients are too large: {said}")
    return coefficients.detach().to("cpu", torch.float64).numpy()


def _greatest(numbers: Tensor, name: str) -> float:
    """max |number|, of numbers that can be projected."""
    if numbers.dtype not in (torch.float32, torch.float64):
        found = str(numbers.dtype).removeprefix("torch.")
        raise BadInput(f"the {name} must be float32 or float64, not {found}")
    if numbers.numel() == 0:
        raise BadInput(f"the {name} are empty: there is nothing to project")
    low, high = numbers.detach().aminmax()  # not a number if one of them is not
    if not (torch.isfinite(low) and torch.isfinite(high)):
        raise BadInput(f"the {name} must be finite numbers, and some are infinite or not a number")
    return max(abs(float(low)), abs(float(high)))

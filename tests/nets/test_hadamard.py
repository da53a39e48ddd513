"""The structured projection against its textbook form, its moments, its permutation, and its seeded
rows and signs.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators import hadamard as module
from cushion.nets.operators.hadamard import (
    PURPOSE,
    padded_size,
    srht_coefficients,
    srht_reconstruction,
    walsh_hadamard,
)

DTYPES = [torch.float32, torch.float64]


def _normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=dtype
    )


def textbook_matrices(k: int, n: int, seed: int, purpose: str = PURPOSE) -> list[list[int]]:
    """M_1, ..., M_k one entry at a time, in Python's whole numbers: [k][n] of ±1."""
    size = 1
    while size < n:
        size *= 2
    words = [int(word) // size for word in stream(f"{purpose} rows", seed, size)]
    rows = sorted(range(size), key=lambda row: (words[row], row))[:k]
    signs = []
    for s in range(n):
        word = int(stream(f"{purpose} signs", seed, 1, s // 64)[0])
        signs.append(1 if (word >> (s % 64)) & 1 else -1)
    return [[signs[s] * (-1) ** (row & s).bit_count() for s in range(n)] for row in rows]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "k"), [((1,), 1), ((3,), 4), ((3, 5), 7), ((5, 3, 3, 3), 100), ((8, 16), 128)]
)
def test_agrees_with_the_textbook(shape: tuple[int, ...], k: int, dtype: torch.dtype) -> None:
    weight = _normal(*shape, dtype=dtype)
    flat = weight.double().reshape(-1).tolist()
    matrices = textbook_matrices(k, len(flat), 5, "layer 2")
    c = [math.fsum(a * m for a, m in zip(flat, row, strict=True)) for row in matrices]
    coefficients = srht_coefficients(weight, k, 5, "layer 2")
    estimate = srht_reconstruction(coefficients, shape, 5, "layer 2")
    assert coefficients.dtype == estimate.dtype == dtype
    assert estimate.shape == weight.shape
    unit = 2.0**-24 if dtype == torch.float32 else 0.0
    exact_sum, depth = math.fsum(map(abs, flat)), math.log2(padded_size(len(flat)))
    for found, exact in zip(
        coefficients.tolist(), c, strict=True
    ):  # the rounding that the module states
        assert abs(found - exact) <= (depth + 1) * 2.0**-53 * exact_sum + unit * abs(exact)
    stored = coefficients.double().tolist()
    for s, found in enumerate(estimate.double().reshape(-1).tolist()):
        exact = math.fsum(stored[t] * matrices[t][s] for t in range(k)) / k
        mean = math.fsum(map(abs, stored)) / k
        assert abs(found - exact) <= (depth + 2) * 2.0**-53 * mean + unit * abs(exact)


def test_the_transform_is_the_hadamard_matrix() -> None:
    """Whole numbers are exact: equality, for every size up to 256."""
    H = np.ones((1, 1))
    for _ in range(9):
        size = len(H)
        values = np.arange(size) ** 2 % 101 - 50.0
        found = walsh_hadamard(values.copy())
        assert np.array_equal(found, H @ values)
        assert np.array_equal(walsh_hadamard(found), size * values)  # H² = N
        H = np.block([[H, H], [H, -H]])  # Sylvester's construction
        assert padded_size(size) == size
        assert padded_size(size + 1) == 2 * size


def test_stretches_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the last bit, and neither does what was projected before."""
    weight, k = _normal(23, 29), 700
    expected = srht_coefficients(weight, k, 1)
    image = srht_reconstruction(expected, (23, 29), 1)
    threads = torch.get_num_threads()
    try:
        for stretch, count in itertools.product((1, 2, 64, 512, 1 << 20), (1, 2, 3)):
            monkeypatch.setattr(module, "_STRETCH", stretch)
            module._rows.cache_clear()
            torch.set_num_threads(count)
            assert torch.equal(srht_coefficients(weight, k, 1), expected)
            assert not torch.equal(srht_coefficients(weight, k, 2), expected)
            assert torch.equal(srht_reconstruction(expected, (23, 29), 1), image)
    finally:
        torch.set_num_threads(threads)


def test_the_rows_depend_on_the_padded_size_alone() -> None:
    weight = _normal(6, 5, 3)
    most = srht_coefficients(weight, 128, 9, "layer 2")
    for k in (1, 2, 63, 127):
        assert torch.equal(
            srht_coefficients(weight, k, 9, "layer 2"), most[:k]
        )  # k only adds numbers
    padded = torch.cat((weight.reshape(-1), torch.zeros(20, dtype=torch.float64)))
    assert torch.equal(srht_coefficients(padded, 128, 9, "layer 2"), most)
    for seed, purpose in ((8, "layer 2"), (9, "layer 3")):
        assert not torch.equal(
            srht_coefficients(weight, 128, seed, purpose).sort()[0], most.sort()[0]
        )  # other signs
        assert not np.array_equal(
            module._rows(128, 128, seed, purpose), module._rows(128, 128, 9, "layer 2")
        )
    assert sorted(module._rows(128, 128, 9, "layer 2")) == list(range(128))  # without replacement
    # strides do not matter, order of entries does
    transposed = weight.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert torch.equal(srht_coefficients(transposed.requires_grad_(), 128, 9, "layer 2"), most)


def test_the_matrices_never_change() -> None:
    """Whole numbers are exact, so these coefficients are the same on every machine, for ever."""
    coefficients = srht_coefficients(torch.arange(1.0, 101.0), 128, 7)
    digest = hashlib.sha256(" ".join(str(int(c)) for c in coefficients).encode()).hexdigest()
    assert digest == "3232a65472a54245412c0f49941f128c0ed2d2fcb85c7239197402f4c09bdb92"


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_rows_lose_nothing(dtype: torch.dtype) -> None:
    weight = _normal(31, 33, dtype=dtype)  # 1023 numbers, so N = 1024
    back = srht_reconstruction(srht_coefficients(weight, 1024, 3), (31, 33), 3)
    assert float((back - weight).abs().max()) <= (1e-5 if dtype == torch.float32 else 1e-13)
    less = srht_reconstruction(srht_coefficients(weight, 1023, 3), (31, 33), 3)
    assert float((less - weight).abs().max()) > 1e-4


def variance(A: np.ndarray, U: np.ndarray, k: int, size: int) -> float:
    """E⟨U, Â - A⟩²."""
    independent = (A**2).sum() * (U**2).sum() + (A * U).sum() ** 2 - 2 * (A**2 * U**2).sum()
    return float((size - k) / (k * (size - 1)) * independent)


@pytest.mark.parametrize("n", [3, 4])
def test_the_variance_formula_by_enumeration(n: int) -> None:
    """All signs and all ordered choices of rows at N = 4: exact expectations, no simulation."""
    H = np.array([[(-1.0) ** (r & s).bit_count() for s in range(4)] for r in range(4)])[:, :n]
    A, others = _normal(n).numpy(), (_normal(n, seed=1).numpy(), np.ones(n), np.eye(n)[0])
    for k in (1, 2, 3, 4):
        errors = []
        for signs in itertools.product((-1.0, 1.0), repeat=n):
            for rows in itertools.permutations(range(4), k):
                M = H[list(rows)] * np.array(signs)
                errors.append(M.T @ (M @ A) / k - A)
        np.testing.assert_allclose(np.mean(errors, axis=0), 0.0, atol=1e-13)
        for U in (A, *others):
            exact = ((np.array(errors) @ U) ** 2).mean()
            assert exact == pytest.approx(variance(A, U, k, 4), rel=1e-12, abs=1e-13)


def test_unbiased_with_the_stated_variance() -> None:
    """3000 seeds: every z-score (mean over its estimated standard error) is below 4; fixed seeds,
    so no chance.
    """
    A, k, size, draws = _normal(3, 4), 6, 16, 3000
    found = [
        srht_reconstruction(srht_coefficients(A, k, seed), (3, 4), seed) - A
        for seed in range(draws)
    ]
    errors = torch.stack(found).numpy()

    def z(samples: np.ndarray, expected: float) -> float:
        return float(abs(samples.mean() - expected) / (samples.std(ddof=1) / math.sqrt(draws)))

    assert max(z(errors[:, i, j], 0.0) for i in range(3) for j in range(4)) < 4
    one = np.zeros((3, 4))
    one[1, 2] = 1.0
    for U in (A.numpy(), one, _normal(3, 4, seed=1).numpy(), np.ones((3, 4))):
        squares = (errors * U).sum((1, 2)) ** 2
        expected = variance(A.numpy(), U, k, size)
        assert z(squares, expected) < 4
        # rows drawn with replacement: told apart
        assert z(squares, expected * (size - 1) / (size - k)) > 4


def test_the_permutation_is_uniform() -> None:
    """4800 seeds, 24 orders of 4 rows: χ² with 23 degrees of freedom is below 49.7 but for a
    probability of 0.001.
    """
    orders = Counter(
        tuple(int(row) for row in module._rows(4, 4, seed, "orders")) for seed in range(4800)
    )
    assert len(orders) == 24
    assert sum((count - 200) ** 2 / 200 for count in orders.values()) < 49.7
    prefixes = Counter(
        tuple(int(row) for row in module._rows(4, 2, seed, "orders")) for seed in range(4800)
    )
    assert prefixes == Counter(order[:2] for order in orders.elements())


def test_extreme_weights() -> None:
    assert not srht_coefficients(torch.zeros(3, 3), 16, 0).any()
    large = torch.full((4,), 1e37)
    assert torch.isfinite(srht_reconstruction(srht_coefficients(large, 4, 0), (4,), 0)).all()
    with pytest.raises(BadInput, match="too large"):
        srht_coefficients(torch.full((4,), 1e38), 3, 0)


@pytest.mark.parametrize(
    ("weight", "k", "seed", "words"),
    [
        (torch.ones(3, 3), 17, 0, "at most 16 coefficients, not 17"),
        (torch.ones(1), 2, 0, "at most 1 coefficients, not 2"),
        (torch.ones(2, 2), 0, 0, "at least 1 coefficient"),
        (torch.ones(2, 2), 3, -1, "seed"),
        (torch.ones(0, 4), 3, 0, "empty"),
        (torch.tensor([1.0, math.nan]), 1, 0, "finite"),
        (torch.ones(2, 2, dtype=torch.float16), 3, 0, "float32 or float64"),
    ],
)
def test_bad_weights(weight: torch.Tensor, k: int, seed: int, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        srht_coefficients(weight, k, seed)


@pytest.mark.parametrize(
    ("coefficients", "shape", "seed", "words"),
    [
        (torch.ones(17), (3, 3), 0, "at most 16 coefficients, not 17"),
        (torch.ones(0), (2, 2), 0, "empty"),
        (torch.ones(2, 2), (2, 2), 0, "one row"),
        (torch.ones(3), (2, 0), 0, "no numbers"),
        (torch.ones(3), (2, 2), -1, "seed"),
        (torch.tensor([1.0, math.inf]), (2, 2), 0, "finite"),
        (torch.ones(3, dtype=torch.int32), (2, 2), 0, "float32 or float64"),
    ],
)
def test_bad_coefficients(
    coefficients: torch.Tensor, shape: tuple[int, ...], seed: int, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        srht_reconstruction(coefficients, shape, seed)

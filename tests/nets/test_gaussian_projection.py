"""The Gaussian projection against its textbook form, the law of its seeded normals, and its
moments.
"""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats

from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators import gaussian_projection as module
from cushion.nets.operators.gaussian_projection import (
    LARGEST,
    PURPOSE,
    gaussian_coefficients,
    gaussian_reconstruction,
    gaussian_rows,
)

DTYPES = [torch.float32, torch.float64]


def _normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=dtype
    )


def textbook_row(t: int, n: int, seed: int, purpose: str = PURPOSE) -> list[float]:
    """v_t by Box and Muller, one word at a time."""
    pairs = (n + 1) // 2
    uniform = [
        ((int(w) >> 11) + 1) / 2**53 for w in stream(purpose, seed, 2 * pairs, 2 * pairs * t)
    ]
    radii = [math.sqrt(-2.0 * math.log(a)) for a in uniform[:pairs]]
    turns = [2.0 * math.pi * b for b in uniform[pairs:]]
    entries = [r * math.cos(a) for r, a in zip(radii, turns, strict=True)]
    entries += [r * math.sin(a) for r, a in zip(radii, turns, strict=True)]
    return entries[:n]


@pytest.mark.parametrize("n", [1, 2, 3, 8, 101])
def test_the_rows_are_those_of_the_layout(n: int) -> None:
    found = gaussian_rows(n, 3, 5, 11, "layer 2")
    assert found.shape == (5, n)
    assert found.dtype == np.float64
    textbook = [textbook_row(t, n, 11, "layer 2") for t in range(3, 8)]
    np.testing.assert_allclose(found, textbook, rtol=0, atol=1e-14)
    for first, count in (
        (3, 1),
        (4, 2),
        (0, 9),
    ):  # not even the last bit depends on what else is generated
        part = gaussian_rows(n, first, count, 11, "layer 2")
        assert np.array_equal(part[max(0, 3 - first)], found[max(first, 3) - 3])
    assert not np.array_equal(gaussian_rows(n, 3, 5, 12, "layer 2"), found)
    assert not np.array_equal(gaussian_rows(n, 3, 5, 11, "layer 3"), found)


def test_the_rows_never_change() -> None:
    """To the rounding of the machine's logarithm and sine."""
    assert gaussian_rows(3, 5, 1, 7)[0] == pytest.approx(
        [-0.1440666565477523, 0.730348453415108, 0.5190142034626505], abs=1e-13
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "k"), [((1,), 1), ((5,), 3), ((4, 3, 3), 40), ((301,), 300)])
def test_agrees_with_the_textbook(shape: tuple[int, ...], k: int, dtype: torch.dtype) -> None:
    weight = _normal(*shape, dtype=dtype)
    flat = weight.double().reshape(-1).tolist()
    rows = [textbook_row(t, len(flat), 5) for t in range(k)]
    coefficients = gaussian_coefficients(weight, k, 5)
    estimate = gaussian_reconstruction(coefficients, shape, 5)
    assert coefficients.dtype == estimate.dtype == dtype
    assert estimate.shape == weight.shape
    unit = 2.0**-24 if dtype == torch.float32 else 0.0
    sizes = math.fsum(map(abs, flat))
    for found, row in zip(coefficients.tolist(), rows, strict=True):
        exact = math.fsum(a * v for a, v in zip(flat, row, strict=True))
        assert abs(found - exact) <= 1e-14 * sizes + unit * abs(exact)
    stored = coefficients.double().tolist()
    mean = math.fsum(map(abs, stored)) / k
    for s, found in enumerate(estimate.double().reshape(-1).tolist()):
        exact = math.fsum(stored[t] * rows[t][s] for t in range(k)) / k
        assert abs(found - exact) <= 1e-13 * mean + unit * abs(exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_and_threads_change_nothing(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the last bit, though numpy's functions work on several numbers at once."""
    weight, k = _normal(23, 29, dtype=dtype), 41
    expected = gaussian_coefficients(weight, k, 1)
    image = gaussian_reconstruction(expected, (23, 29), 1)
    assert torch.equal(gaussian_coefficients(weight, 100, 1)[:k], expected)  # k only adds numbers
    threads = torch.get_num_threads()
    try:
        for block, count in ((1, 1), (667 * 2, 2), (667 * 5 + 3, 3), (1 << 24, 4)):
            monkeypatch.setattr(module, "_BLOCK", block)
            torch.set_num_threads(count)
            assert torch.equal(gaussian_coefficients(weight, k, 1), expected)
            assert torch.equal(gaussian_reconstruction(expected, (23, 29), 1), image)
    finally:
        torch.set_num_threads(threads)


def test_the_entries_are_independent_standard_normals() -> None:
    """Kolmogorov-Smirnov at 0.001; correlations below 5 standard errors, and squares of what
    independence gives.
    """
    rows = gaussian_rows(500, 0, 200, 0)
    assert stats.kstest(rows.reshape(-1), "norm").pvalue > 1e-3
    for half in (rows[:, :250], rows[:, 250:]):  # cosines and sines
        assert stats.kstest(half.reshape(-1), "norm").pvalue > 1e-3
        assert abs((half**4).mean() - 3.0) < 5 * math.sqrt(96 / half.size)  # Var of x⁴ is 105 - 9
    pairs = (rows @ rows.T / math.sqrt(500))[np.triu_indices(200, 1)]
    columns = (rows.T @ rows / math.sqrt(200))[np.triu_indices(500, 1)]
    for found in (pairs, columns):
        assert np.abs(found).max() < 5.5
        assert (found**2).mean() == pytest.approx(1.0, abs=0.02)
    # one radius serves two entries: their squares would be correlated if the angle were not uniform
    squares = np.corrcoef(rows[:, :250].reshape(-1) ** 2, rows[:, 250:].reshape(-1) ** 2)[0, 1]
    assert abs(squares) < 5 / math.sqrt(250 * 200)


def test_the_extreme_words_give_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uniform number is never 0: ln 0 would be infinite. It is 2⁻⁵³ for the least word and 1
    for the greatest.
    """
    monkeypatch.setattr(
        module, "stream", lambda purpose, seed, n, first: np.zeros(n, dtype=np.uint64)
    )
    least = gaussian_rows(4, 0, 1, 0)
    assert np.hypot(least[0, 0], least[0, 2]) == pytest.approx(
        math.sqrt(106 * math.log(2)), rel=1e-12
    )
    assert math.sqrt(106 * math.log(2)) * (1 + 1e-12) < LARGEST
    monkeypatch.setattr(
        module, "stream", lambda purpose, seed, n, first: np.full(n, 2**64 - 1, dtype=np.uint64)
    )
    assert not gaussian_rows(4, 0, 1, 0).any()


def variance(c: np.ndarray, u: np.ndarray, k: int) -> float:
    """E⟨u, ĉ - c⟩²."""
    return float(((c**2).sum() * (u**2).sum() + (c * u).sum() ** 2) / k)


def test_unbiased_with_the_stated_variance() -> None:
    """3000 seeds: every z-score (mean over its estimated standard error) is below 4; fixed seeds,
    so no chance.
    """
    c, k, draws = _normal(5), 5, 3000
    found = [
        gaussian_reconstruction(gaussian_coefficients(c, k, seed), (5,), seed) - c
        for seed in range(draws)
    ]
    errors = torch.stack(found).numpy()

    def z(samples: np.ndarray, expected: float) -> float:
        return float(abs(samples.mean() - expected) / (samples.std(ddof=1) / math.sqrt(draws)))

    assert max(z(errors[:, i], 0.0) for i in range(5)) < 4
    one = np.eye(5)[1]
    for u in (c.numpy(), one, _normal(5, seed=1).numpy(), np.ones(5)):
        squares = (errors @ u) ** 2
        expected = variance(c.numpy(), u, k)
        assert z(squares, expected) < 4
        assert z(squares, 1.3 * expected) > 4  # the simulation tells 30 % apart
    signs = expected_of_signs(c.numpy(), c.numpy(), k)
    assert z((errors @ c.numpy()) ** 2, signs) > 4  # and normals from signs


def expected_of_signs(c: np.ndarray, u: np.ndarray, k: int) -> float:
    return variance(c, u, k) - 2 * float((c**2 * u**2).sum()) / k


def test_memory_does_not_grow_with_k() -> None:
    weight = _normal(1000)
    peaks = []
    gaussian_reconstruction(gaussian_coefficients(weight, 100, 0), (1000,), 0)
    for k in (200, 2000):
        tracemalloc.start()
        gaussian_reconstruction(gaussian_coefficients(weight, k, 0), (1000,), 0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 32 * 2000  # the rows alone are 16 MB


def test_extreme_weights() -> None:
    assert not gaussian_coefficients(torch.zeros(3, 3), 7, 0).any()
    large = torch.full((4,), 1e34)
    assert torch.isfinite(
        gaussian_reconstruction(gaussian_coefficients(large, 9, 0), (4,), 0)
    ).all()
    with pytest.raises(
        BadInput, match="too large"
    ):  # entries beyond 1 could carry the result over the edge
        gaussian_coefficients(torch.full((4,), 1e37), 3, 0)
    with pytest.raises(BadInput, match="too large"):
        gaussian_reconstruction(torch.full((4,), 1e38), (4,), 0)


@pytest.mark.parametrize(
    ("weight", "k", "seed", "words"),
    [
        (torch.ones(2, 2), 0, 0, "at least 1 coefficient"),
        (torch.ones(2, 2), 3, -1, "seed"),
        (torch.ones(0, 4), 3, 0, "empty"),
        (torch.tensor([1.0, math.nan]), 1, 0, "finite"),
        (torch.ones(2, 2, dtype=torch.float16), 3, 0, "float32 or float64"),
    ],
)
def test_bad_weights(weight: torch.Tensor, k: int, seed: int, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        gaussian_coefficients(weight, k, seed)


@pytest.mark.parametrize(
    ("coefficients", "shape", "seed", "words"),
    [
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
        gaussian_reconstruction(coefficients, shape, seed)

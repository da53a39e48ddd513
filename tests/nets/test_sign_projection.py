"""The sign projection against its textbook form, its moments, its arithmetic, and its seeded
signs.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators import sign_projection as module
from cushion.nets.operators.sign_projection import (
    PURPOSE,
    sign_coefficients,
    sign_project,
    sign_projection_k,
    sign_reconstruction,
)
from cushion.progress import Bar, working

SHAPES = [(1,), (3, 5), (4, 3, 3, 3), (37, 29)]
KS = [1, 7, 8, 64, 65, 200]
DTYPES = [torch.float32, torch.float64]


def _normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=dtype
    )


def textbook_signs(t: int, n: int, seed: int, purpose: str = PURPOSE) -> list[int]:
    """M_t one entry at a time, in Python's whole numbers: bit t mod 64 of word ⌊t/64⌋·n + s."""
    signs = []
    for s in range(n):
        word = int(stream(purpose, seed, 1, (t // 64) * n + s)[0])
        signs.append(1 if (word >> (t % 64)) & 1 else -1)
    return signs


def sign_matrix(k: int, n: int, seed: int, purpose: str = PURPOSE) -> np.ndarray:
    """All the signs at once by the same layout: [k, n] int8."""
    words = stream(purpose, seed, -(-k // 64) * n).reshape(-1, 1, n)
    bits = (words >> np.arange(64, dtype=np.uint64).reshape(1, 64, 1)) & np.uint64(1)
    return (2 * bits.reshape(-1, n)[:k].astype(np.int8) - 1).astype(np.int8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_agrees_with_the_textbook(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    k, seed = 70, 5  # more than one word of matrices
    weight = _normal(*shape, dtype=dtype)
    flat = weight.double().reshape(-1).tolist()
    signs = [textbook_signs(t, len(flat), seed) for t in range(k)]
    c = [math.fsum(a * m for a, m in zip(flat, row, strict=True)) for row in signs]
    projected = [math.fsum(c[t] * signs[t][s] for t in range(k)) / k for s in range(len(flat))]

    coefficients, estimate = sign_project(weight, k, seed)
    rel = 1e-6 if dtype == torch.float32 else 1e-14
    assert coefficients.dtype == estimate.dtype == dtype
    assert estimate.shape == weight.shape
    np.testing.assert_allclose(coefficients.double(), c, rtol=0, atol=rel * np.abs(c).max())
    np.testing.assert_allclose(
        estimate.double().reshape(-1), projected, rtol=0, atol=rel * np.abs(c).max()
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rounding_is_within_the_stated_error(
    shape: tuple[int, ...], k: int, dtype: torch.dtype
) -> None:
    weight = _normal(*shape, dtype=dtype)
    n, flat = weight.numel(), weight.double().reshape(-1).numpy()
    signs = sign_matrix(k, n, 2)
    coefficients, estimate = sign_project(weight, k, 2)
    unit = 2.0**-24 if dtype == torch.float32 else 0.0
    for c, row in zip(coefficients.tolist(), signs, strict=True):
        exact = math.fsum(flat * row)
        assert abs(c - exact) <= (n + 200) * 2.0**-53 * np.abs(flat).sum() + unit * abs(exact)
    exact_estimate = np.array(
        [math.fsum(coefficients.double().numpy() * signs[:, s]) / k for s in range(n)]
    )
    allowed = (k / 8 + 10) * 2.0**-53 * float(coefficients.double().abs().mean()) + unit * np.abs(
        exact_estimate
    )
    assert (np.abs(estimate.double().reshape(-1).numpy() - exact_estimate) <= allowed).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", KS)
def test_the_three_functions_agree_bit_for_bit(k: int, dtype: torch.dtype) -> None:
    weight = _normal(6, 5, 3, dtype=dtype)
    coefficients, estimate = sign_project(weight, k, 9, "layer 2")
    assert torch.equal(sign_coefficients(weight, k, 9, "layer 2"), coefficients)
    assert torch.equal(sign_reconstruction(coefficients, (6, 5, 3), 9, "layer 2"), estimate)
    assert torch.equal(
        sign_coefficients(weight, 200, 9, "layer 2")[:k], coefficients
    )  # k only adds numbers
    assert not torch.equal(sign_coefficients(weight, k, 9, "layer 3"), coefficients)
    # strides do not matter, order of entries does
    transposed = weight.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert torch.equal(
        sign_coefficients(transposed.requires_grad_(), k, 9, "layer 2"), coefficients
    )


def test_the_signs_are_those_of_the_layout_exactly() -> None:
    n, k, seed = 50, 130, 3
    signs = sign_matrix(k, n, seed)
    columns = [sign_coefficients(torch.eye(n, dtype=torch.float64)[s], k, seed) for s in range(n)]
    assert np.array_equal(torch.stack(columns, 1), signs)
    rows = [
        sign_reconstruction(k * torch.eye(k, dtype=torch.float64)[t], (n,), seed) for t in range(k)
    ]
    assert np.allclose(torch.stack(rows), signs, rtol=0, atol=1e-15)
    assert np.array_equal(signs[::13], [textbook_signs(t, n, seed) for t in range(0, k, 13)])


def test_the_signs_never_change() -> None:
    """Whole numbers are exact, so these coefficients are the same on every machine, for ever."""
    coefficients = sign_coefficients(torch.arange(1.0, 101.0), 300, 7)
    digest = hashlib.sha256(" ".join(str(int(c)) for c in coefficients).encode()).hexdigest()
    assert digest == "d52d9e2e67d11afe77ed27b8a086df1d5af61f36901d9df6c50b584db99627ee"


@pytest.mark.parametrize("dtype", DTYPES)
def test_chunks_and_threads_change_nothing(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the last bit: coefficients and Â are summed in one order, so the stated tolerance is
    0.
    """
    weight = _normal(23, 29, dtype=dtype)
    expected = sign_project(weight, 150, 1)
    for block, rounds in ((1, 64), (64, 64), (500, 128), (666, 1 << 20), (667, 64), (10**9, 64)):
        monkeypatch.setattr(module, "_BLOCK", block)
        monkeypatch.setattr(module, "_ROUND", rounds)
        assert _equal(sign_project(weight, 150, 1), expected)
    monkeypatch.undo()
    monkeypatch.setattr(module, "_SHARE", 50)  # so that 667 entries are worth 13 threads
    workers: set[int] = set()
    with _threads_restored():
        for count in (1, 2, 3, 50):
            torch.set_num_threads(count)
            workers.clear()
            with monkeypatch.context() as patch:
                patch.setattr(
                    module, "stream", lambda *a: (workers.add(threading.get_ident()), stream(*a))[1]
                )
                assert _equal(sign_project(weight, 150, 1), expected)
            assert (threading.get_ident() in workers) == (count == 1)
        torch.set_num_threads(3)
        with ThreadPoolExecutor(4) as pool:  # several projections at once
            assert all(
                _equal(found, expected)
                for found in pool.map(lambda _: sign_project(weight, 150, 1), range(8))
            )


def test_large_weights_take_as_many_threads_as_torch() -> None:
    with _threads_restored():
        for allowed, n, expected in (
            (1, 10**9, 1),
            (2, 1 << 14, 2),
            (2, (1 << 14) - 1, 1),
            (8, 10**6, 8),
            (8, 1, 1),
        ):
            torch.set_num_threads(allowed)
            assert module._thread_count(n) == expected
            blocks = module._blocks(n)
            assert len(blocks) >= expected  # work for every thread
            assert blocks[0].start == 0
            assert blocks[-1].stop == n
            assert all(left.stop == right.start for left, right in itertools.pairwise(blocks))


@contextmanager
def _threads_restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def test_the_order_of_the_sums() -> None:
    """Bit for bit: entry after entry into 256 bins, and eight coefficients after eight, for every
    word of 64.
    """
    n, k, seed = 300, 72, 4
    weight = _normal(n)
    signs = sign_matrix(k, n, seed)
    coefficients, estimate = sign_project(weight, k, seed)
    total = np.zeros(n)
    for first in range(0, k, 8):
        values = ((signs[first : first + 8] > 0) * (1 << np.arange(8))[:, None]).sum(axis=0)
        bins = np.zeros(256)
        np.add.at(bins, values, weight.numpy())  # numpy's word for one after the other
        lowest = (bins.reshape(-1, 2)[:, 1] - bins.reshape(-1, 2)[:, 0]).sum()
        assert lowest == coefficients[first]
        part = np.zeros(n)
        for t in range(first, first + 8):
            part = part + signs[t] * (coefficients[t].item() / k)
        total += part
    assert np.array_equal(estimate, total)


def test_progress_counts_every_coefficient(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Bar] = []

    @contextmanager
    def watched(*words: Any) -> Iterator[Bar]:
        with working(*words) as bar:
            bars.append(bar)
            yield bar

    monkeypatch.setattr(module, "working", watched)
    monkeypatch.setattr(module, "_ROUND", 64)
    monkeypatch.setattr("sys.stderr", terminal := _Terminal())
    sign_project(_normal(3, 4), 150, 0)
    assert [(bar.total, bar.done) for bar in bars] == [(150, 150)] * 2
    assert "150" not in terminal.getvalue()  # and shows nothing in its first two seconds


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _equal(
    found: tuple[torch.Tensor, torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor]
) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_variance_formula_by_enumeration() -> None:
    """All 2⁹ sign matrices with k = 1: exact expectations, no simulation."""
    A, x = _normal(3, 3).numpy(), _normal(3, seed=1).numpy()
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=9))).reshape(-1, 3, 3)
    estimates = (signs * A).sum((1, 2))[:, None, None] * signs
    np.testing.assert_allclose(estimates.mean(0), A, atol=1e-12)
    for U in (_normal(3, 3, seed=2).numpy(), A, np.eye(3)):
        exact = (((estimates - A) * U).sum((1, 2)) ** 2).mean()
        assert exact == pytest.approx(variance(A, U, 1), rel=1e-12)
    assert (((estimates - A) @ x) ** 2).sum(1).mean() == pytest.approx(
        variance_at(A, x, 1), rel=1e-12
    )
    assert ((estimates - A) ** 2).sum((1, 2)).mean() == pytest.approx(8 * (A**2).sum(), rel=1e-12)


def variance(A: np.ndarray, U: np.ndarray, k: int) -> float:
    """E⟨U, Â - A⟩²."""
    return float(((A**2).sum() * (U**2).sum() + (A * U).sum() ** 2 - 2 * (A**2 * U**2).sum()) / k)


def variance_at(A: np.ndarray, x: np.ndarray, k: int) -> float:
    """E‖(Â - A)x‖²."""
    return float(
        (len(A) * (A**2).sum() * (x**2).sum() + ((A @ x) ** 2).sum() - 2 * (A**2 @ x**2).sum()) / k
    )


def test_unbiased_with_the_stated_variance() -> None:
    """2000 seeds: every z-score (mean over its estimated standard error) is below 4; fixed seeds,
    so no chance.
    """
    A, k, draws = _normal(3, 4), 5, 2000
    errors = torch.stack([sign_project(A, k, seed)[1] - A for seed in range(draws)]).numpy()

    def z(samples: np.ndarray, expected: float) -> float:
        return float(abs(samples.mean() - expected) / (samples.std(ddof=1) / math.sqrt(draws)))

    assert max(z(errors[:, i, j], 0.0) for i in range(3) for j in range(4)) < 4
    one = np.zeros((3, 4))
    one[1, 2] = 1.0
    for U in (A.numpy(), one, _normal(3, 4, seed=1).numpy(), np.ones((3, 4))):
        squares = (errors * U).sum((1, 2)) ** 2
        expected = variance(A.numpy(), U, k)
        assert z(squares, expected) < 4
        assert z(squares, 1.3 * expected) > 4  # the simulation tells 30 % apart
    x = _normal(4, seed=3).numpy()
    assert z(((errors @ x) ** 2).sum(1), variance_at(A.numpy(), x, k)) < 4
    assert z((errors**2).sum((1, 2)), 11 * float((A**2).sum()) / k) < 4


def test_the_signs_look_independent() -> None:
    """Bits of words, neighbouring entries, seeds and purposes: correlations below 5 standard errors
    each, and their squares average to what independence gives.
    """
    k, n = 128, 4000
    signs = sign_matrix(k, n, 0).astype(np.float64)
    others = {
        "seed": sign_matrix(k, n, 1),
        "purpose": sign_matrix(k, n, 0, PURPOSE + " 2"),
        "next entry": np.roll(signs, 1, axis=1),
    }
    assert np.abs(signs.mean(1)).max() * math.sqrt(n) < 4.5  # each matrix is balanced
    assert np.abs(signs.mean(0)).max() * math.sqrt(k) < 4.5  # each entry is balanced
    assert abs(signs.mean()) * math.sqrt(k * n) < 4
    pairs = (signs @ signs.T / math.sqrt(n))[np.triu_indices(k, 1)]
    assert np.abs(pairs).max() < 5
    assert (pairs**2).mean() == pytest.approx(1.0, abs=5 * math.sqrt(2 / len(pairs)))
    entries = (signs[:, :200].T @ signs[:, :200] / math.sqrt(k))[np.triu_indices(200, 1)]
    assert np.abs(entries).max() < 5
    for other in others.values():
        across = signs @ other.T / math.sqrt(n)
        assert np.abs(across).max() < 5
        assert (across**2).mean() == pytest.approx(1.0, abs=5 * math.sqrt(2 / across.size))


def test_how_many_coefficients() -> None:
    assert sign_projection_k(0.5, 0.1) == 89  # ln 40 / (1/16 - 1/48) = 88.53
    assert sign_projection_k(0.1, 0.01) == 2568  # ln 400 / (0.0025 - 0.000166...) = 2567.76
    assert sign_projection_k(0.99, 0.99) == 17  # 16.77
    for epsilon, eta in itertools.product((0.01, 0.2, 0.7, 0.999), (1e-300, 1e-6, 0.3)):
        k, exponent = sign_projection_k(epsilon, eta), epsilon**2 / 4 - epsilon**3 / 6
        log_failure = math.log(4) - k * exponent
        assert log_failure <= math.log(eta) + 1e-9  # k is enough
        assert log_failure + exponent >= math.log(eta) - 1e-9  # and k - 1 is not


def test_memory_does_not_grow_with_k() -> None:
    weight = _normal(100, 200)
    peaks, ks = [], (2048, 8 * 2048)
    sign_project(weight, 64, 0)
    for k in ks:
        tracemalloc.start()
        sign_project(weight, k, 0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 20 * 8 * weight.numel()
    assert peaks[1] < peaks[0] + 40 * (
        ks[1] - ks[0]
    )  # five copies of the numbers themselves; their signs are 36 MB


def test_extreme_weights() -> None:
    coefficients, estimate = sign_project(torch.zeros(3, 3), 70, 0)
    assert not coefficients.any()
    assert not estimate.any()
    large = torch.full((4,), 1e37)
    assert torch.isfinite(sign_project(large, 1000, 0)[1]).all()
    assert torch.isfinite(sign_project(large.double() * 1e270, 1000, 0)[1]).all()
    for weight in (torch.full((4,), 1e38), torch.full((4,), 1e308, dtype=torch.float64)):
        with pytest.raises(BadInput, match="too large"):
            sign_project(weight, 3, 0)


@pytest.mark.parametrize("function", [sign_project, sign_coefficients])
@pytest.mark.parametrize(
    ("weight", "k", "seed", "words"),
    [
        (torch.ones(2, 2), 0, 0, "at least 1 coefficient"),
        (torch.ones(2, 2), -3, 0, "at least 1 coefficient"),
        (torch.ones(2, 2), 3, -1, "seed"),
        (torch.ones(0, 4), 3, 0, "empty"),
        (torch.tensor([1.0, math.nan]), 3, 0, "finite"),
        (torch.tensor([1.0, -math.inf]), 3, 0, "finite"),
        (torch.ones(2, 2, dtype=torch.float16), 3, 0, "float32 or float64"),
        (torch.ones(2, 2, dtype=torch.int64), 3, 0, "float32 or float64"),
    ],
)
def test_bad_weights(function: object, weight: torch.Tensor, k: int, seed: int, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        function(weight, k, seed)  # type: ignore[operator]


def test_bad_coefficients_and_accuracies() -> None:
    for coefficients, shape, seed, words in (
        (torch.ones(0), (2, 2), 0, "empty"),
        (torch.ones(2, 2), (2, 2), 0, "one row"),
        (torch.ones(3), (2, 0), 0, "no numbers"),
        (torch.ones(3), (2, -2), 0, "no numbers"),
        (torch.ones(3), (-2, -2), 0, "no numbers"),
        (torch.ones(3), (2, 2), -1, "seed"),
        (torch.tensor([1.0, math.inf]), (2, 2), 0, "finite"),
        (torch.ones(3, dtype=torch.int32), (2, 2), 0, "float32 or float64"),
    ):
        with pytest.raises(BadInput, match=words):
            sign_reconstruction(coefficients, shape, seed)
    for epsilon in (0.0, 1.0, -0.5, 2.0, math.nan):
        with pytest.raises(BadInput, match="ε"):
            sign_projection_k(epsilon, 0.1)
    for eta in (0.0, 1.0, -0.5, math.nan):
        with pytest.raises(BadInput, match="η"):
            sign_projection_k(0.1, eta)
    with pytest.raises(BadInput, match="larger"):
        sign_projection_k(1e-200, 0.1)

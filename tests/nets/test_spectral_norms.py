"""The norm from below: against dense SVDs, where singular values crowd, and when a start vector is
poor.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from tests.cases import LAYERS, every

from cushion.nets.operators import (
    Conv2d,
    Diagonal,
    Linear,
    Operator,
    block_lanczos,
    entry_sums,
    matrices,
    norms,
)
from cushion.nets.operators.norms import Gram, lanczos_norm

torch.set_num_threads(1)
ROUNDING = 1e-13


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def _true_norm(operator: Operator) -> float:
    return float(torch.linalg.matrix_norm(operator.to(torch.float64).dense(), 2))


@every(LAYERS)
def test_every_layer_of_every_case_by_iteration(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(norms, "_DENSE", 12)  # a basis needs more rows than there are starts
    assert 1 - 1e-6 <= lanczos_norm(operator) / _true_norm(operator) <= 1 + ROUNDING


@pytest.mark.parametrize(
    "operator",
    [
        Conv2d(_normal(3, 8, 3, 3), (8, 9, 12), padding=(1, 1, 1, 1)),
        Conv2d(_normal(8, 3, 3, 3), (3, 12, 9), padding=(0, 1, 1, 2)),
        Conv2d(_normal(8, 4, 3, 3), (8, 10, 10), stride=(2, 1), dilation=(1, 2), groups=2),
        Conv2d(torch.ones(4, 4, 3, 3), (4, 12, 12), padding=(1, 1, 1, 1)),
        Conv2d(torch.ones(6, 1, 3, 3) / 9, (6, 10, 10), padding=(1, 1, 1, 1), groups=6),
        Conv2d(torch.eye(8)[:, :, None, None], (8, 8, 8)),
        Conv2d(
            (_normal(8, 1) @ _normal(1, 72)).reshape(8, 8, 3, 3), (8, 10, 10), padding=(1, 1, 1, 1)
        ),
        Linear(_normal(200, 1) @ _normal(1, 300)),
        Linear(torch.linalg.qr(_normal(150, 150)).Q),
        Linear(_normal(90, 400) * 1e-30),
        Linear(_normal(90, 400) * 1e30),
        Linear(_normal(90, 400).double() * 1e-100),
        Linear(_normal(90, 400).bfloat16()),
    ],
)
def test_structured_degenerate_and_extreme_maps(operator: Operator) -> None:
    assert 1 - 1e-6 <= operator.spectral() / _true_norm(operator) <= 1 + ROUNDING


def _crowded(gap: float, copies: int, seed: int) -> Diagonal:
    """A bulk with a soft edge, and above it `copies` eigenvalues σ² at relative distances `gap`;
    the norm is 1.
    """
    rng = np.random.default_rng(seed)
    squares = 0.98 - 0.95 * (1 - (np.arange(600) + 0.5) / 600) ** (2 / 3)
    squares[:copies] = 1 - gap * np.arange(copies)
    return Diagonal(torch.from_numpy(np.sqrt(rng.permutation(squares))), (600,))


@pytest.mark.parametrize("gap", [1e-3, 1e-4, 3e-5, 1e-5, 4e-6, 1e-7, 0.0])
@pytest.mark.parametrize("copies", [2, 3])
def test_crowded_tops(gap: float, copies: int) -> None:
    """One start alone, to the same residual, takes the second value for the first in some of a
    hundred such maps.
    """
    for seed in range(25):
        assert 1 - 1e-6 <= lanczos_norm(_crowded(gap, copies, seed)) <= 1 + ROUNDING


def test_a_start_that_misses_the_top_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first start has no part in the first eigenvector: only the second can find it."""
    operator = Diagonal(torch.cat([torch.tensor([2.0]), torch.linspace(0.1, 1.9, 199)]), (200,))
    starts = np.random.default_rng(1).standard_normal((2, 200), dtype=np.float32)
    starts[0, 0] = 0.0

    class Blind:
        def standard_normal(self, *_: object, **__: object) -> np.ndarray:
            return starts

    monkeypatch.setattr(np.random, "default_rng", lambda _: Blind())
    assert lanczos_norm(operator) == pytest.approx(2.0, rel=1e-6)


def test_products_too_coarse_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products as rough as a graphics card's in TF32: the float64 residual sends the search on in
    float64.
    """
    exact_product = Gram.product

    def rough(self: Gram, vectors: torch.Tensor) -> torch.Tensor:
        product = exact_product(self, vectors)
        if self.dtype == torch.float32:
            product = product * (
                1 + 2e-3 * torch.arange(product.numel()).sin().reshape(product.shape)
            )
        return product

    monkeypatch.setattr(Gram, "product", rough)
    operator = Conv2d(_normal(6, 4, 3, 3), (4, 10, 10), padding=(1, 1, 1, 1))
    assert 1 - 1e-6 <= lanczos_norm(operator) / _true_norm(operator) <= 1 + ROUNDING


def test_no_convergence_in_float32_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "_RESTARTS", 0)
    monkeypatch.setattr(block_lanczos, "_MOST", 16)
    operator = Linear(_normal(120, 80))
    assert 1 - 1e-6 <= lanczos_norm(operator) / _true_norm(operator) <= 1 + ROUNDING


@pytest.mark.parametrize("room", [16, 24, 240])
def test_block_lanczos_with_and_without_restarts_is_the_dense_spectrum(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_lanczos, "_MOST", room)
    matrix = _normal(150, 90).double()
    gram = matrix @ matrix.T
    gram[:, -1] = gram[-1] = 0.0
    gram[-1, -1] = 1.0 + float(torch.linalg.eigvalsh(gram)[-1])  # and once more, nearly
    values = torch.linalg.eigvalsh(gram).flip(0).numpy()
    starts = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 150)))
    found = block_lanczos.top_of(
        lambda rows: rows @ gram, starts, lambda values, r: r[:3].max() <= 1e-9 * values[0]
    )
    np.testing.assert_allclose(found.values[:3], values[:3], rtol=1e-12)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(5), atol=1e-10)
    gaps = found.vectors @ gram - torch.from_numpy(found.values.copy())[:, None] * found.vectors
    np.testing.assert_allclose(gaps.norm(dim=1).numpy(), found.residuals, rtol=1e-2, atol=1e-9)


def test_float64_products_of_a_narrower_matrix_are_those_of_its_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrices, "_WIDENED", 600)
    operator = Linear(_normal(70, 90))
    wide, copy = operator.multiplying(torch.float64), operator.to(torch.float64)
    assert isinstance(wide, matrices.Widened)
    x, y = _normal(3, 90).double(), _normal(3, 70).double()
    torch.testing.assert_close(wide.apply(x), copy.apply(x))
    torch.testing.assert_close(wide.adjoint(y), copy.adjoint(y))


@pytest.mark.parametrize("shape", [(60, 90), (90, 60), (8, 5)])
def test_one_triangle_mirrored_is_the_whole_product(shape: tuple[int, int]) -> None:
    block = _normal(*shape).double()
    torch.testing.assert_close(norms.square(block), block @ block.T)
    torch.testing.assert_close(norms.square(block.T), block.T @ block)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_sums_over_entries_in_blocks_are_those_of_the_whole(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_sums, "_BLOCK", 600)
    operator = Linear(_normal(70, 90) * scale)
    matrix = operator.weight.double()
    for p in (1, 2, 3):
        norms_of_rows = torch.linalg.vector_norm(matrix, p, dim=1)
        torch.testing.assert_close(operator.entry_sums.row_norms(p), norms_of_rows)
    assert operator.frobenius() == pytest.approx(float(matrix.norm()), rel=1e-12)
    sums = torch.linalg.matrix_norm(matrix, 1) * torch.linalg.matrix_norm(matrix, math.inf)
    least = min(float(sums.sqrt()), float(matrix.norm()))
    assert _true_norm(operator) <= operator.entry_sums.spectral_upper()
    assert operator.entry_sums.spectral_upper() == pytest.approx(least, rel=1e-9)


def test_zero_maps() -> None:
    assert Linear(torch.zeros(60, 70)).spectral() == 0.0
    corner = torch.zeros(64, 64, 3, 3)
    corner[:, :, 0, 0] = 1.0  # on a map of one pixel this tap reads nothing but padding
    assert Conv2d(corner, (64, 1, 1), padding=(1, 1, 1, 1)).spectral() == 0.0


def test_the_answer_is_a_rayleigh_quotient() -> None:
    """Of the span of two vectors, the best; its residual is the distance from an eigenvector."""
    operator = Linear(torch.diag(torch.tensor([3.0, 2.0, 1.0])))
    value, vector, residual = Gram(operator, torch.float64).rayleigh_ritz(
        np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    )
    assert (value, residual) == (pytest.approx(9.0), pytest.approx(0.0, abs=1e-12))
    np.testing.assert_allclose(np.abs(vector), [1.0, 0.0, 0.0], atol=1e-12)
    value, _, residual = Gram(operator, torch.float64).rayleigh_ritz(np.array([[1.0, 1.0, 0.0]]))
    assert (value, residual) == (pytest.approx(6.5), pytest.approx(2.5))


def test_a_larger_convolution_against_float64_lanczos() -> None:
    """Too large to factorise: converged to 1e-10 by another route (Golub-Kahan, in scipy), from the
    explicit taps.
    """
    from scipy.sparse.linalg import LinearOperator, svds

    operator = Conv2d(_normal(24, 16, 3, 3), (16, 20, 20), padding=(1, 1, 1, 1))
    double = operator.to(torch.float64)

    def apply(x: np.ndarray) -> np.ndarray:
        return double.apply(torch.from_numpy(x).reshape(1, *operator.input_shape)).numpy().ravel()

    def adjoint(y: np.ndarray) -> np.ndarray:
        return (
            double.adjoint(torch.from_numpy(y).reshape(1, *operator.output_shape)).numpy().ravel()
        )

    linear = LinearOperator(
        (operator.output_size, operator.input_size), apply, adjoint, dtype=np.float64
    )
    largest = svds(linear, k=2, tol=1e-10, return_singular_vectors=False, rng=0).max()
    assert 1 - 1e-6 <= operator.spectral() / largest <= 1 + 1e-12
    assert math.isclose(
        dataclasses.replace(operator, weight=-4 * operator.weight).spectral(),
        4 * operator.spectral(),
    )

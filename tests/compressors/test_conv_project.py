"""Algorithm 4 in coordinates of the subspace against Algorithm 4 as printed, its moments, and what
is stored.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.place_moments import place_variance

from cushion.compressors.projection import conv_project as module
from cushion.compressors.projection.conv_project import (
    Located,
    epsilon_of,
    paper_p,
    project_filters,
)
from cushion.compressors.projection.matrix_project import HELPERS
from cushion.errors import BadInput
from cushion.nets.operators import Conv2d, Linear, LocalConv2d
from cushion.nets.operators.gaussian_projection import gaussian_rows
from cushion.nets.operators.hadamard import srht_reconstruction

torch.set_num_threads(1)
BITS = 39  # so many that rounding is out of sight


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64
    )


CONVOLUTION = Conv2d(
    _normal(3, 2, 3, 2), (2, 5, 4), (2, 1), (1, 1, 0, 1)
)  # n = 36 numbers, 3 x 4 places
SMALL = Conv2d(_normal(2, 2, 1, 3), (2, 1, 6))  # n = 12, 4 places


def _orthonormal(gamma: np.ndarray) -> np.ndarray:
    """The Gram-Schmidt basis of the columns: QR by Householder, with R's diagonal made positive."""
    basis, triangle = np.linalg.qr(gamma)
    return basis * np.sign(np.diag(triangle))


def printed_algorithm(
    kernel: np.ndarray, basis: np.ndarray, k: int, inside: list[np.ndarray]
) -> np.ndarray:
    """Algorithm 4 line by line with M in R^n, whose part inside S is given (`inside`) and the rest
    arbitrary.
    """
    n, q = basis.shape
    project = basis @ basis.T
    rest = np.random.default_rng(0)
    filters = []
    for coordinates in inside:
        total = np.zeros(n)
        for g in coordinates:
            outside = rest.normal(size=n)
            m = basis @ g + outside - project @ outside
            m_prime = math.sqrt(n / q) * (project @ m)
            total += (kernel @ m_prime) * m_prime
        filters.append(total / k)
    return np.stack(filters)


@pytest.mark.parametrize(("k", "p"), [(1, 1), (3, 4), (5, 7), (9, 4), (36, 1)])
def test_the_coordinates_give_the_printed_filters(k: int, p: int) -> None:
    layer = project_filters(CONVOLUTION, k, p, BITS, seed=4, place=3)
    kernel, q = CONVOLUTION.weight.reshape(-1).numpy(), k * p
    basis = _orthonormal(gaussian_rows(q, 0, 36, 4, "weights 3 subspace"))
    inside = [gaussian_rows(q, 0, k, 4, f"weights 3 filters {place}") for place in range(12)]
    np.testing.assert_allclose(layer.coordinates.values, basis.T @ kernel, atol=1e-9)
    expected = printed_algorithm(kernel, basis, k, inside).reshape(12, 3, 2, 3, 2)
    np.testing.assert_allclose(layer.weight(4), expected, atol=1e-7)


def test_the_basis_is_orthonormal_even_where_the_normals_are_nearly_dependent() -> None:
    """A square Γ of condition 7e3: one Cholesky factor would leave an error of 8e-10, its condition
    squared.
    """
    triangle = module._triangle(200, 200, 3, "weights 1")
    basis = gaussian_rows(200, 0, 200, 3, "weights 1 subspace") @ triangle.numpy()
    assert np.abs(basis.T @ basis - np.eye(200)).max() < 1e-11


def test_the_variant_uses_orthonormal_hadamard_rows_of_the_padded_kernel() -> None:
    k, p, q, padded = 4, 3, 12, 64
    layer = project_filters(CONVOLUTION, k, p, BITS, seed=4, place=3, helper="srht")
    # q/√N times the decoder's answer to a unit vector is a column of B, cut to the n = 36 numbers
    # that are not padding
    columns = [
        srht_reconstruction(row, (36,), 4, "weights 3").numpy()
        for row in torch.eye(q, dtype=torch.float64)
    ]
    basis = np.stack(columns, axis=1) * q / math.sqrt(padded)
    np.testing.assert_allclose(np.square(basis).sum(0), 36 / 64)  # entries ±1/√N
    a = basis.T @ CONVOLUTION.weight.reshape(-1).numpy()
    np.testing.assert_allclose(layer.coordinates.values, a, atol=1e-9)
    for place, found in enumerate(layer.weight(4)):
        G = gaussian_rows(q, 0, k, 4, f"weights 3 filters {place}")
        np.testing.assert_allclose(
            found.reshape(-1), padded / (q * k) * basis @ (G.T @ (G @ a)), atol=1e-9
        )


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """Filters of 1500 seeds, each with a subspace of its own: [seeds, places, n]."""
    drawn = [project_filters(SMALL, 2, 3, BITS, seed, 1).weight(seed) for seed in range(1500)]
    return np.stack(drawn).reshape(1500, 4, 12)


def test_mean_variance_and_covariance_over_seeds(draws: np.ndarray) -> None:
    """E Â = A; the variance in a direction, and the covariance of two places, are the closed
    forms.
    """
    kernel = SMALL.weight.reshape(-1).numpy()
    error = draws.mean(1).std(0) / math.sqrt(len(draws))
    assert (np.abs(draws.mean((0, 1)) - kernel) <= 4.5 * error).all()  # 12 entries
    for direction in (kernel, np.roll(kernel, 5), np.eye(12)[2]):
        values = draws @ direction - kernel @ direction
        squares, inner = (
            float(direction @ direction * (kernel @ kernel)),
            float(kernel @ direction) ** 2,
        )
        variance, covariance = place_variance(12, 2, 3, squares, inner)
        own = np.square(values).mean(1)
        pairs = (np.square(values.sum(1)) - np.square(values).sum(1)) / 12  # 4·3 ordered pairs
        for found, expected in ((own, variance), (pairs, covariance)):
            assert abs(found.mean() - expected) <= 4.5 * found.std() / math.sqrt(len(found))
        assert abs(pairs.mean()) > 4.5 * pairs.std() / math.sqrt(len(pairs))  # Lemma 12 says 0


def test_the_variant_has_no_bias() -> None:
    values = np.stack(
        [project_filters(SMALL, 2, 3, BITS, s, 1, "srht").weight(s).mean(0) for s in range(800)]
    )
    error = values.std(0) / math.sqrt(len(values))
    assert (np.abs(values.mean(0) - SMALL.weight.numpy()) <= 4.5 * error).all()


def test_the_filters_of_a_place_are_used_at_that_place() -> None:
    layer = project_filters(CONVOLUTION, 3, 4, BITS, seed=7, place=2)
    operator = layer.operator(CONVOLUTION, 7)
    assert isinstance(operator, LocalConv2d)
    x = _normal(2, 2, 5, 4)
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (0, 1)))
    filters = layer.weight(7)
    expected = np.zeros((2, 3, 3, 4))
    for i, j in np.ndindex(3, 4):
        patch = padded[:, :, 2 * i : 2 * i + 3, j : j + 2]
        expected[:, :, i, j] = np.einsum("ocuv,bcuv->bo", filters[i * 4 + j], patch)
    np.testing.assert_allclose(operator.apply(x).numpy(), expected, atol=1e-12)
    assert layer.operator(CONVOLUTION.to(torch.float32), 7).weight.dtype == torch.float32


def test_with_a_start_only_the_change_is_compressed() -> None:
    start = CONVOLUTION.with_weight(_normal(3, 2, 3, 2, seed=9))
    change = CONVOLUTION.minus(start)
    layer = project_filters(CONVOLUTION, 3, 4, BITS, 7, 2, start=start)
    alone = project_filters(change, 3, 4, BITS, 7, 2)
    np.testing.assert_array_equal(layer.coordinates.integers, alone.coordinates.integers)
    rebuilt = layer.operator(CONVOLUTION, 7, start).weight.numpy()
    np.testing.assert_allclose(rebuilt, alone.weight(7) + start.weight.numpy(), atol=1e-12)


@pytest.mark.parametrize("helper", ["gaussian", "srht"])
def test_numbers_fields_and_seed_are_all_that_a_decoder_needs(helper: str) -> None:
    layer = project_filters(CONVOLUTION, 3, 4, 9, seed=7, place=2, helper=helper)  # type: ignore[arg-type]
    assert layer.parameters == 12
    assert np.abs(layer.coordinates.integers).max() < 2**8  # 9 bits with the sign
    assert layer.fields == (HELPERS.index(layer.helper), 3, 4, 12)
    assert len(layer.fields) == Located.field_count
    assert Located.sizes(layer.shape, layer.fields) == ((12,),)
    again = Located.restore((3, 2, 3, 2), 2, layer.fields, layer.numbers)
    np.testing.assert_array_equal(again.weight(7), layer.weight(7))
    assert np.abs(again.weight(8) - layer.weight(7)).max() > 0.01  # another helper string
    elsewhere = Located.restore((3, 2, 3, 2), 3, layer.fields, layer.numbers)
    assert np.abs(elsewhere.weight(7) - layer.weight(7)).max() > 0.01  # another layer of the net


@pytest.mark.parametrize("helper", ["gaussian", "srht"])
def test_threads_change_no_bit(helper: str) -> None:
    """With 500 columns the library's own Cholesky and triangular solves differ between one and two
    threads.
    """
    convolution = Conv2d(_normal(12, 8, 3, 3), (8, 3, 4))  # n = 864, 2 places
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        module._triangle.cache_clear()
        layer = project_filters(convolution, 100, 5, BITS, 0, 1, helper)  # type: ignore[arg-type]
        found.append((layer.coordinates.integers, layer.weight(0)))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_blocks_change_rounding_only(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = project_filters(CONVOLUTION, 5, 7, 20, 4, 3).weight(4)
    monkeypatch.setattr(module, "_BLOCK", 80)  # two rows at a time
    module._triangle.cache_clear()
    np.testing.assert_allclose(
        project_filters(CONVOLUTION, 5, 7, 20, 4, 3).weight(4), whole, atol=1e-12
    )
    module._triangle.cache_clear()


def test_what_cannot_be_compressed_is_refused() -> None:
    assert project_filters(CONVOLUTION, 9, 4, 8, 0, 1).parameters == 36  # q = n is allowed
    with pytest.raises(BadInput, match="37·1 numbers are more than the kernel's own 36"):
        project_filters(CONVOLUTION, 37, 1, 8, 0, 1)
    with pytest.raises(BadInput, match="use a smaller k"):
        Located.sizes((3, 2, 3, 2), (2, 10, 4, 12))
    for fields in ((0, 3, 4, 12), (7, 3, 4, 12), (2, 3, 4, 0), (2, 0, 4, 12)):
        with pytest.raises(BadInput):
            Located.sizes((3, 2, 3, 2), fields)
    with pytest.raises(BadInput, match="matrix-project"):
        project_filters(Linear(_normal(3, 4)), 1, 1, 8, 0, 1)
    with pytest.raises(BadInput, match="one group, not 2"):
        project_filters(Conv2d(_normal(4, 1, 3, 3), (2, 6, 6), groups=2), 1, 1, 8, 0, 1)
    with pytest.raises(
        BadInput, match="as many filters"
    ):  # another map than the one that was compressed
        project_filters(CONVOLUTION, 3, 4, 8, 0, 1).operator(
            Conv2d(CONVOLUTION.weight, (2, 9, 9)), 0
        )


def paper_k(
    epsilon: float, eta: float, kernel: tuple[int, int], stride: tuple[int, int], constant: float
) -> int:
    """Q⌈κ/s⌉² ln²(1/η)/ε², rounded up, with Q = `constant`: the k of Algorithm 4."""
    overlap = math.prod(math.ceil(taps / step) for taps, step in zip(kernel, stride, strict=True))
    return math.ceil(constant * overlap * math.log(eta) ** 2 / epsilon**2)


def proof_constant(eta: float) -> float:
    """A Q for which Lemma 13 would follow if Lemma 12 were true: 288·p²/ln²(1/η), p even (derived
    in `conv_project`).
    """
    p = paper_p(eta)
    return 288.0 * (p + p % 2) ** 2 / math.log(eta) ** 2


def test_the_papers_k_and_p() -> None:
    assert [paper_p(eta) for eta in (0.9, 0.5, 0.25, 0.24, 2.0**-10, 1e-3)] == [1, 1, 2, 3, 10, 10]
    # ⌈5/2⌉·⌈3/1⌉ = 9 and ln(1/η) = 3: Q·9·9/ε²
    assert paper_k(0.3, math.exp(-3), (5, 3), (2, 1), 2.0) == math.ceil(2 * 81 / 0.09)
    for eta, constant in ((0.1, 1.0), (1e-4, 600.0)):
        k = paper_k(0.2, eta, (3, 3), (2, 2), constant)
        assert (
            epsilon_of(k, eta, (3, 3), (2, 2), constant)
            <= 0.2
            < epsilon_of(k - 1, eta, (3, 3), (2, 2), constant)
        )


def test_the_proofs_constant() -> None:
    """Q makes k reach 144 Q'²⌈κ/s⌉²p²/ε² with Q' = √2 and an even p; at η = 2^-p, p even, it is
    288/ln²2.
    """
    assert proof_constant(2.0**-8) == pytest.approx(288 / math.log(2) ** 2)
    for eta in (0.3, 0.01, 1e-6):
        p = 2 * math.ceil(-math.log2(eta) / 2)
        assert proof_constant(eta) >= 599.4
        assert paper_k(
            0.1, eta, (3, 3), (1, 1), proof_constant(eta)
        ) >= 144 * 2 * 9 * p**2 / 0.01 * (1 - 1e-12)
    # Q' = √2 in the direction that is worst, U = A: X - 1 = χ²_k/k - 1, whose even moments are
    # known
    for k in (1, 3, 10):
        raw = [math.prod(k + 2 * b for b in range(a)) / k**a for a in range(9)]  # E(χ²_k/k)^a
        for a in (2, 4, 6, 8):
            central = sum(math.comb(a, b) * (-1.0) ** (a - b) * raw[b] for b in range(a + 1))
            assert (
                central ** (1 / a)
                <= (a - 1) * math.sqrt(2 / k) * (1 + 1e-9)
                <= math.sqrt(2 / k) * a
            )

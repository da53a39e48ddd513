"""Stored numbers on a grid, and Matrix-Project (Arora 2018, Algorithm 1) by explicit sign matrices
and plain loops.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cushion.compressors.projection.matrix_project import (
    HELPERS,
    Projected,
    project,
    rounding_share,
)
from cushion.compressors.storage.stored import Kept, Numbers
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators import Conv2d, Linear
from cushion.nets.operators.hadamard import srht_coefficients


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_finest(values: np.ndarray, found: Numbers, bits: int) -> None:
    """Within half a step, within `bits` bits, and twice as fine a grid would not do."""
    step = math.ldexp(1.0, found.exponent)
    assert found.step == step
    assert found.integers.dtype == np.int64
    assert found.integers.shape == values.shape
    # bits - 1 of magnitude and one of sign
    assert np.abs(found.integers).max(initial=0) <= 2 ** (bits - 1) - 1
    assert np.array_equal(found.values, np.ldexp(found.integers.astype(float), found.exponent))
    assert (np.abs(found.values - values) <= step / 2).all()
    if found.exponent > -1074:
        finer = np.rint(np.ldexp(values, 1 - found.exponent))
        assert np.abs(finer).max(initial=0) > 2 ** (bits - 1) - 1


@pytest.mark.parametrize("bits", [2, 3, 8, 16, 31, 32])
def test_fitted_numbers_use_the_finest_grid(bits: int) -> None:
    draws = np.random.default_rng(bits)
    for scale in (1.0, 1e-30, 1e30, 1e-300, 1e300, 3.7e-310, 5e-324):
        for shape in ((7,), (3, 4), (1,), (2, 1, 3)):
            values = draws.standard_normal(shape) * scale
            if values.any():
                assert_finest(values, Numbers.fitted(values, bits), bits)


@pytest.mark.parametrize("bits", [2, 8, 32])
def test_the_borders_of_a_grid(bits: int) -> None:
    """The largest number that still rounds to 2^(bits-1) - 1 lies just below 2^(bits-1) - ½: there
    the tie goes up.
    """
    border = 2.0 ** (bits - 1) - 0.5
    for largest in (
        border,
        np.nextafter(border, 0),
        np.nextafter(border, 1e9),
        border - 0.5,
        border + 0.5,
    ):
        for exponent in (-1040, -20, 0, 900):
            values = np.array([math.ldexp(largest, exponent), 0.0])
            assert_finest(values, Numbers.fitted(values, bits), bits)
    below = Numbers.fitted(np.array([np.nextafter(border, 0)]), bits)
    assert (below.exponent, below.integers.tolist()) == (0, [2 ** (bits - 1) - 1])
    assert Numbers.fitted(np.array([border]), bits).exponent == 1


def test_subnormal_numbers_are_kept_exactly_and_zeros_are_zeros() -> None:
    least = 5e-324
    found = Numbers.fitted(np.array([least, -3 * least, 0.0]), 32)
    assert found.values.tolist() == [least, -3 * least, 0.0]
    assert found.exponent == -1074
    for values in (np.zeros((2, 3)), np.zeros(0), np.array([-0.0])):
        zeros = Numbers.fitted(values, 8)
        assert zeros.integers.shape == values.shape
        assert not zeros.values.any()


def test_rounding_is_to_the_nearest_and_ties_go_to_even() -> None:
    found = Numbers.rounded(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 0.51]), 0)
    assert found.integers.tolist() == [0, 2, 2, 0, -2, 0, 1]
    assert Numbers.rounded(np.array([3.0, 5.0]), 2).integers.tolist() == [1, 1]
    assert Numbers.rounded(np.array([2.0**39 - 1]), 0).integers.tolist() == [2**39 - 1]


@pytest.mark.parametrize(
    ("values", "exponent"),
    [([2.0**39], 0), ([-(2.0**39)], 0), ([1.0], -39), ([1e308], -1074), ([2.0**39 - 0.5], 0)],
)
def test_a_grid_that_is_too_fine_is_refused(values: list[float], exponent: int) -> None:
    with pytest.raises(BadInput, match=r"too fine.*`number_bits`"):
        Numbers.rounded(np.array(values), exponent)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    for make in (lambda v: Numbers.fitted(v, 8), lambda v: Numbers.rounded(v, 0)):
        with pytest.raises(BadInput, match="finite"):
            make(np.array([1.0, value]))


def test_a_kept_weight_is_its_numbers() -> None:
    kept = Kept(Numbers(np.array([[1, -2], [3, 0]]), -1))
    assert kept.weight(5).tolist() == [[0.5, -1.0], [1.5, 0.0]]
    assert (kept.shape, kept.parameters, kept.fields) == ((2, 2), 4, ())


def sign_matrices(k: int, n: int, seed: int, purpose: str) -> np.ndarray:
    """M_1, ..., M_k, one sign at a time: bit t mod 64 of the word of entry s in stretch ⌊t/64⌋; 1
    is +1: [k, n].
    """
    matrices = np.empty((k, n))
    for t in range(k):
        for s in range(n):
            word = int(stream(purpose, seed, 1, t // 64 * n + s)[0])
            matrices[t, s] = 1.0 if word >> (t % 64) & 1 else -1.0
    return matrices


def naive_project(
    weight: np.ndarray, matrices: np.ndarray, bits: int
) -> tuple[list[int], int, np.ndarray]:
    """Algorithm 1 with a grid: c_t = ⟨A, M_t⟩ rounded, Â = (1/k) Σ c_t M_t."""
    k = len(matrices)
    exact = [sum(a * m for a, m in zip(weight.reshape(-1), row, strict=True)) for row in matrices]
    exponent = -200
    while max(abs(round(c / 2.0**exponent)) for c in exact) > 2 ** (bits - 1) - 1:
        exponent += 1
    integers = [round(c / 2.0**exponent) for c in exact]
    total = np.zeros(weight.size)
    for c, row in zip(integers, matrices, strict=True):
        total += c * 2.0**exponent * row / k
    return integers, exponent, total.reshape(weight.shape)


@pytest.mark.parametrize(("k", "bits"), [(1, 8), (7, 4), (64, 8), (70, 12)])
@pytest.mark.parametrize("shape", [(3, 5), (2, 2, 2, 1)])
def test_sign_coefficients_and_the_weight_by_plain_loops(
    k: int, bits: int, shape: tuple[int, ...]
) -> None:
    weight = normal(*shape, seed=k)
    operator = Linear(weight) if len(shape) == 2 else Conv2d(weight, (2, 3, 3))
    layer = project(operator, k, bits, 11, 3)
    matrices = sign_matrices(k, weight.numel(), 11, "weights 3")
    integers, exponent, estimate = naive_project(weight.numpy(), matrices, bits)
    assert layer.coefficients.integers.tolist() == integers
    assert layer.coefficients.exponent == exponent
    np.testing.assert_allclose(layer.weight(11), estimate, rtol=0, atol=1e-13)
    assert not np.allclose(
        layer.weight(12), estimate, atol=0.01
    )  # another seed is another helper string
    assert layer.fields == (HELPERS.index("signs"), k)
    assert Projected.sizes(shape, layer.fields) == ((k,),)
    again = Projected.restore(shape, 3, layer.fields, layer.numbers)
    assert np.array_equal(again.weight(11), layer.weight(11))


def test_hadamard_coefficients_are_rounded_inner_products_with_the_reconstructed_rows() -> None:
    """The matrices of the variant, read off its decoder: (1/k)·e_t gives M_t/k."""
    weight, k = normal(3, 4, seed=1), 9
    layer = project(Linear(weight), k, 10, 4, 2, "srht")
    unit = [Numbers((np.arange(k) == t).astype(np.int64) * k, 0) for t in range(k)]
    matrices = np.stack([Projected(one, (3, 4), "srht", 2).weight(4).reshape(-1) for one in unit])
    assert set(np.abs(matrices).reshape(-1).tolist()) == {1.0}
    integers, exponent, estimate = naive_project(weight.numpy(), matrices, 10)
    assert (layer.coefficients.integers.tolist(), layer.coefficients.exponent) == (
        integers,
        exponent,
    )
    np.testing.assert_allclose(layer.weight(4), estimate, rtol=0, atol=1e-13)
    all_rows = project(Linear(weight), 16, 30, 4, 2, "srht")  # k = N: nothing is lost but rounding
    assert np.abs(all_rows.weight(4) - weight.numpy()).max() <= all_rows.coefficients.step


@pytest.mark.parametrize("helper", ["signs", "srht", "gaussian"])
def test_the_first_coefficients_stay_when_k_grows(helper: str) -> None:
    weight = normal(5, 6, seed=2)
    small, large = (project(Linear(weight), k, 30, 1, 1, helper).coefficients for k in (6, 30))  # type: ignore[arg-type]
    step = max(small.step, large.step)
    assert np.abs(small.values - large.values[:6]).max() <= step


def test_only_the_change_from_a_start_is_projected() -> None:
    weight, first = normal(4, 4, seed=3).float(), normal(4, 4, seed=4).float()
    layer = project(Linear(weight), 12, 16, 5, 1, "srht", Linear(first))
    change = weight.double() - first.double()
    expected = srht_coefficients(change, 12, 5, "weights 1").numpy()
    assert np.abs(layer.coefficients.values - expected).max() <= layer.coefficients.step / 2
    moved = layer.operator(Linear(weight), 5, Linear(first)).weight
    assert moved.dtype == torch.float32
    assert torch.equal(moved, (torch.from_numpy(layer.weight(5)) + first.double()).float())
    assert not project(Linear(weight), 3, 8, 5, 1, start=Linear(weight)).coefficients.integers.any()


@pytest.mark.parametrize("k", [0, -3])
def test_no_coefficients_are_refused(k: int) -> None:
    with pytest.raises(BadInput, match="at least 1"):
        project(Linear(normal(2, 2)), k, 8, 0, 1)


@pytest.mark.parametrize("fields", [(3, 5), (0, 0), (2**40 - 1, 1)])
def test_fields_of_no_projection_are_refused(fields: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="helper number"):
        Projected.sizes((3, 4), fields)


def test_rounding_moves_inner_products_by_no_more_than_its_share() -> None:
    """Whenever the signs keep ‖a ± b‖² to a relative ε (the event of Lemma 2's proof), rounding
    moves ⟨Â, b⟩ by at most share·‖A‖_F. Draws outside the event are left out; both must occur. The
    worst rounding of all uses a good part of the bound, and the true one is no worse.
    """
    epsilon, k, n = 0.5, 24, 6
    inside, worst = 0, 0.0
    for seed in range(150):
        weight, b = normal(2, 3, seed=seed), normal(2, 3, seed=1000 + seed)
        b = b / b.norm()
        a = weight / weight.norm()
        layer = project(Linear(weight), k, 3, seed, 1)
        signs = layer_signs(k, n, seed)
        kept = [
            np.square(signs @ pair.reshape(-1).numpy()).mean() / float(pair.square().sum())
            for pair in (a + b, a - b)
        ]
        if not all(abs(ratio - 1) <= epsilon for ratio in kept):
            continue
        inside += 1
        exact = (signs @ weight.reshape(-1).numpy()) @ signs / k
        moved = abs(float((layer.weight(seed).reshape(-1) - exact) @ b.reshape(-1).numpy()))
        allowed = rounding_share(layer, epsilon, float(weight.norm())) * float(weight.norm())
        assert allowed == pytest.approx(layer.coefficients.step / 2 * math.sqrt(3.0), rel=1e-9)
        # r_t towards b
        hostile = layer.coefficients.step / 2 * float(np.abs(signs @ b.reshape(-1).numpy()).mean())
        worst = max(worst, hostile / allowed)
        assert moved <= hostile <= allowed
    assert 60 < inside < 150
    assert worst > 0.5


def test_the_share_is_reached_but_for_little_by_the_worst_rounding() -> None:
    """r_t = (s/2)·sign⟨b, M_t⟩ moves ⟨Â, b⟩ by (s/2k)·Σ|⟨b, M_t⟩|: with b along one entry that is
    s/2 exactly, and the bound is √(2(1+ε)) times that; no tighter constant could drop below 1.
    """
    layer = Projected(Numbers(np.zeros(16, dtype=np.int64), -2), (1, 4), "signs", 1)
    share = rounding_share(layer, 0.1, 2.0)
    moved = Numbers(
        (layer_signs(16, 4, 0)[:, 0]).astype(np.int64), -3
    )  # r_t: half a step towards M_t's first entry
    change = Projected(moved, (1, 4), "signs", 1).weight(0)[0, 0]
    assert change == pytest.approx(2.0**-3)
    assert share * 2.0 == pytest.approx(change * math.sqrt(2.2), rel=1e-9)


def layer_signs(k: int, n: int, seed: int) -> np.ndarray:
    words = stream("weights 1", seed, -(-k // 64) * n).reshape(-1, n)
    return np.array(
        [[1.0 if int(word) >> (t % 64) & 1 else -1.0 for word in words[t // 64]] for t in range(k)]
    )

"""Discretisation (Guha 2023, Lemma 4.4): limits of the grid against the true maps, grids against
plain rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from tests.compressors.test_pruning import normal

from cushion.compressors.perturbations import overlap
from cushion.compressors.pruning.candidates import (
    rho_limit,
    rho_limit_printed,
    rounding_limit,
)
from cushion.compressors.storage import pruned
from cushion.compressors.storage.pruned import discretise, fitted
from cushion.compressors.storage.stored import Numbers, grid_within
from cushion.errors import BadInput
from cushion.nets.operators import Conv2d, Linear


def spectral(matrix: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix.double(), 2))


@pytest.mark.parametrize(
    "rho", [1.0, 1.5, 2.0, 0.3, 1e-9, 1e300, 5e-324, 3e-310, math.nextafter(1.0, 0.0)]
)
def test_the_exponent_is_the_largest_below(rho: float) -> None:
    e = grid_within(rho)
    assert Fraction(2) ** e <= Fraction(rho) < Fraction(2) ** (e + 1)


@pytest.mark.parametrize("shape", [(6, 5), (3, 2, 3, 3), (4, 1)])
@pytest.mark.parametrize("exponent", [-9, -2, 0])
def test_every_weight_that_stays_is_at_its_nearest_multiple(
    shape: tuple[int, ...], exponent: int
) -> None:
    weight = 3 * normal(*shape, seed=1)
    mask = normal(*shape, seed=2) > 0
    found = discretise(weight, mask, exponent)
    assert found.integers.shape == shape
    for w, stays, integer in zip(
        weight.flatten().tolist(),
        mask.flatten().tolist(),
        found.integers.reshape(-1).tolist(),
        strict=True,
    ):
        # Fraction's round is exact and takes ties to even
        assert integer == (round(Fraction(w) / Fraction(2) ** exponent) if stays else 0)


def test_rounding_is_the_same_in_blocks_and_ties_go_to_even(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight, mask = normal(30, 40), normal(30, 40, seed=1) > 0
    whole = discretise(weight, mask, -5)
    monkeypatch.setattr(pruned, "_BLOCK", 17)
    assert np.array_equal(discretise(weight, mask, -5).integers, whole.integers)
    ties = discretise(torch.tensor([[0.5, 1.5, -2.5, 0.25]]), torch.ones(1, 4, dtype=torch.bool), 0)
    assert ties.integers.tolist() == [
        [0, 2, -2, 0]
    ]  # what stayed and rounds to 0 is no longer in the support


def test_what_goes_takes_no_part_in_the_choice_of_the_grid() -> None:
    weight = torch.tensor([[0.7, 1e30, -0.2]], dtype=torch.float64)
    mask = torch.tensor([[True, False, True]])
    for bits in (2, 5, 12):
        found = fitted(weight, mask, bits)
        alone = Numbers.fitted(np.array([0.7, -0.2]), bits)
        assert (found.exponent, found.integers[0, [0, 2]].tolist()) == (
            alone.exponent,
            alone.integers.tolist(),
        )
        assert found.integers[0, 1] == 0
    assert discretise(weight, mask, -20).integers[0, 1] == 0
    nothing = fitted(weight, torch.zeros(1, 3, dtype=torch.bool), 8)
    assert not nothing.integers.any()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_fitted_grid_is_the_finest(bits: int) -> None:
    weight, mask = normal(9, 11), normal(9, 11, seed=4) > 0
    found = fitted(weight, mask, bits)
    assert np.abs(found.integers).max() < 2 ** (bits - 1)
    finer = discretise(weight, mask, found.exponent - 1)
    assert np.abs(finer.integers).max() >= 2 ** (bits - 1)


def test_what_does_not_fit_is_refused_in_the_words_of_the_option() -> None:
    weight, every = normal(3, 3), torch.ones(3, 3, dtype=torch.bool)
    with pytest.raises(BadInput, match="`grid`"):
        discretise(weight, every, -60)
    with pytest.raises(BadInput, match="finite"):
        discretise(weight / 0.0, every, -3)
    with pytest.raises(BadInput, match="finite"):
        fitted(weight * math.nan, every, 8)


@pytest.mark.parametrize("seed", range(5))
def test_up_to_the_limit_the_perturbation_is_allowed(seed: int) -> None:
    """Lemma 4.4 corrected: at the step ρ_limit, and at the power of two below it, ‖A - Ã‖₂ ≤
    ‖A‖₂/L.
    """
    layers = 2
    weight = normal(12, 9, seed=seed, dtype=torch.float64)
    mask = weight.abs() > 0.2
    pruned = weight * mask
    shift, nonzeros = spectral(weight - pruned), int(mask.sum())
    limit = rho_limit(spectral(weight), layers, shift, nonzeros)
    assert limit > 0
    grid = discretise(weight, mask, grid_within(limit))
    moved = torch.from_numpy(grid.values)
    assert spectral(moved - pruned) <= rounding_limit(grid.step, nonzeros)
    assert spectral(weight - moved) <= spectral(weight) / layers
    exact = limit * torch.round(pruned / limit)
    assert spectral(weight - exact) <= spectral(weight) / layers
    assert shift + rounding_limit(limit, nonzeros) == pytest.approx(
        spectral(weight) / layers
    )  # all of it is used


def test_the_limits_in_numbers() -> None:
    assert rho_limit(10.0, 5, 0.5, 16) == pytest.approx(2 * 1.5 / 4)
    assert rho_limit(10.0, 5, 0.5, 16, overlap=9) == pytest.approx(2 * 1.5 / 12)
    assert rho_limit(10.0, 5, 2.5, 16) < 0
    assert rho_limit(10.0, 5, 0.5, 0) == pytest.approx(3.0)
    assert rho_limit_printed(10.0, 5, 2.0, 0.25, 16) == pytest.approx(1.5 / 16)
    assert rho_limit_printed(10.0, 5, 20.0, 0.25, 16) < 0
    assert rounding_limit(0.5, 16) == pytest.approx(1.0)
    assert rounding_limit(0.5, 16, overlap=9) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 1), (2, 2)), ((2, 2), (2, 1))]
)
def test_a_convolution_reads_numbers_more_than_once(
    stride: tuple[int, int], dilation: tuple[int, int]
) -> None:
    """All kernel entries off by half a step, alike: the map's norm exceeds (ρ/2)√J, and not with
    the overlap.
    """
    shape, rho = (2, 3, 3, 3), 0.25
    error = Conv2d(
        torch.full(shape, rho / 2),
        (3, 12, 12),
        stride=stride,
        dilation=dilation,
        padding=(2, 2, 2, 2),
    )
    true, j = spectral(error.dense()), math.prod(shape)
    assert true > 1.2 * rounding_limit(rho, j)
    assert true <= rounding_limit(rho, j, overlap(error))
    flat = Linear(torch.full((4, 6), rho / 2))
    assert spectral(flat.dense()) == pytest.approx(
        rounding_limit(rho, 24, overlap(flat))
    )  # attained

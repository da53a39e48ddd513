"""Weights against N(0, Ψ): the distance by a double loop, its critical value by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from tests.compressors.test_pruning import SHAPES, normal, off_diagonal

from cushion.compressors.pruning.conditions import ks_critical, normality
from cushion.compressors.pruning.masks import diagonal_mask, layer_variance


def naive_distance(entries: list[float], psi: float) -> float:
    """sup |F_n - F| over the entries, with the share of smaller ones and that of no larger ones
    counted one by one.
    """
    worst = 0.0
    for value in entries:
        law = 0.5 * (1 + math.erf(value / math.sqrt(2 * psi)))
        below = sum(other < value for other in entries) / len(entries)
        up_to = sum(other <= value for other in entries) / len(entries)
        worst = max(worst, abs(law - below), abs(law - up_to))
    return worst


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if math.prod(shape) > 1])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_the_distance_is_that_of_a_double_loop(shape: tuple[int, ...], step: float) -> None:
    weight = 3 * normal(*shape, seed=8) + 0.3
    if step:
        weight = (weight / step).round() * step  # with ties
    weight[diagonal_mask(shape)] = 100.0  # takes no part
    entries, found = off_diagonal(weight), normality(weight)
    psi = layer_variance(weight)
    assert found.psi == pytest.approx(psi, rel=1e-13)
    assert found.ks_distance == pytest.approx(naive_distance(entries, psi), abs=1e-12)
    assert found.kurtosis == pytest.approx(
        math.fsum(w**4 for w in entries) / len(entries) / psi**2, rel=1e-12
    )
    assert found.mean_ratio == pytest.approx(
        math.fsum(entries) / len(entries) / math.sqrt(psi), abs=1e-12
    )
    assert found.ks_critical == ks_critical(len(entries))


def test_a_layer_of_zeros_and_one_without_entries_are_exactly_normal() -> None:
    for weight in (torch.zeros(4, 5), torch.eye(4), torch.ones(1, 1)):
        found = normality(weight)
        assert (found.psi, found.ks_distance, found.kurtosis, found.mean_ratio) == (
            0.0,
            0.0,
            3.0,
            0.0,
        )
        assert found.plausible
    assert normality(torch.ones(1, 1)).ks_critical == 1.0


def test_scale_does_not_matter_and_the_weight_is_left_alone() -> None:
    weight = normal(30, 30, dtype=torch.float64)
    before, found = weight.clone(), normality(weight)
    assert torch.equal(weight, before)
    for scale in (1e-180, 1e120):  # fourth powers would leave the range of float64
        again = normality(weight * scale)
        assert again.ks_distance == pytest.approx(found.ks_distance, abs=1e-12)
        assert again.kurtosis == pytest.approx(found.kurtosis)
    assert normality(normal(6)).ks_critical == ks_critical(
        5
    )  # the factors of a batch-norm: a matrix of one column


@pytest.mark.parametrize(("n", "runs"), [(20, 40_000), (90, 20_000), (600, 4_000)])
def test_one_normal_sample_in_a_hundred_is_called_implausible(n: int, runs: int) -> None:
    draws = np.random.default_rng(n).standard_normal((runs, n))
    draws /= np.sqrt(
        np.square(draws).mean(1, keepdims=True)
    )  # Ψ is estimated from the sample itself
    law = ndtr(np.sort(draws, axis=1))
    steps = np.arange(n + 1) / n
    distances = np.maximum((steps[1:] - law).max(1), (law - steps[:-1]).max(1))
    share = float((distances > ks_critical(n)).mean())
    assert abs(share - 0.01) < 4 * math.sqrt(0.0099 / runs) + 5e-4


def test_normal_weights_are_plausible_and_others_are_not() -> None:
    assert normality(0.1 * normal(200, 200)).plausible
    assert normality(0.1 * normal(200, 200)).kurtosis == pytest.approx(
        3.0, abs=5 * math.sqrt(96 / 39800)
    )
    uniform = torch.rand(200, 200, generator=torch.Generator().manual_seed(0)) - 0.5
    assert not normality(uniform).plausible
    assert normality(uniform).kurtosis == pytest.approx(1.8, abs=0.05)  # (1/80)/(1/12)²
    shifted = normality(normal(200, 200) + 1.0)
    assert not shifted.plausible
    assert shifted.mean_ratio == pytest.approx(math.sqrt(0.5), abs=0.02)

"""Edges of tails, of heavy-tail theorems and of what is said of them: where a bound is just met."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.measures.test_tail_doubts import fits
from tests.tail_cases import drawn

from cushion.compressors.choice import worthless
from cushion.compressors.noise import checks as heavy_tail_notes
from cushion.compressors.noise.checks import lemma_2_1
from cushion.compressors.noise.records import TriedTail
from cushion.compressors.perturbations import PairRatios
from cushion.measures.spectra import power_iteration_norm
from cushion.measures.tails import measurement, power_law, stable_fit
from cushion.measures.tails.doubts import find_doubts
from cushion.measures.tails.family import TailOptions
from cushion.measures.tails.power_law import Magnitudes, fit_power_law, hill_plot, law_of_tail
from cushion.measures.tails.records import HillPlot
from cushion.measures.tails.stable_fit import fit_stable
from cushion.measures.tails.stable_law import StableLaw, sample_stable
from cushion.measures.tails.tail_search import Tails, best_start
from cushion.papers.shin import resilience
from cushion.theorems.compression import CompressedFacts
from cushion.theorems.heavy_tails import COUNT, HeavyTailFacts, HeavyTailLayerFacts, heavy_tail_rows
from cushion.theorems.noise_stability import epsilon_from_margin
from cushion.theorems.sparsity import log_tail, sparsity


def test_beyond_the_largest_value_nothing_is_left() -> None:
    """Clipped Pareto numbers: the fit's share above the largest value is what it misses most."""
    x = np.minimum(1.0 / (1.0 - (np.arange(400) + 0.5) / 400), math.exp(1.5))
    sample = Magnitudes.of(x)
    fit = law_of_tail(sample, Tails.of(sample.ordered), 0)
    left = (fit.largest / fit.xmin) ** -fit.tail_index
    assert fit.ks_distance < left - 0.02
    assert fit.ks_both_sides == pytest.approx(left, abs=1e-12)


def test_of_equal_distances_the_smallest_start_is_taken() -> None:
    for powers in ([0, 0, 0, 1, 2, 2, 3, 4], [0, 0, 1, 2, 3, 3, 4, 5]):
        tails = Tails.of(2.0 ** np.array(powers, dtype=np.float64))
        distances = [tails.furthest(start, math.inf)[0] for start in range(tails.candidates)]
        assert min(distances) == pytest.approx(distances[-1], abs=1e-14)
        assert best_start(tails) == int(np.argmin(distances))


def test_xmin_is_not_in_the_body_of_a_draw() -> None:
    sample = Magnitudes.of(drawn("body and tail", 400, 2))
    fit = fit_power_law(sample)
    assert fit.tail < fit.values
    rng = np.random.default_rng(0)
    samples = [power_law._drawn(sample, fit, rng) for _ in range(50)]
    assert not any((one.ordered == fit.xmin).any() for one in samples)


@pytest.mark.parametrize("alpha", [0.8, 1.5])
def test_the_slope_far_out_is_that_of_the_power_law(alpha: float) -> None:
    x = np.array([-1e30, 1e30])
    np.testing.assert_allclose(StableLaw(alpha, 0.3).slope(x), -(1 + alpha) / x, rtol=1e-9)


def test_the_seed_starts_the_power_iteration() -> None:
    matrix = np.random.default_rng(1).standard_normal((6, 9))
    for seed in (0, 1):
        vector = np.random.default_rng(seed).standard_normal(9)
        vector /= np.linalg.norm(vector)
        assert power_iteration_norm(matrix, 0, seed) == pytest.approx(
            np.linalg.norm(matrix @ vector)
        )


def test_theorem_2_as_printed_counts_margins_up_to_gamma() -> None:
    given = CompressedFacts(
        m=10_000,
        delta=0.05,
        numbers=30,
        values=255,
        gamma=0.5,
        norm="largest",
        below_gamma=200,
        unsure=300,
        failed=20,
        unsure_or_failed=310,
        bits=400,
    )
    facts = HeavyTailFacts(
        given, (HeavyTailLayerFacts(200, 25, 15),), epsilon=0.01, largest_score=10.0
    )
    rows = {(row.name, row.form): row for row in heavy_tail_rows(facts)}
    assert rows[COUNT, "as printed"].value == pytest.approx(0.02 + math.sqrt(25 / 10_000))


def test_an_epsilon_that_is_just_what_gamma_needs_holds() -> None:
    given = CompressedFacts(
        m=100,
        delta=0.05,
        numbers=3,
        values=15,
        gamma=0.5,
        norm="l2",
        below_gamma=2,
        unsure=2,
        failed=0,
        unsure_or_failed=2,
        bits=40,
    )
    needed = epsilon_from_margin(0.5, 10.0)
    facts = HeavyTailFacts(
        given, (HeavyTailLayerFacts(20, 2, 3),), epsilon=needed, largest_score=10.0
    )
    for epsilon, words in (
        (needed, "its condition holds"),
        (math.nextafter(needed, 1.0), "its condition fails here"),
    ):
        assert any(words in row.meaning for row in heavy_tail_rows(replace(facts, epsilon=epsilon)))


def test_a_power_that_comes_out_above_its_whole_number_is_that_number() -> None:
    k = math.sqrt(2.0) ** 2
    assert k > 2
    assert log_tail(k, 20, 0.05) == log_tail(2.0, 20, 0.05)


def test_a_bound_that_is_just_the_failure_allowed_is_enough() -> None:
    def bound(k: float, n: int, p: float) -> float:
        return math.log(0.25) if k >= 3 else 0.0

    assert sparsity(10, 0.1, 0.25, bound) == 3


def test_equation_16_does_not_apply_at_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resilience, "bracket_probability", lambda *_: 0.25)
    assert not resilience.path_probability(2.0, 1.0, 3.0, 2.0, 4).applies  # κ = 1 = Np
    assert resilience.path_probability(2.0, 1.0, 3.0, 2.0, 3).applies


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_both_sides_of_a_jump_are_looked_at(sign: float) -> None:
    """One of the two samples has its largest distance below a jump."""
    x = sign * sample_stable(60, 1.5, 0.0, np.random.default_rng(1))
    found = fit_stable(x, symmetric=True)
    law = StableLaw(found.alpha).cdf((x - found.location) / found.scale)
    gaps = [
        (np.mean(x <= value) - under, under - np.mean(x < value))
        for value, under in zip(x, law, strict=True)
    ]
    assert found.ks_distance == pytest.approx(max(map(max, gaps)), abs=1e-12)


def test_a_hundred_values_are_not_few() -> None:
    assert find_doubts(fits(law={"tail": 100, "ks_both_sides": 0.16})) == ()


def test_the_error_of_the_stable_law_counts_as_well() -> None:
    """1.5 is 0.25 below 1.75: five of the tail's errors, and 2.3 of both together."""
    assert find_doubts(fits(stable={"alpha": 1.75, "errors": {"alpha": 0.1}})) == ()
    (doubt,) = find_doubts(fits(stable={"alpha": 1.75, "errors": {"alpha": 0.01}}))
    assert "heavier than the stable law's" in doubt


def test_the_nearest_size_of_the_hill_plot_is_by_ratio() -> None:
    """A tenth of 1000 is 100: 200 is nearer to it than 30 is, as a ratio."""
    plot = HillPlot(k=(30, 200, 1000), tail_index=(5.0, 1.5, 1.5), errors=(0.1, 0.1, 0.047))
    assert find_doubts(replace(fits(), hill=plot)) == ()


@pytest.mark.parametrize("n", [12, 50, 400])
def test_the_hill_plot_is_its_definition(n: int) -> None:
    x = np.sort(np.random.default_rng(n).pareto(1.5, n) + 1)[::-1]
    plot = hill_plot(Magnitudes(x[::-1].copy(), 0), 7)
    assert plot.k[0] == min(10, n // 2)
    assert plot.k[-1] == n // 2
    for k, index, error in zip(plot.k, plot.tail_index, plot.errors, strict=True):
        wanted = 1 / np.mean([math.log(x[i] / x[k]) for i in range(k)])
        assert index == pytest.approx(wanted, rel=1e-12)
        assert error == pytest.approx(wanted / math.sqrt(k), rel=1e-12)


def test_eigenvalues_below_the_rounding_of_a_large_matrix_are_zeros() -> None:
    """√(60 eps) is 1.2e-7, and √eps alone 1.5e-8."""
    factors = torch.cat(
        [torch.linspace(1, 2, 55, dtype=torch.float64), torch.full((5,), 1e-7, dtype=torch.float64)]
    )
    law = measurement.layer_tails(factors, TailOptions(bootstrap=0)).eigenvalues.power_law
    assert law is not None
    assert (law.values, law.zeros) == (55, 5)


def test_fifty_weights_are_enough_for_a_stable_law() -> None:
    assert measurement._no_stable(np.arange(50.0)) == ""
    assert measurement._no_stable(np.arange(49.0)).startswith("only 49 weights")


def test_a_third_of_equal_numbers_is_still_tried() -> None:
    values = np.concatenate([np.zeros(50), np.linspace(-3, -1, 50), np.linspace(1, 3, 50)])
    assert stable_fit._standardised(values)[0].size == 150


def test_lemma_2_1_holds_at_its_bound() -> None:
    assert (
        lemma_2_1(PairRatios({(0, 0): np.array([1.0, 0.2])}, frozenset()), 0.1, printed=False).held
        is True
    )


def test_rounding_by_just_epsilon_is_no_note() -> None:
    layers: Any = [SimpleNamespace(name="fc1", rounding=0.1, t=0, kept=1, replaced=1, nonzeros=1)]
    assert heavy_tail_notes._left(layers, 0.1) == []
    assert len(heavy_tail_notes._left(layers, 0.0999)) == 1


def test_the_mean_that_survives_is_measured_from_that_of_the_draws() -> None:
    same: Any = SimpleNamespace(
        name="fc1", tau=1.0, replaced_largest=0.9, replaced_mean=0.5, noise_mean=0.5, deviation=1.0
    )
    apart: Any = SimpleNamespace(
        name="fc2", tau=1.0, replaced_largest=0.9, replaced_mean=-0.1, noise_mean=0.1, deviation=1.0
    )
    (note,) = heavy_tail_notes._signs("appendix", [same, apart])
    assert (
        "from fc2 has the mean -0.1 and what replaces it 0.1, 0.2 standard deviations apart" in note
    )


def test_a_bound_that_is_just_that_of_guessing_is_worthless() -> None:
    first = TriedTail(
        asked="tau=1, t=0", grid="8 bits", kept=10, bits=100, errors=20, bound=0.6, written=True
    )
    tried = [
        first,
        replace(first, asked="tau=2, t=0", errors=80, bound=0.5, chosen=True),
    ]
    assert len(worthless(tried, 2)) == 1
    assert worthless(tried, 3) == []

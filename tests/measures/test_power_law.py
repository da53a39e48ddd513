"""The power-law fit: exact against the textbook's quadratic search, on ties, on zeros and on the
edges of numbers.
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tail_cases import LAWS, drawn, magnitudes, textbook_distances

from cushion.measures.tails import tail_search
from cushion.measures.tails.power_law import Magnitudes, fit_power_law, law_of_tail
from cushion.measures.tails.records import PowerLawFit
from cushion.measures.tails.tail_search import SLACK, Tails, best_start


def assert_is_the_textbooks(values: np.ndarray | list[float]) -> None:
    values = np.asarray(values, dtype=np.float64)
    fit = fit_power_law(magnitudes(values))
    distances = textbook_distances(values)
    alpha, distance = distances[fit.xmin]
    assert fit.alpha == pytest.approx(alpha, rel=1e-9)
    assert fit.ks_distance == pytest.approx(distance, abs=1e-12)
    best = min(other for _, other in distances.values())
    near = [xmin for xmin, (_, other) in distances.items() if other <= best + 10 * SLACK]
    assert fit.xmin in near
    x = np.abs(values[values != 0])
    assert fit.tail == np.count_nonzero(x >= fit.xmin)
    assert (fit.values, fit.zeros) == (x.size, values.size - x.size)
    assert (fit.distinct, fit.largest) == (len(set(x.tolist())), x.max())
    assert fit.alpha_error == pytest.approx((fit.alpha - 1) / math.sqrt(fit.tail))


@pytest.mark.parametrize("name", LAWS)
def test_it_is_the_textbooks_fit(name: str) -> None:
    for seed, n in enumerate((50, 90, 140)):
        assert_is_the_textbooks(drawn(name, n, seed))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 25), min_size=2, max_size=40).filter(lambda x: len(set(x) - {0}) > 1),
    st.floats(0.01, 9),
)
def test_it_is_the_textbooks_fit_of_ties(counts: list[int], scale: float) -> None:
    assert_is_the_textbooks([scale * count for count in counts])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=40, unique=True).filter(
        lambda x: max(x) > 1.001 * min(x)
    )
)
def test_it_is_the_textbooks_fit_of_any_numbers(values: list[float]) -> None:
    assert_is_the_textbooks(values)


@pytest.mark.parametrize(
    "name", ["pareto 2.5", "normal", "uniform", "pareto on a grid", "body and tail"]
)
def test_chunks_blocks_and_probes_change_nothing(name: str) -> None:
    """The sizes of blocks and chunks made so small that 500 numbers need many of them."""
    for seed in range(4):
        sample = Magnitudes.of(drawn(name, 500, seed))
        tails = Tails.of(sample.ordered)
        distances = [tails.furthest(start, math.inf)[0] for start in range(tails.candidates)]
        with patch.multiple(tail_search, _BLOCK=16, _PROBES=4, _SMALLEST_CHUNK=3):
            small = Tails.of(sample.ordered)
            np.testing.assert_allclose(small.rate, tails.rate, rtol=1e-13)
            assert best_start(small) == int(np.argmin(distances))
            assert small.furthest(10, math.inf) == pytest.approx(
                tails.furthest(10, math.inf), abs=1e-14
            )
        assert best_start(tails) == int(np.argmin(distances))


def test_distances_are_those_of_the_definition() -> None:
    sample = Magnitudes.of(drawn("normal of 8 bits", 3000, 0))
    x, tails = sample.ordered, Tails.of(sample.ordered)
    values = np.unique(x)
    for start in (0, 7, 40):
        tail = x[x >= values[start]]
        rate = tail.size / np.log(tail / values[start]).sum()
        shares = np.array([np.mean(tail >= value) for value in values[start:]])
        gaps = np.abs(shares - (values[start:] / values[start]) ** -rate)
        found_law = law_of_tail(sample, tails, start)
        assert found_law.ks_distance == pytest.approx(gaps.max(), abs=1e-14)
        beyond = np.array([np.mean(tail > value) for value in values[start:]])
        other = np.abs(beyond - (values[start:] / values[start]) ** -rate)
        assert found_law.ks_both_sides == pytest.approx(max(gaps.max(), other.max()), abs=1e-14)
        with patch.multiple(tail_search, _BLOCK=7):
            assert tails.furthest_of_both(start) == pytest.approx(
                found_law.ks_both_sides, abs=1e-14
            )
        for place in (0, 3, gaps.size - 1):
            found = tails.distances(slice(start, start + 1), start + place)
            assert found == pytest.approx(gaps[place : place + 1], abs=1e-14)
        distance, point = tails.furthest(start, math.inf)
        assert (distance, point) == (pytest.approx(gaps.max()), start + int(gaps.argmax()))


def test_enough_stops_the_look_at_a_point_that_is_far_enough() -> None:
    tails = Tails.of(np.sort(drawn("uniform", 200_000, 0) + 1.5))
    exact = tails.furthest(0, math.inf)[0]
    for enough in (0.0, exact / 2, exact * 0.999):
        distance, point = tails.furthest(0, enough)
        assert enough < distance <= exact
        assert tails.distances(slice(0, 1), point)[0] == pytest.approx(distance, abs=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 0.3, 1e6])
def test_scale_and_order_and_sign_do_not_matter(scale: float) -> None:
    values = drawn("student 3", 800, 5)
    fit = fit_power_law(Magnitudes.of(values))
    other = fit_power_law(
        Magnitudes.of(-scale * np.random.default_rng(0).permutation(values).reshape(20, 40))
    )
    assert other.xmin == pytest.approx(scale * fit.xmin)
    assert (other.alpha, other.ks_distance) == (
        pytest.approx(fit.alpha),
        pytest.approx(fit.ks_distance),
    )
    assert (other.tail, other.tail_index) == (fit.tail, pytest.approx(fit.alpha - 1))


def test_two_and_three_distinct_values() -> None:
    """Two: the tail of the smaller, 30 of 1 and 20 of e, has the mean logarithm 0.4. Three: the
    smallest is tried.
    """
    two = fit_power_law(magnitudes([1.0] * 30 + [math.e] * 20))
    assert (two.xmin, two.tail, two.alpha) == (1.0, 50, pytest.approx(1 + 1 / 0.4))
    assert two.ks_distance == pytest.approx(abs(0.4 - math.exp(-1 / 0.4)))
    three = fit_power_law(magnitudes([1.0] * 30 + [math.e] * 20 + [math.e**2] * 10))
    assert (three.xmin, three.tail, three.alpha) == (1.0, 60, pytest.approx(1 + 60 / 40))


@pytest.mark.parametrize("many", [2, 50, 1000])
def test_a_tail_of_equal_numbers_is_never_taken(many: int) -> None:
    """Its alpha would be infinite and its distance 0. The two largest values are no candidates."""
    values = np.concatenate([drawn("pareto 2.5", 60, 0), [500.0], np.full(many, 1000.0)])
    fit = fit_power_law(magnitudes(values))
    assert fit.xmin < 500
    assert all(math.isfinite(number) for number in (fit.alpha, fit.alpha_error, fit.ks_distance))
    assert_is_the_textbooks(values)


def test_one_outlier_above_a_constant_is_not_taken_for_a_perfect_fit() -> None:
    """From the second largest value on, 299 equal numbers and one above: |1/300 - exp(-300)| would
    be the distance.
    """
    values = [*np.linspace(0.1, 0.9, 90), *[1.0] * 299, 2.0]
    assert fit_power_law(magnitudes(values)).xmin < 1
    assert_is_the_textbooks(values)


@pytest.mark.parametrize(
    "values",
    [
        [0.01] * 40
        + [np.nextafter(0.01, 1)] * 20,  # logarithms of neighbours can be the same number
        [
            *([3.0] * 40),
            np.nextafter(3, 4),
            np.nextafter(np.nextafter(3, 4), 4),
            np.nextafter(3, 0),
        ],
        [5e-324] * 30 + [1e-323] * 30 + [1.5e-323] * 9 + [2e-323],
        [1e-320, 1e-308, 1e-300, 1.0, 1e300, 1.7e308] * 9,
        [1e-45, 1e38, 2e38, 3e38] * 15,
        np.exp(np.linspace(-700, 700, 300)),
    ],
)
def test_no_division_by_zero_and_nothing_infinite(values: list[float]) -> None:
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        fit = fit_power_law(magnitudes(values))
    assert all(math.isfinite(number) for number in (fit.alpha, fit.alpha_error, fit.ks_distance))
    assert fit.alpha > 1
    assert 0 <= fit.ks_distance < 1


LAID_OUT: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # by their ranks, in (0, 1)
    "pareto": lambda q: (1 - q) ** -0.7,
    "geometric": lambda q: np.exp(3 * q),
    "geometric float32": lambda q: np.exp(3 * q).astype(np.float32),
    "even": lambda q: 1 + q,
    "exponential": lambda q: -np.log1p(-q),
    "rippled": lambda q: np.exp(-np.log1p(-q) / 1.5 + 0.02 * np.sin(100 * np.log1p(-q))),
}


@pytest.mark.parametrize("name", [*LAID_OUT, *LAWS])
def test_few_candidates_are_measured(name: str) -> None:
    """The work stays that of a few passes: on random samples, and where all distances are nearly
    the same.
    """
    n = 100_000
    values = LAID_OUT[name]((np.arange(n) + 0.5) / n) if name in LAID_OUT else drawn(name, n, 0)
    tails = Tails.of(Magnitudes.of(values).ordered)
    with patch.object(Tails, "furthest", autospec=True, side_effect=Tails.furthest) as measured:
        best_start(tails)
    assert measured.call_count <= (300 if name in LAID_OUT else 60)


@pytest.mark.parametrize("name", ["normal", "pareto 2.5", "normal of 8 bits"])
def test_memory_is_at_most_ten_times_float32_weights(name: str) -> None:
    """All of it: the weights, the sorted copy, and the three arrays of the tails."""
    weights = drawn(name, 400_000, 0).astype(np.float32)
    tracemalloc.start()
    fit_power_law(Magnitudes.of(weights))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert weights.nbytes + peak <= 10 * weights.nbytes


def test_the_record_goes_to_json_and_back() -> None:
    fit = fit_power_law(Magnitudes.of(drawn("cauchy", 300, 0)))
    assert PowerLawFit(**fit.to_json()) == fit
    assert fit.decades == pytest.approx(math.log10(fit.largest / fit.xmin))


def test_numbers_far_below_the_largest_keep_their_logarithms() -> None:
    """Ratios of 1e-308 and less: 2^0, 2^-1, ..., 2^-1070, whose logarithms are known."""
    sample = Magnitudes.of(2.0 ** -np.arange(1071.0))
    tails = Tails.of(sample.ordered)
    np.testing.assert_allclose(tails.log, -math.log(2) * np.arange(1070, -1, -1), rtol=1e-12)
    fit = law_of_tail(sample, tails, 0)
    assert fit.alpha == pytest.approx(1 + 1071 / (math.log(2) * 1070 * 1071 / 2), rel=1e-9)

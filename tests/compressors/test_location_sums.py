"""The dependence between Algorithm 4's filters, in closed form and simulated, and sums over places
against Lemma 15.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from tests.place_moments import place_correlation, place_variance

from cushion.compressors.projection import location_sums as module
from cushion.compressors.projection.conv_project import project_filters
from cushion.compressors.projection.location_sums import (
    LocationSums,
    filter_correlation,
    location_sums,
    measured_dependence,
    variance_factor,
)
from cushion.nets.operators import Conv2d

torch.set_num_threads(1)


def printed_filters(
    kernel: np.ndarray, k: int, p: int, places: int, shared: bool, random: np.random.Generator
) -> np.ndarray:
    """[places, n]: Algorithm 4 as printed, M in R^n projected on one S; or with spherical normals
    at every place.
    """
    n, q = len(kernel), k * p
    project = np.eye(n)
    if shared:
        basis = np.linalg.qr(random.normal(size=(n, q)))[0]
        project = math.sqrt(n / q) * basis @ basis.T
    filters = []
    for _ in range(places):
        m_prime = random.normal(size=(k, n)) @ project
        filters.append((m_prime @ kernel) @ m_prime / k)
    return np.stack(filters)


def _close(values: np.ndarray, expected: float) -> bool:
    """The mean of independent values within 4.5 of its own standard errors."""
    return bool(abs(values.mean() - expected) <= 4.5 * values.std(ddof=1) / math.sqrt(len(values)))


@pytest.mark.parametrize(("n", "k", "p"), [(8, 2, 2), (12, 1, 3), (6, 3, 2), (20, 4, 1)])
def test_closed_forms_agree_with_the_printed_algorithm(n: int, k: int, p: int) -> None:
    random = np.random.default_rng(n)
    kernel, direction = random.normal(size=n), random.normal(size=n)
    draws = np.stack([printed_filters(kernel, k, p, 3, True, random) for _ in range(3000)]) - kernel
    across = direction - (direction @ kernel) / (kernel @ kernel) * kernel  # orthogonal to A
    for one in (direction, across, kernel):
        squares, inner = float(one @ one * (kernel @ kernel)), float(one @ kernel) ** 2
        variance, covariance = place_variance(n, k, p, squares, inner)
        values = draws @ one
        assert _close(np.square(values).mean(1), variance)
        assert _close((np.square(values.sum(1)) - np.square(values).sum(1)) / 6, covariance)
    variance, covariance = place_variance(n, k, p)
    assert place_correlation(n, k, p) == pytest.approx(covariance / variance)
    # whole filters: Σ over directions of the above
    own, pairs = (
        np.square(draws).sum(2).mean(1),
        (np.square(draws.sum(1)) - np.square(draws).sum(1)).sum(1) / 6,
    )
    assert _close(pairs - filter_correlation(n, k, p) * own, 0.0)
    assert _close(pairs, (n / (k * p) - 1) * float(kernel @ kernel))


def test_the_correlation_is_about_one_over_p_plus_one_and_vanishes_when_nothing_is_compressed() -> (
    None
):
    for p in (2, 5, 10):
        assert place_correlation(10**7, 50, p) == pytest.approx(1 / (p + 1 + 1 / 50), rel=1e-3)
        assert filter_correlation(10**7, 50, p) == pytest.approx(1 / (p + 1 + 1 / 50), rel=1e-3)
    for n, k, p in (
        (12, 2, 3),
        (2, 1, 1),
        (40, 1, 1),
    ):  # U = A: only E P_11² = q(q+2)/(n(n+2)) enters
        q = k * p
        square = (n / q) ** 2 * q * (q + 2) / (n * (n + 2))
        assert place_variance(n, k, p, 1.0, 1.0) == pytest.approx(
            (square * (1 + 2 / k) - 1, square - 1)
        )
    for k, p in (
        (12, 1),
        (3, 4),
    ):  # q = n = 12: S is the whole space and the filters are independent
        variance, covariance = place_variance(12, k, p, 5.0, 2.0)
        assert covariance == pytest.approx(0.0, abs=1e-12)
        assert variance == pytest.approx(7.0 / k)
        assert filter_correlation(12, k, p) == 0.0


def test_a_sum_over_64_places_has_a_variance_of_97_and_not_of_6_4() -> None:
    """k = 10, p = 4, a kernel of 360 numbers, one direction across A: 64/k if Lemma 12 were
    true.
    """
    variance, covariance = place_variance(360, 10, 4)
    assert 64 * variance + 64 * 63 * covariance == pytest.approx(97.3, abs=0.05)
    # the terms themselves vary more than Lemma 12 says; the rest is correlation
    assert 64 * variance * variance_factor(64, place_correlation(360, 10, 4)) == pytest.approx(
        97.3, abs=0.05
    )
    kernel, across = np.eye(360)[0], np.broadcast_to(np.eye(360)[1], (64, 1, 360))
    shared = location_sums(kernel, across, 10, 4, "algorithm 4", 600, 1)
    assert shared.sigma**2 == pytest.approx(6.4)
    assert abs(6.4 * shared.variance_ratio - 97.3) <= 4.5 * shared.variance_error * 6.4
    assert 6.4 * shared.variance_ratio > 60


def test_measured_dependence_of_real_filters() -> None:
    weight = torch.randn(
        4, 3, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    convolution = Conv2d(weight, (3, 8, 8))  # n = 108, 36 places
    kernel = weight.numpy()
    filters = [project_filters(convolution, 6, 3, 30, seed, 1).weight(seed) for seed in range(20)]
    found = np.array([measured_dependence(one, kernel) for one in filters])
    # one draw of S scatters; the mean over 20 is near the ratio of expectations (0.200 here)
    assert abs(found.mean() - filter_correlation(108, 6, 3)) <= 0.03
    # the definition: a mean over all pairs
    delta = (filters[0] - kernel).reshape(36, -1)
    gram = delta @ delta.T
    assert found[0] == pytest.approx(
        (gram.sum() - np.trace(gram)) / (36 * 35) / (np.trace(gram) / 36)
    )
    random = np.random.default_rng(0)
    free = printed_filters(kernel.reshape(-1), 6, 3, 36, False, random).reshape(36, *kernel.shape)
    assert abs(measured_dependence(free, kernel)) < 0.02
    assert measured_dependence(np.stack([kernel] * 3), kernel) == 0.0


def _directions(places: int, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A kernel, and directions that lean towards it, so that E X is far from 0."""
    random = np.random.default_rng(3)
    kernel = random.normal(size=n)
    return kernel, random.normal(size=(places, m, n)) + kernel


@pytest.mark.parametrize("filters", ["independent", "algorithm 4"])
@pytest.mark.parametrize("m", [1, 3])
def test_the_simulation_draws_what_the_printed_algorithm_gives(filters: str, m: int) -> None:
    """Second and fourth moments of the sum, against filters drawn in full."""
    n, k, p, places = 10, 2, 4, 3
    kernel, directions = _directions(places, m, n)
    found = location_sums(kernel, directions, k, p, filters, 4000, 0)  # type: ignore[arg-type]
    random = np.random.default_rng(1)
    drawn = np.stack(
        [
            printed_filters(kernel, k, p, places, filters != "independent", random)
            for _ in range(4000)
        ]
    )
    lengths = (
        np.linalg.norm(np.einsum("lmn,tln->tm", directions, drawn - kernel), axis=1) / found.sigma
    )
    error = (lengths**2).std() / math.sqrt(4000)
    assert abs(found.variance_ratio - (lengths**2).mean()) <= 4.5 * math.hypot(
        error, found.variance_error
    )
    # fourth moments have heavy tails: their own standard errors, for both
    assert found.exponent == 4
    assert abs(found.moment - (lengths**4).mean()) <= 4.5 * math.sqrt(2) * (
        lengths**4
    ).std() / math.sqrt(4000)
    if m == 1:  # the exact variance of the sum, from bilinear versions of the closed form
        own = [
            place_variance(n, k, p, float(u @ u * (kernel @ kernel)), float(u @ kernel) ** 2)[0]
            for u in directions[:, 0]
        ]
        if filters == "independent":
            own = [
                float(u @ u * (kernel @ kernel) + (u @ kernel) ** 2) / k for u in directions[:, 0]
            ]
            assert found.sigma**2 == pytest.approx(sum(own))
        else:
            total = directions[:, 0].sum(0)
            whole = place_variance(
                n, k, p, float(total @ total * (kernel @ kernel)), float(total @ kernel) ** 2
            )[1]
            each = [
                place_variance(n, k, p, float(u @ u * (kernel @ kernel)), float(u @ kernel) ** 2)[1]
                for u in directions[:, 0]
            ]
            own = [a - b for a, b in zip(own, each, strict=True)] + [
                whole
            ]  # covariance is bilinear: one for all pairs
        assert abs(found.variance_ratio * found.sigma**2 - sum(own)) <= (
            4.5 * found.variance_error * found.sigma**2
        )


def test_only_independent_filters_pass_the_tests_of_independence() -> None:
    kernel, across = np.eye(100)[0], np.broadcast_to(np.eye(100)[1:3], (16, 2, 100))
    free = location_sums(kernel, across, 4, 2, "independent", 2000, 0)
    shared = location_sums(kernel, across, 4, 2, "algorithm 4", 2000, 0)
    assert abs(free.pair_correlation) <= 4.5 * free.pair_error
    assert abs(free.variance_ratio - 1) <= 4.5 * free.variance_error
    assert abs(shared.pair_correlation - place_correlation(100, 4, 2)) <= 0.04
    assert shared.pair_correlation > 10 * shared.pair_error
    assert shared.variance_ratio - 1 > 10 * shared.variance_error
    # Lemma 15's constants are so loose that here both kinds keep far below its promise
    for one in (free, shared):
        assert one.moment_ratio < 0.1
        assert all(frequency <= bound for _, frequency, bound in one.tails)


def test_with_many_places_the_tail_that_lemma_13_uses_is_really_broken() -> None:
    """64 x 64 places, p = 2: P[|X - E X| ≥ 12σp] ≤ 2^-p holds with independent filters and fails
    with Algorithm 4's.
    """
    kernel, across = np.eye(50)[0], np.broadcast_to(np.eye(50)[1], (4096, 1, 50))
    free = location_sums(kernel, across, 1, 2, "independent", 200, 0)
    shared = location_sums(kernel, across, 1, 2, "algorithm 4", 200, 0)
    t, frequency, bound = shared.tails[-1]
    assert (t, bound) == (2.0, 0.25)
    assert frequency > 0.25 + 3 * math.sqrt(0.25 * 0.75 / 200)
    assert shared.moment_ratio > 5
    assert free.tails[-1][1] == 0.0
    assert free.moment_ratio < 0.02


def test_records_are_plain_and_do_not_depend_on_how_the_work_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, directions = _directions(4, 2, 9)
    found = location_sums(kernel, directions, 2, 3, "algorithm 4", 50, 5)
    assert found.exponent == 2  # the even number below p = 3
    assert found.moment == pytest.approx(found.variance_ratio)
    again = json.loads(json.dumps(dataclasses.asdict(found)))
    again["tails"] = tuple(tuple(row) for row in again["tails"])
    assert LocationSums(**again) == found
    torch.set_num_threads(2)
    assert location_sums(kernel, directions, 2, 3, "algorithm 4", 50, 5) == found
    torch.set_num_threads(1)
    monkeypatch.setattr(module, "_BLOCK", 1000)
    apart = location_sums(kernel, directions, 2, 3, "algorithm 4", 50, 5)
    assert apart.variance_ratio == pytest.approx(found.variance_ratio, rel=1e-9)
    other = location_sums(kernel, directions, 2, 3, "algorithm 4", 50, 6)
    assert other.variance_ratio != found.variance_ratio

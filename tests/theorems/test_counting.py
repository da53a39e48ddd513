"""Bounds that count: labellings, bits, errors of noisy nets; formulas, brute force and coverage."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from tests.cases import CASES
from tests.theorem_cases import facts, layer, random_net
from torch import nn

from cushion.data.dataset import Dataset
from cushion.measures.sharpness.expected import count_noisy_errors
from cushion.nets.tracing import trace
from cushion.numerics import binomial_inverse, kl, occam_log_delta
from cushion.theorems.net_facts import decisions
from cushion.theorems.occam import Decisions, bits_bound, log_growth, vc_bound
from cushion.theorems.pac_bayes import (
    SIGMAS,
    NoisyErrors,
    isotropic,
    isotropic_as_printed,
    magnitude_noise,
)
from cushion.theorems.records import Bound, BoundsTable, compare

X = np.random.default_rng(0).uniform(0, 1, (50, 3))


def test_growth_by_its_formula() -> None:
    levels = [Decisions(4, 1, 16), Decisions(6, 2, 26)]
    m = 1000
    expected = sum(
        math.log(2 * (2 * math.e * m * u * t / w) ** w) for u, t, w in ((4, 1, 16), (6, 2, 26))
    )
    assert log_growth(levels, m) == pytest.approx(expected)
    # Few points: no more than all patterns of signs.
    assert log_growth(levels, 1) == pytest.approx(10 * math.log(2))
    assert log_growth([Decisions(3, 1, 0)], 5) == 0.0


def test_no_tiny_net_makes_more_labellings_than_counted() -> None:
    """Random weights of a 1-2-2 net on five points: the labellings that appear, against the
    bound.
    """
    rng = np.random.default_rng(1)
    x = np.linspace(-1, 1, 5)[:, None]
    seen = set()
    for _ in range(20_000):
        hidden = np.maximum(x * rng.normal(size=2) + rng.normal(size=2), 0)
        scores = hidden @ rng.normal(size=(2, 2)) + rng.normal(size=2)
        seen.add(tuple(scores[:, 0] > scores[:, 1]))
    net = trace(nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)), (1,))
    assert 10 < len(seen) <= math.exp(log_growth(decisions(net), 5))


def test_decisions_of_small_nets() -> None:
    def levels(name: str) -> list[tuple[int, int, int]]:
        case = next(case for case in CASES if case.name == name)
        found = decisions(trace(case.module(), case.input_shape))
        return [(level.count, level.degree, level.parameters) for level in found]

    assert levels("mlp") == [(9, 1, 72), (12, 2, 112)]  # 7-9-4, twelve ordered pairs of classes
    assert levels("linear-only") == [(6, 1, 18)]
    pooled = levels("max-pool")
    assert pooled[1] == (
        3 * 3 * 3 * 4 * 3,
        1,
        30,
    )  # 27 maxima over four inputs each, after one convolution
    assert pooled[-1][1] == 2
    # degree along the longer branches: conv conv | conv conv, then linear
    assert levels("residual")[-1][1] == 5
    assert levels("mlp-deep")[-1][1] == 6


def test_labellings_bound_by_its_formula() -> None:
    weights, _ = random_net([3, 4, 2], 0)
    net = facts([layer(a) for a in weights], X)
    levels = [Decisions(4, 1, 12), Decisions(2, 2, 20)]
    row = vc_bound(net, levels)
    expected = 1 / 50 + math.sqrt(8 * (log_growth(levels, 100) + math.log(4 / 0.05)) / 50)
    assert row.value == pytest.approx(expected, rel=1e-12)
    assert (row.kind, row.vacuous) == ("measure", True)


def test_bits_bound_is_occam_at_32_bits_a_weight() -> None:
    net = facts([layer(np.ones((2, 3)))], X, m=10_000)
    row = bits_bound(net)
    expected = binomial_inverse(1, 10_000, occam_log_delta(Decimal("0.05"), 32 * 6))
    assert expected <= row.value <= expected + 1e-6  # type: ignore[operator]
    assert not row.vacuous


def test_isotropic_noise_by_its_formula_and_the_list_is_paid() -> None:
    found = [
        NoisyErrors(SIGMAS[3], 10, 1000, 1000, True),
        NoisyErrors(SIGMAS[8], 2, 1000, 1000, True),
    ]
    row = isotropic(found, 3.0, 5000, 0.05, from_initialisation=False)
    bounds = []
    for one in found:
        q = binomial_inverse(one.errors, one.draws, math.log(0.01 / len(SIGMAS)))
        budget = (
            3.0 / (2 * one.sigma**2) + math.log(2 * math.sqrt(5000) * len(SIGMAS) / 0.04)
        ) / 5000
        grid = np.linspace(q, 1 - 1e-9, 200_001)
        bounds.append(next(p for p in grid if kl(q, p) >= budget))
    assert row.value == pytest.approx(min(bounds), abs=2e-5)
    assert row.about == "Q"
    assert row.kind == "certificate"
    clustered = NoisyErrors(SIGMAS[3], 640, 6400, 100, False).upper(0.01)
    assert kl(0.1, clustered) == pytest.approx(math.log(100) / 100, rel=1e-6)
    assert isotropic([], 3.0, 5000, 0.05, from_initialisation=True).abstains


def test_printed_equations_by_their_formulas() -> None:
    found = [NoisyErrors(0.5, 100, 1000, 1000, True), NoisyErrors(0.25, 50, 1000, 1000, True)]
    printed = isotropic_as_printed(found, 4.0, 900, 0.05)
    assert printed.value == pytest.approx(
        min(
            0.1 + math.sqrt((4 / 0.5 + math.log(20)) / 900),
            0.05 + math.sqrt((4 / 0.125 + math.log(20)) / 900),
        )
    )
    rows = magnitude_noise([(0.1, 30.0), (0.02, 300.0)], 900, 0.05)
    assert rows[0].value == pytest.approx(
        min(
            e + math.sqrt((2 * k + math.log(2 * 900 / 0.05)) / 900)
            for e, k in ((0.1, 30.0), (0.02, 300.0))
        )
    )
    assert rows[1].value == pytest.approx(
        min(
            e + math.sqrt((k + math.log(2 * 30 / 0.05)) / 1800)
            for e, k in ((0.1, 30.0), (0.02, 300.0))
        )
    )
    assert all(row.kind == "measure" for row in (printed, *rows))
    assert all(row.abstains for row in magnitude_noise([], 900, 0.05))


def test_the_noise_certificate_covers() -> None:
    """Samples drawn anew, a net fitted to each: the error under noise exceeds its bound at most as
    often as δ says.
    """
    rng = np.random.default_rng(5)
    delta, m, failures, gaps = 0.2, 60, 0, []
    grid = rng.normal(size=(4000, 2))
    truth = (grid[:, 0] > 0).astype(np.int64)
    flips = rng.random(4000) < 0.1
    labels = np.where(flips, 1 - truth, truth)
    everything = Dataset("population", grid.astype(np.float32), labels, 2)
    for seed in range(40):
        rows = rng.integers(0, 4000, m)
        x, y = grid[rows], labels[rows]
        weight = np.linalg.lstsq(x, 2.0 * y - 1.0, rcond=None)[0]
        model = nn.Sequential(nn.Linear(2, 2, bias=False))
        model[0].weight.data[:] = torch.tensor(np.stack([-weight, weight]), dtype=torch.float32)
        net = trace(model, (2,))
        sample = Dataset("sample", x.astype(np.float32), y, 2)
        counts, independent = count_noisy_errors(net, sample, SIGMAS[:6], draws=1024, seed=seed)
        assert independent
        found = [NoisyErrors(c.sigma, c.errors, c.draws, c.clusters, True) for c in counts]
        row = isotropic(found, float(2 * (weight**2).sum()), m, delta, from_initialisation=False)
        assert row.factors is not None
        true, _ = count_noisy_errors(
            net, everything, [row.factors["sigma"]], draws=20_480, seed=seed + 1000
        )
        failures += true[0].errors / true[0].draws > row.value  # type: ignore[operator]
        gaps.append(row.value)
    assert failures <= 8 + 5  # 40·δ and two standard deviations
    assert min(gaps) < 0.9  # a bound that says something  # type: ignore[type-var]


def test_verdicts_compare_scores_with_held_out_errors() -> None:
    def table(scores: dict[str, float | None], errors: int | None) -> BoundsTable:
        rows = tuple(
            Bound(name, "s", "measure", "as plotted", None, log10, True, "text")
            for name, log10 in scores.items()
        )
        return BoundsTable("n", "d", "f", 10, 2, 0.05, "loss", 0, 0.05, 1.0, 0.0, errors, 100, rows)

    good = table({"a": 1.0, "b": 3.0, "c": 2.0, "d": None}, 5)
    bad = table({"a": 2.0, "b": 1.0, "c": 2.0, "d": 1.0, "e": 0.0}, 90)
    found = {v.name: (v.prefers, v.right) for v in compare(good, bad)}
    assert found == {
        "a": ("first", True),
        "b": ("second", False),
        "c": ("neither", False),
        "d": ("neither", False),
    }
    unknown = compare(good, table({"a": 2.0}, None))
    assert [(v.prefers, v.right) for v in unknown] == [("first", None)]
    reverse = {v.name: v.right for v in compare(bad, good)}
    assert reverse["a"]
    assert list(itertools.islice(reverse, 1)) == ["a"]

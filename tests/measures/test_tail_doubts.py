"""When a fit should not be believed: each reason at its threshold, and what samples of known laws
are told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.simulations import few_and_many

from cushion.measures.tails.doubts import find_doubts
from cushion.measures.tails.family import TailOptions
from cushion.measures.tails.measurement import layer_tails
from cushion.measures.tails.records import (
    Goodness,
    HillPlot,
    LikelihoodRatio,
    PowerLawFit,
    Rival,
    StableFit,
    TailFits,
)
from cushion.measures.tails.stable_law import sample_stable

LAW = PowerLawFit(
    2.5, 0.047, 0.1, 0.01, 0.01, tail=1000, values=2000, zeros=0, distinct=2000, largest=5.0
)
HILL = HillPlot(
    k=(1, 10, 100, 1000),
    tail_index=(2.0, 1.6, 1.5, 1.5),
    errors=(2.0, 0.5, 0.15, 0.047),
)
STABLE = StableFit(
    1.5, 0.0, 0.02, 0.0, True, {"alpha": 0.03}, log_likelihood=1.0, ks_distance=0.005
)


def ratio(rival: Rival, value: float, p: float) -> LikelihoodRatio:
    return LikelihoodRatio(rival, value, p, {})


CLEAN = TailFits(
    "weights",
    2000,
    power_law=LAW,
    comparisons=(
        ratio("log-normal", 0.1, 0.7),
        ratio("exponential", 50.0, 0.001),
        ratio("gaussian", 90.0, 0.001),
    ),
    stable=STABLE,
    hill=HILL,
)


def fits(**changed: Any) -> TailFits:
    """The clean fits with some fields of the law, the stable law, the plot or the record itself
    changed.
    """
    parts = {"law": ("power_law", LAW), "stable": ("stable", STABLE), "hill": ("hill", HILL)}
    made = {
        parts[key][0]: replace(parts[key][1], **value)
        for key, value in changed.items()
        if key in parts
    }
    return replace(
        CLEAN, **made, **{key: value for key, value in changed.items() if key not in parts}
    )


def test_a_fit_that_nothing_speaks_against_has_no_doubts() -> None:
    """Being undecided about a log-normal tail is none: it imitates every power law."""
    assert find_doubts(CLEAN) == ()
    assert find_doubts(TailFits("weights", 10, no_fit="few", no_stable="few")) == ()
    assert find_doubts(replace(CLEAN, stable=None, no_stable="why")) == ()
    assert (
        find_doubts(replace(CLEAN, hill=None))
        == find_doubts(replace(CLEAN, hill=HillPlot((), (), ())))
        == ()
    )


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            fits(law={"tail": 99}),
            "only 99 weights are in the tail: alpha - 1 is known to 10% at best",
        ),
        (
            fits(law={"largest": 0.99}),
            "the tail ends at 9.9 times xmin, after 1.00 decades: over less than 1",
        ),
        (
            fits(law={"largest": 0.3}, stable={"scale": 0.001}),
            "the tail ends at 3 times xmin, after 0.48 decades: over less",
        ),
        (
            fits(law={"alpha": 6.01}),
            "alpha = 6.01 is no heavy tail: all moments of order below 5.01 are finite",
        ),
        (fits(law={"distinct": 999}), "only 999 different magnitudes among 2000"),
        (
            fits(law={"ks_both_sides": 0.052}),
            "misses its own tail: KS distance 0.052, where chance allows 0.052 with 1000",
        ),
        (fits(goodness=Goodness(0.09, 0.03, 100)), "9 of 100 samples of the fitted power law"),
        (
            fits(comparisons=(ratio("log-normal", -12.5, 0.02),)),
            "the tail is likelier log-normal (by 12.5 nats, p = 0.02) than a power law",
        ),
        (
            fits(comparisons=(ratio("exponential", 3.0, 0.2), ratio("gaussian", -3.0, 0.3))),
            "the tail may as well be exponential (p = 0.2) or Gaussian (p = 0.3), which is not "
            "heavy; p below 0.1",
        ),
        (
            fits(hill={"tail_index": (2.0, 1.6, 2.0, 1.5)}),
            "index 1.5 from the largest 1000, 2 from 100",
        ),
        (
            fits(hill={"tail_index": (2.0, 1.6, 1.0, 1.5)}),
            "index 1.5 from the largest 1000, 1 from 100",
        ),
        (
            fits(stable={"alpha": 1.95}),
            "the stable law is the normal one (alpha = 1.95), or not told from it",
        ),
        (
            fits(stable={"alpha": 2.0, "errors": {"alpha": None}}),
            "the stable law is the normal one (alpha = 2)",
        ),
        (
            fits(stable={"ks_distance": 0.04}),
            "the stable law misses the weights: KS distance 0.04, where up to 0.036",
        ),
        (
            fits(stable={"alpha": 1.93, "errors": {"alpha": 0.01}}),
            "heavier than the stable law's: tail index 1.5 ± 0.047, and 1.93",
        ),
    ],
)
def test_each_reason_is_one_sentence_with_its_number(made: TailFits, sentence: str) -> None:
    (doubt,) = find_doubts(made)
    assert sentence in doubt


@pytest.mark.parametrize(
    "made",
    [
        fits(law={"tail": 100, "ks_both_sides": 0.16}),
        fits(law={"largest": 1.01}),
        fits(law={"alpha": 6.0}),
        fits(law={"distinct": 1000}),
        fits(law={"ks_distance": 0.6, "ks_both_sides": 0.051}),
        fits(goodness=Goodness(0.1, 0.03, 100)),
        fits(comparisons=(ratio("log-normal", -12.5, 0.1),)),
        fits(hill={"tail_index": (9.0, 0.1, 1.9, 1.5)}),
        fits(
            hill={"tail_index": (2.0, 1.6, 5.0, 1.5)},
            law={"tail": 99, "ks_both_sides": 0.1, "alpha": 2.5},
        ),
        fits(stable={"alpha": 1.93, "errors": {"alpha": 0.03}}, law={"alpha": 2.9}),
        fits(stable={"ks_distance": 0.036}),
        fits(stable={"ks_distance": 0.0099, "scale": 1e-4}, count=10**6),
    ],
)
def test_up_to_the_threshold_nothing_is_said(made: TailFits) -> None:
    assert [doubt for doubt in find_doubts(made) if "are in the tail" not in doubt] == []


def test_many_numbers_do_not_make_a_close_law_a_bad_one() -> None:
    """With a million weights chance allows 0.0016; a law within 0.01 of them still describes
    them.
    """
    (doubt,) = find_doubts(fits(stable={"ks_distance": 0.011, "scale": 1e-4}, count=10**6))
    assert "where up to 0.01 would do" in doubt


def test_zeros_are_named_where_they_explain_the_misfit() -> None:
    wide = {"ks_distance": 0.1}
    (doubt,) = find_doubts(fits(stable=wide, law={"zeros": 500, "values": 1500, "distinct": 1500}))
    assert "500 weights are exact zeros, a heap that no stable law has" in doubt
    (doubt,) = find_doubts(fits(stable=wide, law={"zeros": 20}))
    assert "zeros" not in doubt


def test_the_largest_weight_refutes_a_stable_law_whose_tail_is_missing() -> None:
    """By hand: alpha = 1 (Cauchy), c = 0.02, P(|X| > z·c) ≈ 2/(πz): of 10^5, 1273 lie beyond z =
    50.
    """
    cauchy = {"alpha": 1.0, "scale": 0.02}
    (doubt,) = find_doubts(fits(stable=cauchy, law={"largest": 1.01}, count=10**5))
    beyond = 10**5 * 2 / math.pi / (1.01 / 0.02)
    assert (
        f"would put about {beyond:.3g} weights beyond the largest, 1.01; the power law has tail "
        "index 1.5" in doubt
    )
    for largest, missing in (
        (0.02 * 2e3 / math.pi / 4.5, False),
        (0.02 * 2e3 / math.pi / 4.7, True),
    ):
        found = find_doubts(fits(stable=cauchy, law={"largest": largest}, count=1000))
        assert bool(found) is missing
    moved = fits(stable={**cauchy, "location": -3.0}, law={"largest": 1.01}, count=10**5)
    assert f"about {10**5 * 2 / math.pi / (4.01 / 0.02):.3g} weights" in find_doubts(moved)[0]


def test_close_to_its_centre_a_stable_law_is_not_judged_by_its_tail() -> None:
    """Below four scales the leading term of the tail says nothing."""
    near = {"alpha": 1.5, "scale": 2.0}
    assert find_doubts(fits(stable=near, law={"largest": 7.9})) == ()
    assert "beyond the largest" in find_doubts(fits(stable=near, law={"largest": 8.1}))[0]


def test_the_weightiest_reason_comes_first() -> None:
    tests = (
        ratio("log-normal", -5.0, 0.05),
        ratio("exponential", -2.0, 0.01),
        ratio("gaussian", -9.0, 0.001),
    )
    found = find_doubts(
        fits(comparisons=tests, law={"alpha": 7.0, "tail": 60}, goodness=Goodness(0.0, 0.0, 50))
    )
    words = ["likelier Gaussian (by 9", "0 of 50", "only 60 weights", "alpha = 7"]
    assert [word in doubt for word, doubt in zip(words, found, strict=True)] == [True] * 4
    laws = [found[0].index(law) for law in ("Gaussian", "log-normal (", "exponential")]
    assert laws == sorted(laws)


def test_eigenvalues_are_called_so() -> None:
    (doubt,) = find_doubts(replace(fits(law={"tail": 64}), what="eigenvalues"))
    assert "only 64 eigenvalues are in the tail" in doubt


LAWS: dict[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "stable 1.3": lambda rng: sample_stable(2000, 1.3, 0.0, rng),
    "stable 1.8": lambda rng: sample_stable(2000, 1.8, 0.0, rng),
    "normal": lambda rng: rng.standard_normal(2000),
    "Laplace": lambda rng: rng.laplace(size=2000),
    "Pareto": lambda rng: rng.choice([-1.0, 1.0], 2000) * (1 - rng.random(2000)) ** (-1 / 1.5),
}
TOLD = {  # words -> the law -> in how many of twelve samples they may be said, least and most
    "which is not heavy": {"stable 1.3": (0, 0), "Pareto": (0, 0), "Laplace": (9, 12)},
    "decades: over less": {
        "stable 1.3": (0, 0),
        "Pareto": (0, 1),
        "Laplace": (12, 12),
        "normal": (12, 12),
    },
    "misses its own tail": dict.fromkeys(LAWS, (0, 1)),
    "is the normal one": {
        "stable 1.3": (0, 0),
        "stable 1.8": (0, 0),
        "Laplace": (0, 0),
        "normal": (10, 12),
    },
    "tail is not there": {"stable 1.3": (0, 1), "stable 1.8": (0, 1), "Laplace": (12, 12)},
    "misses the weights": {
        "stable 1.3": (0, 1),
        "stable 1.8": (0, 1),
        "normal": (0, 1),
        "Pareto": (12, 12),
    },
    "heavier than": {"stable 1.3": (0, 1), "stable 1.8": (0, 1), "normal": (0, 0)},
    "no flat stretch": {"stable 1.3": (0, 2), "Pareto": (0, 2)},
}


@few_and_many("samples", 4, 12)
@pytest.mark.parametrize("law", LAWS)
def test_samples_of_known_laws_are_told_what_is_true_of_them(law: str, samples: int) -> None:
    """A stable law is not refuted by its own samples, and a light tail is; a Pareto law only as a
    stable law.
    """
    told = []
    for seed in range(samples):
        numbers = torch.from_numpy(LAWS[law](np.random.default_rng(seed)))
        told.append(" ".join(layer_tails(numbers.reshape(200, 10), TailOptions()).weights.doubts))
    for words, laws in TOLD.items():
        least, most = laws.get(law, (0, 12))
        missed = 12 - least
        assert samples - missed <= sum(words in text for text in told) <= most, words
    assert any(text == "" for text in told) == law.startswith("stable")

"""Figures 1 and 2 of Shin 2021 as items: their numbers against known laws, their claims on planes
that are made up.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from cushion.papers import runner
from cushion.papers.shin import figures as shin_figures
from cushion.papers.shin.figures import (
    heavier,
    is_a_bound,
    law_probabilities,
    more_paths,
    power_law,
    probable,
)
from cushion.papers.shin.resilience import PathProbability, asymptotic_density, bracket_probability

SURE = PathProbability(kappa=2.0, p=0.1, printed=0.9, chernoff=1.0, exact=0.8, applies=False)
RARE = replace(SURE, printed=0.3, chernoff=0.3, exact=0.2, applies=True)


def made(item: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (runner.reproduce(item, folder) / "records.json").read_text()
    )
    return found


def test_figure_1_shows_the_known_laws(tmp_path: Path) -> None:
    found = made("shin2021-figure1", tmp_path)
    header, rows = found["tables"][0]["header"], found["tables"][0]["rows"]
    assert header == ["x", "α = 0.5", "α = 1", "α = 1.5", "α = 2"]
    for x, _, cauchy, _, normal in rows:
        assert cauchy == pytest.approx(1 / (math.pi * (1 + x * x)), rel=1e-4)
        assert normal == pytest.approx(math.exp(-x * x / 4) / math.sqrt(4 * math.pi), rel=1e-4)
    assert found["verdict"] == "reproduced"
    densities, tails = found["pictures"]
    assert densities["x"][0] == pytest.approx(-6.0)
    middle = [series["values"][50] for series in densities["series"]]
    assert middle == pytest.approx(
        [math.gamma(1 + 1 / alpha) / math.pi for alpha in (0.5, 1, 1.5, 2)], rel=1e-4
    )
    assert [series["label"] for series in tails["series"][4:]] == [
        f"eq. 12, α = {a}" for a in ("0.5", "1", "1.5")
    ]
    assert tails["series"][3]["values"][-1] is None  # of the normal law nothing is left to draw
    assert (tmp_path / "shin2021-figure1" / "quick" / "tails.png").is_file()


def test_the_order_of_tails_is_judged() -> None:
    far = len(shin_figures._FAR)
    ordered = {0.5: np.full(far, 3.0), 1.0: np.full(far, 2.0), 2.0: np.full(far, 1.0)}
    assert heavier(ordered).holds
    late = {**ordered, 0.5: np.array([0.0] * 3 + [3.0] * (far - 3))}
    assert "from 20 on" in heavier(late).because
    assert not heavier({**ordered, 1.0: np.full(far, 4.0)}).holds


def test_a_tail_that_is_no_power_law_is_noticed() -> None:
    right = {alpha: np.array([asymptotic_density(100.0, alpha)]) for alpha in (0.5, 1.5)}
    assert power_law(right).holds
    assert not power_law({**right, 1.5: 1.2 * right[1.5]}).holds
    assert power_law({**right, 2.0: np.zeros(1)}).holds  # eq. 12 is about α < 2


def test_the_laws_own_p_is_its_integral() -> None:
    powers = (0.0, 2.5, 5.0)
    for i, found in zip(powers, law_probabilities(powers, 1.0), strict=True):
        cauchy = (math.atan(1.3**i) - math.atan(1.3 ** (i - 1))) / math.pi
        assert found == pytest.approx(cauchy, rel=1e-4)


def test_figure_2_is_equation_16_and_the_binomial_tail(tmp_path: Path) -> None:
    found = made("shin2021-figure2", tmp_path)
    table, shares = found["tables"]
    for alpha, what, *values in table["rows"]:
        for i, value in enumerate(values):
            p, kappa = bracket_probability(i, alpha, 1.3), 1.3 ** (5 - i)
            printed = (64 * p / kappa) ** kappa * ((1 - p) / (1 - kappa / 64)) ** (64 - kappa)
            expected = {
                "as printed": printed,
                "1 where κ ≤ Np": printed if kappa > 64 * p else 1.0,
                "exact": float(binom.sf(math.ceil(round(kappa, 9)) - 1, 64, p)),
            }[what]
            assert value == pytest.approx(expected, abs=1e-12)
    by = {(alpha, what): values for alpha, what, *values in shares["rows"]}
    assert by[1.0, "the law itself"][0] == pytest.approx(
        (math.atan(1) - math.atan(1 / 1.3)) / math.pi, rel=1e-4
    )
    assert (0.25, "the law itself") not in by  # below the smallest α whose density is known
    names = [picture["name"] for picture in found["pictures"]]
    assert names == ["paths-printed", "paths-chernoff", "paths-exact", "paths-law"]
    printed, clipped, exact, law = found["pictures"]
    at = printed["x"].index(1.25)
    first = {(alpha, what): values[0] for alpha, what, *values in table["rows"]}
    assert printed["values"][0][at] == pytest.approx(first[1.25, "as printed"])
    assert clipped["values"][0][at] == 1.0 > exact["values"][0][at]
    assert len(law["values"]) == len(law["y"])
    assert all(len(row) == len(law["x"]) for row in law["values"])
    shares = [sum(row[at] >= 0.5 for row in law["values"]) / len(law["y"]) for at in (0, -1)]
    assert (
        f"{shares[0]:.0%} of the i are probable at α = 0.5 and {shares[1]:.0%} at α = 2"
        in found["notes"][-1]
    )
    held = [claim["holds"] for claim in found["claims"]]
    assert held == [False, True, False]
    assert found["verdict"] == "differs"
    # The law's own surface: at α = 1, i = 0 four entries of the Cauchy bracket.
    own = (math.atan(1) - math.atan(1 / 1.3)) / math.pi
    assert law["values"][0][law["x"].index(1.0)] == pytest.approx(
        float(binom.sf(3, 64, own)), rel=1e-3
    )


def test_a_plot_below_the_probability_is_no_bound() -> None:
    assert is_a_bound([[SURE, RARE]]).holds
    low = replace(SURE, printed=0.5)
    claim = is_a_bound([[SURE, RARE], [low, low]])
    assert not claim.holds
    assert "on 75% of the plane" in claim.because
    assert "on 50% the expression" in claim.because
    assert "by up to 0.30" in claim.because


def test_regions_and_paths_are_counted_over_the_plane() -> None:
    alphas = (0.5, 1.0, 1.5)
    every = [[SURE] * 3] * 2
    assert probable(alphas, every).holds
    assert more_paths(alphas, every).holds
    falling = [[RARE, SURE, SURE], [RARE, SURE, RARE]]  # none, both, one of two i
    assert probable(alphas, falling).holds  # at two of three α half of the i
    assert "from 1 to 1.5, 2 of 3" in probable(alphas, falling).because
    claim = more_paths(alphas, falling)
    assert not claim.holds
    assert "0% at α = 0.5, 100% at α = 1, 50% at α = 1.5" in claim.because
    rising = [[SURE, SURE, RARE], [SURE, RARE, RARE]]
    assert more_paths(alphas, rising).holds
    assert not probable(alphas, [[RARE, RARE, SURE], [RARE, RARE, RARE]]).holds
    assert "at no α" in probable(alphas, [[RARE] * 3] * 2).because

"""The propositions of Shin 2021 as an item: draws of known laws, rows beside closed forms, claims
on rows made up.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from cushion.papers import runner
from cushion.papers.shin import claims as shin_claims
from cushion.papers.shin import propositions as shin_propositions
from cushion.papers.shin import simulations as shin_simulations
from cushion.papers.shin.propositions import Draws
from cushion.theorems.sparsity import energy, exceeds

DRAWS = 400


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(shin_propositions.PLANS, "quick", Draws(DRAWS, 16, 1_000, 100_000, 200_000))
        folder = runner.reproduce("shin2021-propositions", tmp_path_factory.mktemp("pages"))
    found: dict[str, Any] = json.loads((folder / "records.json").read_text())
    return found


def test_draws_are_of_their_law() -> None:
    rng = np.random.default_rng(0)
    signed = shin_simulations.pareto(rng, (200_000,), 3.0, "signed")
    assert (signed > 0).mean() == pytest.approx(0.5, abs=0.01)
    assert np.abs(signed).min() >= 1
    for tau in (1.2, 2.0):
        assert (np.abs(signed) > tau).mean() == pytest.approx(exceeds(tau, 3.0), abs=0.01)
    assert shin_simulations.pareto(rng, (50,), 3.0, "positive").min() >= 1


def test_everything_is_drawn_though_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shin_simulations, "_AT_ONCE", 40)
    drawn = shin_simulations._paretos(np.random.default_rng(0), (3, 5), 7, 2.0, "signed")
    assert [some.shape for some in drawn] == [(2, 3, 5), (2, 3, 5), (2, 3, 5), (1, 3, 5)]


def test_errors_are_those_of_the_propositions(page: dict[str, Any]) -> None:
    failed = {tuple(row[:4]): row[4:] for row in page["tables"][0]["rows"]}
    square = shin_propositions.SQUARE
    assert len(failed) == 24
    assert failed["positive", "spread", 0.0, 0.05] == [1.0] * 5
    for (law, _, t, eta), (main, appendix, needed, corrected, ours) in failed.items():
        assert needed <= main <= appendix  # the ε shrink in this order
        assert needed <= corrected  # 2 for 3: a smaller ε
        if law == "signed":
            assert max(corrected, ours) <= eta + 4 * math.sqrt(eta / DRAWS)
        assert t in (0.0, square, 400.0)
    squares = {tuple(row[:3]): row[3:] for row in page["tables"][1]["rows"]}
    for (law, _, t), (expected, seen, _) in squares.items():
        assert seen == pytest.approx(expected, rel=0.35)
        if law == "signed":
            assert expected == pytest.approx(square + t)
    assert 0 < squares["signed", "spiky", 0.0][2] < squares["signed", "spiky", 400.0][2] <= 1
    settings = {tuple(row[:2]): row[2:] for row in page["tables"][2]["rows"]}
    assert settings[0.05, "main text"][:2] == pytest.approx([1 / math.log(60), math.sqrt(0.15)])
    assert settings[0.05, "corrected"][1:] == pytest.approx(
        [0.075, 0.05, math.erfc(math.sqrt(math.log(40)))]
    )


def test_counts_are_binomial(page: dict[str, Any]) -> None:
    rows = page["tables"][3]["rows"]
    assert sorted({row[0] for row in rows}) == [16, 256]  # a row of the matrix, and all of it
    for n, alpha, tau, p, printed, k, chernoff, exact, seen, smaller in rows:
        assert p == pytest.approx(tau**-alpha)
        assert printed == pytest.approx(p / alpha)
        assert exact == pytest.approx(float(binom.sf(k - 1, n, p)))
        assert exact < chernoff <= 0.05
        assert seen == pytest.approx(exact, abs=4 * math.sqrt(exact / 1_000) + 2e-3)
        assert smaller <= k
        assert binom.sf(smaller - 1, n, p) <= 0.05 < binom.sf(smaller - 2, n, p)


def test_spikes_are_what_the_corrected_equation_says(page: dict[str, Any]) -> None:
    rows = page["tables"][4]["rows"]
    for alpha, law, kind, printed, corrected, seen in rows[:-1]:
        x = np.ones(16) if kind == "spread" else 0.5 ** np.arange(16)
        assert corrected == pytest.approx(energy(x, 2.0, alpha, symmetric=law == "signed"))
        assert seen == pytest.approx(corrected, rel=0.25)
        assert printed == pytest.approx(16 * alpha * 2.0 ** (2 - alpha) / (alpha - 2))
    assert rows[-1][3] < 0
    assert rows[-1][4] == "infinite"


def test_brackets_and_shares_are_seen(page: dict[str, Any]) -> None:
    rows = page["tables"][5]["rows"]
    assert len(rows) == 3 * 6 + 3 * 4
    for c, alpha, i, _, seen, magnitudes, lost, below in rows:
        assert magnitudes == pytest.approx(2 * seen, abs=0.005)
        assert lost == pytest.approx(
            0.5 + below / 2, abs=0.005
        )  # the negative half, and what is up to 1
        if alpha == 1.0:
            assert seen == pytest.approx(
                (math.atan(c**i) - math.atan(c ** (i - 1))) / math.pi, abs=0.003
            )
    fixed = [row[1] for row in page["tables"][6]["rows"]]
    relative = [row[2] for row in page["tables"][6]["rows"]]
    assert fixed == pytest.approx([1 - 2.0**-alpha for alpha in (0.75, 1.0, 1.5, 2.5, 4.0)])
    assert relative == sorted(relative, reverse=True)


def test_the_page_judges_its_claims(page: dict[str, Any]) -> None:
    assert [claim["holds"] for claim in page["claims"]][0:1] == [False]
    assert [claim["holds"] for claim in page["claims"]][2:] == [True, False, True, True, False]
    assert page["verdict"] == "differs"
    assert any("100.0% of the draws" in note for note in page["notes"])  # u that depends on W


def error_row(law: str, main: float, eta: float = 0.05, draws: int = 10_000) -> dict[str, Any]:
    return {"law": law, "main text": main, "corrected": 0.0, "eta": eta, "t": 0.0, "draws": draws}


def test_failures_are_judged_beyond_the_noise_of_draws() -> None:
    assert not shin_claims.beyond(0.0585, 0.05, 10_000)  # four deviations are 0.0087
    assert shin_claims.beyond(0.0589, 0.05, 10_000)
    good, bad = (
        [error_row("positive", 0.05), error_row("signed", 0.9)],
        [error_row("positive", 0.9), error_row("signed", 0.05)],
    )
    assert shin_claims.error_is_small(good).holds
    assert not shin_claims.error_is_small(bad).holds
    assert (
        "fails in 90% of the draws where 5% is claimed" in shin_claims.error_is_small(bad).because
    )
    assert shin_claims.setting_is_enough(bad).holds
    assert not shin_claims.setting_is_enough(good).holds


def test_counts_spikes_and_brackets_are_judged() -> None:
    row = {"exact": 0.01, "chernoff": 0.05, "seen": 0.012, "draws": 10_000}
    assert shin_claims.is_sparse([row]).holds
    assert not shin_claims.is_sparse([row, {**row, "seen": 0.2}]).holds
    assert not shin_claims.is_sparse([{**row, "exact": 0.06}]).holds
    spike = {"printed": 1.0, "corrected": 1.0, "seen": 1.05}
    assert shin_claims.energy_as_printed([spike]).holds
    assert not shin_claims.energy_as_printed([spike, {**spike, "printed": 2.0}]).holds
    near = {"c": 1.3, "m": 1, "alpha": 1.0, "draws": 10**9, "printed": [0.04, 0.04]}
    far = {
        "c": 10.0,
        "m": 3,
        "alpha": 1.0,
        "draws": 10**9,
        "printed": [0.2, 0.2, 0.02, 0.9 * 1e-2 / math.pi],
    }
    assert shin_claims.brackets_as_printed([near, far]).holds  # eq. 14 at i = 3: 0.9·10^-2/π
    assert not shin_claims.brackets_as_printed(
        [near, {**far, "printed": [0.2, 0.2, 0.02, 0.004]}]
    ).holds


def test_the_two_sentences_on_alpha_are_judged() -> None:
    rows = [
        {"alpha": alpha, "fixed": 1 - 2.0**-alpha, "share": 1 / alpha} for alpha in (1.0, 2.0, 4.0)
    ]
    assert shin_claims.fewer_with_alpha(rows).holds
    assert not shin_claims.more_as_alpha_shrinks(rows).holds
    assert "it is so where the error is relative" in shin_claims.more_as_alpha_shrinks(rows).because
    turned = [{**row, "fixed": 1 - row["fixed"], "share": row["alpha"]} for row in rows]
    assert not shin_claims.fewer_with_alpha(turned).holds
    assert shin_claims.more_as_alpha_shrinks(turned).holds
    assert "not so" in shin_claims.more_as_alpha_shrinks(turned).because


def test_a_failure_above_its_claim_within_chance_decides_nothing() -> None:
    assert shin_claims.setting_is_enough([error_row("signed", 0.052)]).holds is None
    assert (
        shin_claims.setting_is_enough([error_row("signed", 0.052), error_row("signed", 0.2)]).holds
        is False
    )
    assert shin_claims.error_is_small([error_row("positive", 0.052)]).holds is None
    assert shin_claims.error_is_small([error_row("positive", 0.05)]).holds is True

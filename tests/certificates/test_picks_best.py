"""The best of the frozen list: what a run leaves out, and what it never does."""

from __future__ import annotations

from decimal import Decimal
from itertools import accumulate

import numpy as np
import pytest
from tests.certificates.user_fit import fit
from tests.picks_cases import blobs

import cushion
import cushion_verify
from cushion.certificates.picks import configurations
from cushion.certificates.picks.best_of_list import is_hopeless
from cushion.certificates.picks.configurations import AFTER, SIZES, STOPS
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.run import certify_by_list, certify_fit
from cushion.errors import BadInput

PICKED = [picked for place, picked in enumerate(accumulate(SIZES), 1) if place in AFTER]


def course(errors: list[int]) -> int:
    """At which stop a run with these errors ends."""
    counts = [p + e for p, e in zip(PICKED, errors, strict=False)]
    for at in range(1, len(errors) + 1):
        if is_hopeless(counts[:at], errors[:at], ()):
            return at
    return len(errors)


@pytest.mark.parametrize("power", [0.6, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("first", [300, 3000, 30_000])
def test_a_run_whose_errors_fall_by_a_power_of_the_picks_ends_behind_its_best(
    power: float, first: int
) -> None:
    errors = [int(first * (PICKED[0] / p) ** power) for p in PICKED]
    counts = [p + e for p, e in zip(PICKED, errors, strict=True)]
    best = int(np.argmin(counts)) + 1
    assert best <= course(errors) <= min(STOPS, best + 2)


def test_nothing_wrong_or_the_last_stop_ends_a_run() -> None:
    assert is_hopeless([70], [0], ())
    assert is_hopeless([10_000] * STOPS, [9_000 - i for i in range(STOPS)], ())
    assert not is_hopeless([10_000], [9_936], ())


def test_a_recipe_that_stays_behind_the_leader_is_given_up_but_not_early() -> None:
    leader = tuple(10_000 - 500 * i for i in range(12))
    behind = [count + 1 for count in leader]
    errors = [count - p for count, p in zip(behind, PICKED, strict=False)]
    ends = [at for at in range(1, 12) if is_hopeless(behind[:at], errors[:at], leader)]
    assert ends[0] == 7


def test_no_learner_trains_on_more_rows_than_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier refuses those; a run stops before, and who names one is told."""
    data = blobs(400, 3, side=8)
    monkeypatch.setattr("cushion.certificates.picks.best_of_list.MOST_TRAINED", 800)
    monkeypatch.setattr(configurations, "MOST_TRAINED", 800)
    moved = PicksOptions(recipe=2)  # eleven training rows a pick
    certificate, _ = certify_by_list(data, Decimal("0.05"), moved)
    assert certificate.claim.configuration == 2 * STOPS  # type: ignore[union-attr]
    assert certificate.claim.picks * 11 < 800  # type: ignore[union-attr]
    with pytest.raises(BadInput, match="`configuration` = 33 trains on 800 rows and more"):
        certify_by_list(data, Decimal("0.05"), PicksOptions(configuration=33))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_pictures_of_floats_that_are_no_numbers_have_levels_too(value: float) -> None:
    """The maker refuses them; a verifier meets whatever it is given."""
    x = np.random.default_rng(0).normal(size=(20, 1, 8, 8)).astype(np.float32)
    x[3:5] = value
    for first in (np.arange(8), np.arange(8, 16)):
        machine = cushion_verify.Machine(0, 2, x)
        machine.learn(first, np.arange(8) % 2)
        assert set(machine.classes(x)) <= {-1, 0, 1}
        assert machine.reading is not None
        levels = machine.reading(x)
        assert ((levels >= 0) & (levels <= 255) & (levels == np.floor(levels))).all()


@pytest.mark.parametrize("nudge", [1e-6, 1e-3])
def test_floats_that_the_learner_reads_alike_are_not_held_out(nudge: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int64)
    near = x[:200] * np.float32(1 + nudge)
    with pytest.raises(BadInput, match="rows of the sample itself"):
        cushion.certify(None, (x, y), holdout=(near, y[:200]), kind="picks")


def test_a_recipe_that_does_not_read_the_rows_is_refused_with_those_that_do() -> None:
    pictures = blobs(60, 3, side=8)
    said = r"`recipe` = 5 \(tables\) does not read the rows of .*; these do: 0 \(grey pictures\), 1"
    with pytest.raises(BadInput, match=said):
        certify_by_list(pictures, Decimal("0.05"), PicksOptions(recipe=5))


def test_a_recipe_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(BadInput, match="leave `recipe` out"):
        PicksOptions(recipe=1, configuration=33)


@pytest.mark.parametrize("name", ["recipe", "configuration"])
def test_what_is_said_of_the_list_does_not_go_with_ones_own_training(name: str) -> None:
    options = PicksOptions(**{name: 1})  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=f"`{name}` is about the frozen list"):
        certify_fit(fit, blobs(60, 3), Decimal("0.05"), options)

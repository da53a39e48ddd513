"""The learners of the frozen list are preferent: rows that they left out change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.picks_cases import blobs

from cushion.certificates.picks.configurations import RECIPES, STOPS, learner_for
from cushion.certificates.picks.rounds import pick
from cushion.data import load
from cushion.data.dataset import Dataset

DIGITS = load("digits,subset=260,seed=3")
COLOUR = Dataset("colour", np.repeat(blobs(160, 4, side=8).x, 3, axis=1), blobs(160, 4).y, 3)
FLAT = DIGITS.x.reshape(len(DIGITS), -1)
TABLE = Dataset("table", FLAT.astype(np.float32) / 7, DIGITS.y, 10)
SAMPLES = {
    "grey": DIGITS,
    "colour": COLOUR,
    "table": TABLE,
    "features": Dataset("features", FLAT, DIGITS.y, 10),
}


@pytest.mark.parametrize("recipe", range(len(RECIPES)), ids=lambda at: RECIPES[at].name)
def test_left_out_rows_and_the_order_of_all_change_nothing(recipe: int) -> None:
    form = RECIPES[recipe].form
    sample = SAMPLES[form]
    learner = learner_for(sample, recipe * STOPS, features=form == "features")

    def run(rows: np.ndarray) -> tuple[list[int], list[int], str | None]:
        x, y = sample.x[rows], sample.y[rows]
        bound = learner.bind(x, y)
        picked = pick(bound, x, y, learner.groups)
        return rows[picked.picks].tolist(), sorted(rows[picked.errors].tolist()), bound.digest()

    rng = np.random.default_rng(recipe)
    picks, errors, digest = run(np.arange(len(sample)))
    others = np.setdiff1d(np.arange(len(sample)), picks + errors)
    assert len(others) > 20
    gone = rng.choice(others, len(others) // 2, replace=False)
    kept = np.setdiff1d(np.arange(len(sample)), gone)
    assert run(rng.permutation(kept)) == (picks, errors, digest)
    assert run(np.array(picks + errors)) == (picks, errors, digest)

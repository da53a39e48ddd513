"""A scikit-learn classifier gets the numbers of the data: uint8 undivided, unless constants say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import cushion
from cushion.certificates.answers import answer, score
from cushion.nets.batches import as_batch, as_bytes, was_bytes
from cushion.nets.classifier import as_module, normalised

DIGITS = load_digits()
X, Y = (DIGITS.data * 15).astype(np.uint8), DIGITS.target
M = 600
TRAIN, TEST = (X[:M], Y[:M]), (X[1000:1400], Y[1000:1400])


@pytest.fixture(scope="module")
def forest() -> Any:
    """It has learned every row of its sample."""
    return RandomForestClassifier(20, bootstrap=False, random_state=0).fit(*TRAIN)


def test_every_byte_comes_back() -> None:
    every = np.arange(256, dtype=np.uint8)[None]
    batch = as_batch(every)
    assert isinstance(batch, torch.Tensor)
    assert was_bytes(batch)
    assert np.array_equal(as_bytes(batch).numpy(), every)
    assert not was_bytes(as_batch(every.astype(np.float32)))
    assert not was_bytes(as_batch(every.astype(np.int64)))
    assert not was_bytes(None)


def test_measure_margins_and_bounds_ask_it_as_it_was_fitted(forest: Any) -> None:
    assert cushion.measure(forest, TRAIN).net.errors == 0
    assert (cushion.margins(forest, TRAIN) > 0).all()
    table = cushion.bounds(forest, TRAIN, holdout=TEST)
    wrong = int((forest.predict(TEST[0]) != TEST[1]).sum())
    assert 0 < wrong < 100
    assert table.holdout_errors is not None
    assert wrong <= table.holdout_errors <= wrong + 20  # ties are errors


def test_its_scores_are_predict_proba_of_the_very_rows(forest: Any) -> None:
    assert np.array_equal(score(forest, TEST[0]).numpy(), forest.predict_proba(TEST[0]))
    pictures = TEST[0].reshape(-1, 1, 8, 8)
    assert np.array_equal(score(forest, pictures).numpy(), forest.predict_proba(TEST[0]))
    floats = TEST[0].astype(np.float32)
    assert np.array_equal(score(forest, floats).numpy(), forest.predict_proba(TEST[0]))


def test_a_classifier_that_was_wrapped_before_is_asked_by_its_data(forest: Any) -> None:
    """What `load_net` made with a shape alone, or on rows of floats."""
    for rows in (None, torch.zeros(2, 64)):
        wrapped = as_module(forest, rows, classes=10)
        assert cushion.measure(wrapped, TRAIN).net.errors == 0


def test_certify_and_verify_replay_it(forest: Any, tmp_path: Path) -> None:
    fresh = X[1400:]
    made = cushion.certify(forest, TRAIN, unlabelled=fresh, kind="occam", minutes=0.02)
    path = made.save(tmp_path / "f.cushion")
    verdict = cushion.verify(path, TRAIN, unlabelled=fresh, model=forest)
    assert "transfer" in verdict.replayed
    assert "NOT checked" not in str(verdict)
    assert "Claimed about f, NOT checked" in str(cushion.verify(path, TRAIN))


def test_constants_go_on_from_the_division() -> None:
    mean, std = 0.3, 0.4
    read = (X[:M].astype(np.float32) / 255 - np.float32(mean)) / np.float32(std)
    fitted = LogisticRegression(max_iter=50).fit(read, Y[:M])
    behind = normalised(fitted, mean, std, (64,))
    assert np.array_equal(answer(behind, X[:M], classes=10).classes, fitted.predict(read))
    wrong = int((fitted.predict(read) != Y[:M]).sum())
    assert cushion.measure(fitted, TRAIN, normalise=(mean, std)).net.errors == wrong

"""certify() takes nets in any precision, fitted classifiers, and arrays wherever data are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.certificates.test_integer_search import blobs
from tests.clock import Clock

import cushion
from cushion.certificates.answers import answer, score, teacher_scores
from cushion.certificates.format.claims import Answers
from cushion.data.inputs import Inputs
from cushion.errors import BadInput


def linear(dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_net_of_any_precision_is_imitated_and_bounded(
    tmp_path: Path, clock: Clock, dtype: torch.dtype
) -> None:
    model, data, fresh = linear(dtype), blobs(), blobs(100, seed=1)
    certificate = cushion.certify(model, data, unlabelled=fresh, kind="occam", minutes=0.02)
    assert certificate.about == "f"
    path = certificate.save(tmp_path / "f.cushion")

    def answering(inputs: Inputs) -> Answers:
        return answer(model, inputs.x, classes=3)

    assert cushion.verify(path, data, unlabelled=fresh, answering=answering).ok
    scores = score(model, data.x).double().abs().amax(dim=1)
    coarse = 1e-4 if dtype == torch.float64 else 0.03  # how far machines may differ
    claim: Any = certificate.claim
    tolerance = float(claim.transfer.tolerance)
    assert tolerance == pytest.approx(coarse * float(scores.median()), rel=0.1)
    assert model[1].weight.dtype == dtype  # type: ignore[index]


def test_a_fitted_classifier_is_imitated(clock: Clock) -> None:
    data, fresh = blobs(), blobs(100, seed=1)
    fitted = LogisticRegression().fit(data.x.reshape(200, -1), data.y)
    certificate = cushion.certify(fitted, data, unlabelled=fresh, kind="occam", minutes=0.02)
    assert certificate.claim.made_with["imitates_a_model"] is True
    assert certificate.claim.transfer.net_fingerprint == (  # type: ignore[union-attr]
        answer(fitted, data.x, classes=3).net_fingerprint
    )


def test_verify_numbers_a_classifier_s_classes_as_certify_does(
    tmp_path: Path, clock: Clock
) -> None:
    """One that knows classes 0 and 2 of three, and one that knows more names than the data hold."""
    data, fresh = blobs(), blobs(100, seed=1)
    x, some = data.x.reshape(200, -1), data.y != 1
    fitted = LogisticRegression().fit(x[some], data.y[some])
    path = cushion.certify(fitted, data, unlabelled=fresh, kind="occam", minutes=0.02).save(
        tmp_path / "f"
    )
    assert "transfer" in cushion.verify(path, data, unlabelled=fresh, model=fitted).replayed
    names = np.array(["cat", "dog", "eel"])
    named = LogisticRegression().fit(x, names[data.y])
    held = cushion.Dataset(data.x[data.y > 0], names[data.y[data.y > 0]])
    assert held.labels == ("dog", "eel")
    errors = teacher_scores(named, held).argmax(dim=1).numpy() != held.y
    assert errors.mean() == (named.predict(x[data.y > 0]) != names[data.y[data.y > 0]]).mean()
    path = cushion.certify(named, held, unlabelled=fresh, kind="occam", minutes=0.02).save(
        tmp_path / "n"
    )
    assert "transfer" in cushion.verify(path, held, unlabelled=fresh, model=named).replayed
    with pytest.raises(cushion.BadInput, match="`model` and `answering` both say"):
        cushion.verify(path, held, unlabelled=fresh, model=named, answering=lambda _: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("as_given", [lambda a: a, torch.from_numpy], ids=["arrays", "tensors"])
def test_arrays_and_tensors_are_data_everywhere(clock: Clock, as_given: Any) -> None:
    data, held, fresh = blobs(), blobs(80, seed=1), blobs(90, seed=2)
    certificate = cushion.certify(
        linear(torch.float32),
        (as_given(data.x), as_given(data.y)),
        holdout=(as_given(held.x), as_given(held.y)),
        unlabelled=as_given(fresh.x),
        kind="occam",
        minutes=0.02,
    )
    claim: Any = certificate.claim
    assert claim.data_fingerprint == data.fingerprint
    assert (claim.holdout.m, claim.transfer.m) == (80, 90)


def test_held_out_rows_of_the_sample_are_refused_as_a_pair_too() -> None:
    data = blobs()
    with pytest.raises(BadInput, match="not held out"):
        cushion.certify(None, data, holdout=(data.x[:50], data.y[:50]), minutes=0.02)

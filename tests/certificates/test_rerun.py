"""cushion.verify with a backbone and with a fit: recomputed here, given, or refused."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificates import user_fit as trainings
from tests.certificates.test_features import HELD_OUT, SAMPLE
from tests.nets.test_backbones import own_file
from tests.picks_cases import blobs

import cushion
import cushion_verify
from cushion.certificates.features import BackboneOptions, see
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.run import NetCertificate, certify_fit
from cushion.errors import BadInput

FIT = f"{trainings.__file__}:fit"


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackboneOptions:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    code, weights = own_file(tmp_path)
    return BackboneOptions(backbone=f"{code}:make", weights=weights, slack=2)


@pytest.fixture
def on_features(tmp_path: Path, options: BackboneOptions) -> Path:
    how = {"kind": "occam", "method": "subspace", "steps": 3, "holdout": HELD_OUT}
    return cushion.certify(None, SAMPLE, backbone=options, **how).save(tmp_path / "b.cushion")


def test_features_are_recomputed_and_the_verdict_is_conditional(
    on_features: Path, options: BackboneOptions
) -> None:
    named = {"backbone": options.backbone, "backbone_weights": options.weights}
    verdict = cushion.verify(on_features, SAMPLE, HELD_OUT, **named)
    assert verdict.ok
    assert verdict.replayed == {"sample", "holdout"}
    assert verdict.given == []
    assert "mine.py:make" in verdict.conditional[0]
    assert "on condition that mine.py:make" in str(verdict)


def test_features_may_be_given(on_features: Path, options: BackboneOptions, tmp_path: Path) -> None:
    made = see(options, SAMPLE).sample(SAMPLE).x
    np.save(tmp_path / "f.npy", made)
    for features in (made, tmp_path / "f.npy", str(tmp_path / "f.npy")):
        verdict = cushion.verify(on_features, SAMPLE, HELD_OUT, features=features)
        assert verdict.ok
        assert verdict.replayed == {"sample"}
        assert verdict.given == ["the backbone's features"]


def test_features_that_give_more_errors_are_not_ok(
    on_features: Path, options: BackboneOptions
) -> None:
    made = see(options, SAMPLE).sample(SAMPLE).x
    verdict = cushion.verify(on_features, SAMPLE, features=255 - made)
    assert not verdict.ok
    assert "errors on the examples" in verdict.reason


def test_what_does_not_go_together_is_refused(
    on_features: Path, options: BackboneOptions, tmp_path: Path
) -> None:
    (tmp_path / "no.npy").write_bytes(b"no")
    plain = cushion.certify(None, SAMPLE, method="subspace", steps=2).save(tmp_path / "p.cushion")
    made = see(options, SAMPLE).sample(SAMPLE).x
    for path, more, said in (
        (on_features, {}, "give `backbone`"),
        (on_features, {"features": tmp_path / "no.npy"}, "must be an .npy file of bytes"),
        (on_features, {"features": made, "backbone": options.backbone}, "give one"),
        (on_features, {"features": made[:, 1:]}, "12 bytes for each of the rows"),
        (plain, {"features": made}, "says nothing about a backbone"),
        (plain, {"backbone": options.backbone}, "says nothing about a backbone"),
        (plain, {"fit": FIT}, "not about a net of your own fit"),
    ):
        with pytest.raises(BadInput, match=said):
            cushion.verify(path, SAMPLE, **more)
    with pytest.raises(BadInput, match="give `data` as well"):
        cushion.verify(plain, None, fit=FIT)


def of_fit(**more: Any) -> NetCertificate:
    how = PicksOptions(groups=(20, 20, 20))
    return certify_fit(trainings.fit, SAMPLE, Decimal("0.05"), how, **more)


def test_a_fit_is_trained_again(tmp_path: Path) -> None:
    path = of_fit(holdout=HELD_OUT).save(tmp_path / "f.cushion")
    verdict = cushion.verify(path, SAMPLE, HELD_OUT, fit=FIT)
    assert verdict.ok, verdict
    assert verdict.replayed == {"sample", "holdout"}
    assert verdict.warnings == []
    assert verdict.given == []
    same = "Trained again here, every round came out the same; the last net has the same numbers."
    assert same in str(verdict)


def test_a_fit_that_comes_out_otherwise_is_not_ok_and_it_is_said_where(tmp_path: Path) -> None:
    certificate = of_fit()
    words = np.frombuffer(certificate.message, "<u4").copy()
    left = np.setdiff1d(np.arange(len(SAMPLE)), words)
    words[25] = left[0]  # another row in the second round
    other = dataclasses.replace(certificate, message=words.tobytes())
    verdict = cushion.verify(other.save(tmp_path / "f.cushion"), SAMPLE, fit=FIT)
    assert not verdict.ok
    assert "first differs in round 2: 1 of its 20 rows" in verdict.warnings[0]


def test_the_rounds_of_a_fit_may_be_given(tmp_path: Path) -> None:
    from cushion.certificates.rerun import rounds_again

    path = of_fit().save(tmp_path / "f.cushion")
    rounds = rounds_again(path, FIT, SAMPLE, None).given["rounds"]
    given = cushion_verify.Given(x=SAMPLE.x, y=SAMPLE.y, rounds=rounds)
    verdict = cushion_verify.check(path, given)
    assert verdict.ok, verdict
    assert len(verdict.given) == 1


def test_other_rows_are_not_trained_on(tmp_path: Path) -> None:
    path = of_fit().save(tmp_path / "f.cushion")
    trainings.CALLS.clear()
    verdict = cushion.verify(path, HELD_OUT, fit=trainings.fit)
    assert not verdict.ok
    assert trainings.CALLS == []


def test_a_net_with_other_numbers_but_the_same_rounds_is_said_and_not_refused(
    tmp_path: Path,
) -> None:
    certificate = of_fit()
    claim = dataclasses.replace(certificate.claim, coefficients="a" * 64)
    other = dataclasses.replace(certificate, claim=claim)
    verdict = cushion.verify(other.save(tmp_path / "f.cushion"), SAMPLE, fit=FIT)
    assert verdict.ok
    assert "the last net has other numbers but the same answers" in verdict.warnings[0]


def test_a_net_that_exists_is_bounded_through_the_picks_classifier(tmp_path: Path) -> None:
    net = of_fit(seed=3).net  # any net would do
    inputs = blobs(400, 8).x
    how = {"kind": "picks", "unlabelled": inputs, "holdout": HELD_OUT}
    certificate = cushion.certify(net, SAMPLE, **how)
    assert certificate.about == "f"
    path = certificate.save(tmp_path / "t.cushion")
    verdict = cushion.verify(path, SAMPLE, HELD_OUT, model=net, unlabelled=inputs)
    assert verdict.ok, verdict
    assert verdict.replayed == {"sample", "holdout", "transfer"}
    with pytest.raises(BadInput, match="give both `model` and `unlabelled`"):
        cushion.certify(net, SAMPLE, kind="picks")

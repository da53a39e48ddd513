"""Certificates of kind picks: what they state, their words, their bytes."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.picks_cases import NearestMean, blobs

import cushion
from cushion.certificates.certificate import Certificate, sentence
from cushion.certificates.features import Seen
from cushion.certificates.format.claims import Answers, Features, PicksClaim, assumptions_of
from cushion.certificates.format.container import pack, unpack
from cushion.certificates.picks import certificate as module
from cushion.certificates.picks.certificate import certify_picks, state, train
from cushion.certificates.transfer import transfer
from cushion.data.inputs import Inputs
from cushion.errors import BadInput, Malformed
from cushion.theorems.occam import holdout_bound
from cushion.theorems.picks import picks_bound

DELTA = Decimal("0.05")
SAMPLE, HELD_OUT = blobs(200, 0), blobs(90, 1)
BACKBONE = Features("lite", "a" * 64, None, 128, "bilinear", 0, 16, 6, 0)


def made(**more: Any) -> Certificate:
    how = {"configuration": 3, "choices": 64, **more}
    return certify_picks(NearestMean(), SAMPLE, DELTA, **how)


def claim_of(certificate: Certificate) -> PicksClaim:
    assert isinstance(certificate.claim, PicksClaim)
    return certificate.claim


def test_a_certificate_states_the_bound_of_picks_and_errors() -> None:
    certificate = made()
    claim, trained = claim_of(certificate), train(NearestMean(), SAMPLE)
    assert (claim.kind, claim.about, claim.m) == ("picks", "g", 200)
    assert claim.picks == len(trained.picked.picks)
    assert claim.errors == len(trained.picked.errors) > 0
    assert claim.stated == claim.picks + claim.errors
    assert claim.bound == picks_bound(claim.stated, 200, DELTA, 64)
    assert claim.coefficients == trained.bound.digest()
    assert (claim.configuration, claim.choices, claim.slack) == (3, 64, 0)
    assert certificate.message == trained.picked.message
    assert len(certificate.message) == 4 * claim.stated
    assert claim.assumptions == assumptions_of("picks", holdout=False)
    assert certificate.bits == 0


def test_slack_is_paid_like_errors() -> None:
    trained = train(NearestMean(), SAMPLE)
    seen = Seen(BACKBONE, lambda inputs: inputs.x, 7)
    claim = claim_of(state(trained, SAMPLE, DELTA, seen=seen))
    assert claim.stated == claim.picks + claim.errors + 7
    assert claim.bound == picks_bound(claim.stated, 200, DELTA)
    assert [(item.item, item.count) for item in claim.ledger] == [
        ("picks", claim.picks),
        ("errors", claim.errors),
        ("slack", 7),
        ("choices", 1),
    ]
    assert claim.assumptions == assumptions_of("picks", holdout=False, features=True)
    assert "independent of the data that it was trained on" in claim.assumptions[4]


def test_features_are_what_the_learner_reads_and_rows_keep_the_order_of_x() -> None:
    features = (SAMPLE.x[:, 0, :, :2] // 2).astype(np.uint8)
    learner = NearestMean()
    there = train(learner, SAMPLE, features)
    again = train(learner, dataclasses.replace(SAMPLE, x=SAMPLE.x), features)
    assert there.picked.message == again.picked.message
    assert there.picked.message != train(learner, SAMPLE).picked.message
    # the first round takes the first rows whatever the learner reads
    assert there.picked.picks[:5].tolist() == train(learner, SAMPLE).picked.picks[:5].tolist()


def test_the_hold_out_line_pays_for_its_looks() -> None:
    claim = claim_of(made(holdout=HELD_OUT, looks=4))
    line = claim.holdout
    assert line is not None
    missed = int((train(NearestMean(), SAMPLE).bound.classify(HELD_OUT.x) != HELD_OUT.y).sum())
    assert (line.errors, line.m, line.looks, line.delta) == (missed, 90, 4, "0.05")
    assert line.bound == holdout_bound(missed, 90, Decimal("0.0125"))
    assert line.bound > holdout_bound(missed, 90, DELTA)
    assert claim.assumptions == assumptions_of("picks", holdout=True)


def test_held_out_rows_of_the_sample_are_refused() -> None:
    with pytest.raises(BadInput, match="not held out"):
        made(holdout=SAMPLE)


def test_the_file_reads_back_as_it_was_written() -> None:
    certificate = made(holdout=HELD_OUT)
    claim, message = unpack(pack(certificate.claim, certificate.message))
    assert claim == certificate.claim
    assert message == certificate.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("about", "Q"),
        ("picks", "3"),
        ("picks", True),
        ("fit", {"source": "a" * 64}),
        ("features", {}),
        ("holdout", {"errors": 1}),
        ("ledger", [{"item": "picks", "bits": 0, "meaning": ""}]),
        ("choices", None),
    ],
)
def test_a_strange_field_is_malformed(key: str, value: Any) -> None:
    certificate = made()

    class Strange:
        def to_json(self) -> dict[str, Any]:
            return certificate.claim.to_json() | {key: value}

    with pytest.raises(Malformed, match=key):
        unpack(pack(Strange(), certificate.message))  # type: ignore[arg-type]


def test_a_message_may_be_longer_than_that_of_other_kinds_but_not_without_end() -> None:
    claim = made().claim
    assert unpack(pack(claim, bytes(2**24)))[1] == bytes(2**24)
    with pytest.raises(Malformed, match="does not fit"):
        unpack(pack(claim, bytes(2**24 + 4)))


def test_messages_of_other_kinds_stay_as_short_as_they_were() -> None:
    other = cushion.certify(None, SAMPLE, method="subspace", steps=2).claim
    assert unpack(pack(other, bytes(2**19)))[1] == bytes(2**19)
    with pytest.raises(Malformed, match="too long for a certificate of its kind"):
        unpack(pack(other, bytes(2**19 + 1)))


def test_every_assumption_stands_in_the_format() -> None:
    page = (Path(__file__).parents[2] / "FORMAT.md").read_text(encoding="utf-8")
    section = " ".join(page[page.index("### 10.5") : page.index("## 11.")].split())
    for about_f in (False, True):
        how = {"holdout": True, "fit": True, "features": True, "transfer": about_f}
        found = assumptions_of("picks", **how)
        assert len(found) == (11 if about_f else 8)
        for sentence_ in found[:8]:
            assert sentence_ in section
    assert len(assumptions_of("picks", holdout=False)) == 4
    assert len(assumptions_of("picks", holdout=False, fit=True)) == 5
    assert len(assumptions_of("picks", holdout=True)) == 6
    assert len(assumptions_of("occam", holdout=True)) == 5


def test_more_rows_than_a_message_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    with pytest.raises(BadInput, match="more than a certificate holds"):
        made()


def test_the_words_say_what_was_made_of_how_many_rows() -> None:
    claim = claim_of(made())
    said = sentence(claim)
    assert f"this classifier, made of {claim.picks} of them, errs on at most" in said
    assert "95 % over the draw of these 200 examples" in said
    backed = dataclasses.replace(claim, features=BACKBONE)
    assert "on features of lite" in sentence(backed)
    assert sentence(dataclasses.replace(claim, bound="1.000000")).startswith("Vacuous: ")


def test_unlabelled_inputs_bound_a_net_beside_it() -> None:
    certificate = made()
    inputs = Inputs("blobs", blobs(60, 9).x)
    classes = train(NearestMean(), SAMPLE).bound.classify(inputs.x)
    answers = Answers("b" * 64, np.where(np.arange(60) < 5, 9, classes), np.ones(60))
    both = transfer(certificate, inputs, answers, Decimal("0.1"), Decimal("0.01"), classes)
    line = claim_of(both).transfer
    assert line is not None
    assert line.disagreements == 5 + int((classes[5:] < 0).sum())
    total = min(Decimal(1), Decimal(claim_of(both).bound) + Decimal(line.bound))
    assert Decimal(line.bound_f) == total
    assert both.about == "f"
    assert claim_of(both).assumptions == assumptions_of("picks", holdout=False, transfer=True)
    assert "your net f" in str(both)
    assert "g, the classifier made of" in str(both)

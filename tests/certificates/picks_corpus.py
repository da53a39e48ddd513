"""Files of kind picks: listed learners on tables, pictures and features, and the user's training.

Every file has a few dozen rows; what is altered is altered together with the ledger and the bound,
so that only what it is named for is wrong with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.certificates import user_learner
from tests.certificates.case import DELTA, Case, altered, less
from tests.certificates.samples import sample
from tests.certificates.user_net import f

from cushion.certificates.answers import answer
from cushion.certificates.certificate import Certificate
from cushion.certificates.features import Seen
from cushion.certificates.format.claims import Features, PicksClaim
from cushion.certificates.picks.certificate import train
from cushion.certificates.picks.configurations import learner_for
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.replay import replay_fit
from cushion.certificates.picks.run import certify_by_list, certify_fit
from cushion.certificates.transfer import transfer
from cushion.data.inputs import Inputs
from cushion.theorems.occam import holdout_bound
from cushion.theorems.picks import picks_bound

HELD = "halves held out"
BACKBONE = Features("halves.py:net", "a" * 64, "b" * 64, 0, "bilinear", 0, 6, 0, 0)
GROUPS = (10, 10, 10)


@cache
def by_list(
    data: str, number: int, holdout: bool = False, looks: int = 1, delta: Decimal = DELTA
) -> Certificate:
    """With learner `number` of the frozen list."""
    held = sample(HELD) if holdout else None
    options = PicksOptions(configuration=number, looks=looks)
    return certify_by_list(sample(data), delta, options, holdout=held)[0]


@cache
def by_features() -> Certificate:
    """With the listed learner of features, six bytes that nobody has to compute again."""
    made = {sample(name).x.tobytes(): sample(f"{name} features").x for name in ("halves", HELD)}
    seen = Seen(BACKBONE, lambda inputs: made[inputs.x.tobytes()], None)
    options, held = PicksOptions(configuration=112, tried=2, looks=2), sample(HELD)
    return certify_by_list(sample("halves"), DELTA, options, seen=seen, holdout=held)[0]


@cache
def by_fit(holdout: bool = False) -> Certificate:
    """With the training in `user_learner`, the second version that was tried."""
    options = PicksOptions(groups=GROUPS, tried=2)
    held = sample(HELD) if holdout else None
    return certify_fit(user_learner.fit, sample("halves"), DELTA, options, holdout=held)


@cache
def moved() -> Certificate:
    """A table's classifier, and the bound on f beside it."""
    data, fresh = sample("halves"), sample("halves unlabelled")
    plain, inputs = by_list("halves", 80, delta=Decimal("0.04")), Inputs(fresh.name, fresh.x)
    classes = train(learner_for(data, 80), data).bound.classify(fresh.x)
    said = answer(f(), fresh.x)
    return transfer(plain, inputs, said, Decimal("0.001"), Decimal("0.01"), classes)


def classes_by_fit(certificate: Certificate) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[R + 1, m] after each round, and [n] of the held-out rows."""
    claim = claim_of(certificate)
    made = replay_fit(claim, certificate.message, user_learner.fit, sample("halves"), sample(HELD))
    assert made.holdout is not None
    return made.rounds, made.holdout


def claim_of(certificate: Certificate) -> PicksClaim:
    assert isinstance(certificate.claim, PicksClaim)
    return certificate.claim


def restated(certificate: Certificate, rows: Any = None, **changes: Any) -> bytes:
    """The file with other rows (picks, errors) or numbers, and the ledger and bound of these."""
    claim, message = claim_of(certificate), certificate.message
    if rows is not None:
        picks, errors = rows
        changes = {"picks": len(picks), "errors": len(errors), **changes}
        message = np.array([*picks, *errors], "<u4").tobytes()
    claim = dataclasses.replace(claim, **changes)
    paid = tuple(
        dataclasses.replace(item, count=getattr(claim, item.item)) for item in claim.ledger
    )
    if "bound" not in changes:
        least = picks_bound(claim.stated, claim.m, Decimal(claim.delta), claim.choices)
        claim = dataclasses.replace(claim, bound=least)
    kept = {key: getattr(claim, key) for key in (*changes, "bound")}
    return altered(certificate, message, **{**kept, "ledger": paid})


def rows_of(certificate: Certificate) -> tuple[list[int], list[int]]:
    words = np.frombuffer(certificate.message, "<u4").tolist()
    picks = claim_of(certificate).picks
    return words[:picks], words[picks:]


def _case(name: str, content: bytes, verdict: str, why: str, **more: Any) -> Case:
    level = {"ok": "replay", "not ok": "message"}.get(verdict)
    return Case(f"picks-{name}", content, verdict, why=why, **{"level": level, **more})


def picks_cases() -> Iterator[Case]:
    plain, held, seen = by_list("halves", 80), by_list("halves", 80, True, 3), by_features()
    own, both = by_fit(), by_fit(holdout=True)
    for name, data, number, why in (
        ("table", "halves", 80, "rows too small for pictures; the file that most others alter"),
        ("table-floats", "table", 96, "a table of floats, smoother"),
        ("stripes", "stripes", 0, "grey pictures"),
        ("stripes-mirrored", "stripes", 16, "grey pictures and their mirror images"),
        ("stripes-moved", "stripes", 32, "grey pictures, moved a little"),
        ("colour", "colour stripes", 64, "colour pictures"),
    ):
        yield _case(name, altered(by_list(data, number)), "ok", why, data=data)
    yield _case("holdout", altered(held), "ok", "a hold-out line of three looks", holdout=HELD)
    more = {"unlabelled": "halves unlabelled", "net": "f"}
    yield _case("transfer", altered(moved()), "ok", "with the bound on f, replayed", **more)
    given = {"features": "halves features"}
    yield _case("features", altered(seen), "ok", "features that are taken as given", **given)
    yield _case("fit", altered(own), "ok", "the user's own training", fit="fit")
    why = "the user's own training, and a hold-out line"
    yield _case("fit-holdout", altered(both), "ok", why, fit="fit", holdout=HELD)
    why = "a bound above what is implied is true all the more"
    yield _case("bound-weaker", restated(plain, bound="0.999"), "ok", why)
    yield _case("tried-more", restated(own, choices=2**40), "ok", "more is paid", fit="fit")
    why = "choices of a training are a count that nobody can check: the second assumption"
    yield _case("tried-not-said", restated(own, choices=1), "ok", why, fit="fit")
    yield from _other_rows(plain, seen, own)
    yield from _other_numbers(plain, held, seen, own)
    yield from _malformed(plain, seen, own)


def _other_rows(plain: Certificate, seen: Certificate, own: Certificate) -> Iterator[Case]:
    picks, errors = rows_of(plain)
    free = min({*range(200)} - {*picks, *errors})
    for name, rows, why in (
        ("errors-one-less", (picks, errors[1:]), "a row that is wrong is not named"),
        ("pick-swapped", ([*picks[:5], free, *picks[6:]], errors), "another row was picked"),
        ("picks-in-another-order", ([*picks[1::-1], *picks[2:]], errors), "the first two swapped"),
        ("pick-as-error", (picks[:-1], sorted([*errors, picks[-1]])), "it was picked"),
        ("error-added", (picks, sorted([*errors, free])), "a row that is right"),
        ("nothing-picked", ([], []), "a learner that needs no rows"),
    ):
        yield _case(name, restated(plain, rows), "not ok", why)
    picks, errors = rows_of(seen)
    content, why = restated(seen, (picks, errors[1:]), slack=0), "more is counted than stated"
    yield _case("features-fewer", content, "not ok", why, features="halves features")
    picks, errors = rows_of(own)
    content, why = restated(own, (picks, errors[1:])), "a row that is wrong is not named"
    yield _case("fit-errors-one-less", content, "not ok", why, fit="fit")


def _other_numbers(
    plain: Certificate, held: Certificate, seen: Certificate, own: Certificate
) -> Iterator[Case]:
    none: dict[str, Any] = {"level": "none"}
    small = restated(plain, bound=less(plain.claim.bound))
    yield _case("bound-one-step-smaller", small, "not ok", "the counts imply more", **none)
    content, why = restated(own, choices=4, bound=own.claim.bound), "four choices cost more"
    yield _case("choices-unpaid", content, "not ok", why, fit="fit", **none)
    slack = restated(seen, slack=9, bound=seen.claim.bound)
    more = {"features": "halves features", **none}
    yield _case("slack-unpaid", slack, "not ok", "slack costs as errors do", **more)
    first, *rest = claim_of(plain).ledger
    paid = (dataclasses.replace(first, count=first.count - 1), *rest)
    content, why = altered(plain, ledger=paid), "the ledger is another"
    yield _case("ledger-count", content, "not ok", why, level="arithmetic")
    yield _case("coefficients", altered(plain, coefficients="0" * 64), "not ok", "of another net")
    why = "the rows are those of another learner"
    yield _case("other-configuration", altered(plain, configuration=96), "not ok", why)
    why = "a learner of pictures, and the rows are none"
    yield _case("other-form", altered(plain, configuration=0), "not ok", why)
    yield _case("more-classes", altered(plain, classes=3), "not ok", "codes of three classes")
    line = claim_of(held).holdout
    assert line is not None
    fewer = dataclasses.replace(line, errors=line.errors - 1)
    why = "it errs on more held-out rows than stated"
    yield _case("holdout-fewer", altered(held, holdout=fewer), "not ok", why, holdout=HELD)
    free = dataclasses.replace(line, bound=holdout_bound(line.errors, line.m, DELTA))
    content, why = altered(held, holdout=free), "three looks cost more than one"
    yield _case("holdout-looks-unpaid", content, "not ok", why, holdout=HELD, **none)


def _malformed(plain: Certificate, seen: Certificate, own: Certificate) -> Iterator[Case]:
    picks, errors = rows_of(plain)
    fit = claim_of(own).fit
    assert fit is not None
    vast = dataclasses.replace(fit, groups=(1,) * 1001)
    for name, content, why in (
        ("row-twice", restated(plain, ([picks[1], *picks[1:]], errors)), "a row named twice"),
        ("row-beyond", restated(plain, (picks, [*errors[:-1], 200])), "rows count from 0"),
        ("errors-descend", restated(plain, (picks, errors[::-1])), "errors ascend"),
        ("message-cut", altered(plain, plain.message[:-4]), "a row is missing"),
        ("message-half-a-row", altered(plain, plain.message + b"\0\0"), "rows have four bytes"),
        ("choices-one", restated(plain, choices=1), "the whole list is paid"),
        ("choices-more", restated(plain, choices=256), "without features there is one list"),
        ("choices-between", restated(seen, choices=200), "whole lists are paid"),
        ("slack", restated(plain, slack=1), "slack is for features"),
        ("about", restated(plain, about="f"), "it is about g"),
        ("fit-configuration", restated(own, configuration=1), "a fit is not of the list"),
        ("fit-groups", restated(own, fit=vast), "at most a thousand rounds"),
        ("configuration-beyond", altered(plain, configuration=128), "the list has 128"),
        ("learner-as-fit", restated(plain, fit=fit), "about f, and it assumes another thing"),
    ):
        yield _case(name, content, "malformed", why)

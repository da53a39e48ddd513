"""Files of kind holdout: the user's net f on the held-out halves, with and without a look."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.certificates.case import DELTA, Case, altered, less
from tests.certificates.samples import sample
from tests.certificates.user_net import f
from tests.holdout_cases import chained

from cushion.certificates.answers import score
from cushion.certificates.certificate import Certificate
from cushion.certificates.certify import certify
from cushion.certificates.format.holdout_claim import HoldoutClaim, Look
from cushion.certificates.holdout.certificate import _first_use, _of_look
from cushion.certificates.holdout.counting import RELATIVE_TOLERANCE, scored
from cushion.certificates.holdout.grid import counts
from cushion.certificates.holdout.ledger import Ledger, Past, Request, parse_ledger
from cushion.certificates.holdout.lines import Asked, tell
from cushion.certificates.holdout.shares import share_delta

ROWS = "halves held out"
ASKED: dict[str, Any] = {"per_class": True, "top_k": 1, "selective": "0.25"}


@cache
def first_use(every_line: bool = False) -> Certificate:
    held = sample(ROWS)
    plain = certify(f(), None, holdout=held, kind="holdout")
    if not every_line:
        return plain
    claim = claim_of(plain)
    # of two classes there is no other top-k line; nobody may ask for it, but the format has it
    asked = Request(claim.net_fingerprint, claim.program, claim.tolerance, Asked(**ASKED))
    return _first_use(f(), held, asked, DELTA, {})


@cache
def look() -> Certificate:
    """The third look of a ledger that told 12 bits before."""
    held, claim = sample(ROWS), claim_of(first_use())
    asked = Asked(**{**ASKED, "selective": "0.6"})
    request = Request(claim.net_fingerprint, claim.program, claim.tolerance, asked)
    this, shares = Look(3, 12, "0" * 64), share_delta(DELTA, 2, True, True)
    rows = scored(score(f(), held.x).numpy(), held.y, RELATIVE_TOLERANCE)
    told = tell(rows, request.asked, 2, shares, this, None)
    assert told is not None
    ledger = Ledger(Path("H.looks"), ROWS, held.fingerprint, len(held), 2, DELTA, ())
    return _of_look(ledger, Past(this, request, "counted", told, 0), {})


@cache
def looks() -> bytes:
    """A ledger: a net that erred on at most 30 rows, one that was no better, and then f."""
    return chained(_looked())


def _looked() -> list[dict[str, Any]]:
    held, claim = sample(ROWS), claim_of(first_use())
    asked, shares = Asked(**{**ASKED, "selective": "0.6"}), share_delta(DELTA, 2, True, True)
    first = 1 + (len(counts(len(held))) - 1).bit_length()
    rows = scored(score(f(), held.x).numpy(), held.y, RELATIVE_TOLERANCE)
    told = tell(rows, asked, 2, shares, Look(3, first + 1, ""), 30)
    assert told is not None
    plain = {"per_class": False, "top_k": None, "selective": None, "tolerance": "0.0001"}
    empty = {"errors": None, "rates": [], "chosen": None}
    opening = {"looks": 1, "data": ROWS, "data_fingerprint": held.fingerprint}
    said = {"net_fingerprint": claim.net_fingerprint, "program": claim.program}
    return [
        {**opening, "m": len(held), "classes": 2, "delta": format(DELTA, "f")},
        {"look": 1, "net_fingerprint": "1" * 64, "program": None, **plain},
        {"answer": 1, "said": "counted", **empty, "errors": 30, "bits": first},
        {"look": 2, "net_fingerprint": "2" * 64, "program": None, **plain},
        {"answer": 2, "said": "no better", **empty, "bits": 1},
        {"look": 3, **said, **asked.to_json(), "tolerance": claim.tolerance},
        {
            **{"answer": 3, "said": "counted", "errors": told.errors, "rates": list(told.rates)},
            **{"chosen": list(told.chosen or ()), "bits": told.bits(len(held), 30)},
        },
    ]


@cache
def look_of_ledger() -> Certificate:
    """The third look of `looks`."""
    ledger = parse_ledger(Path("H.looks"), looks())
    return _of_look(ledger, ledger.past[2], {})


def claim_of(certificate: Certificate) -> HoldoutClaim:
    assert isinstance(certificate.claim, HoldoutClaim)
    return certificate.claim


def _case(name: str, content: bytes, verdict: str, why: str, **more: Any) -> Case:
    level = {"ok": "replay", "not ok": "message"}.get(verdict)
    said: dict[str, Any] = {"data": ROWS, "net": "f", "level": level, **more}
    return Case(f"own-{name}", content, verdict, why=why, **said)


def holdout_cases() -> Iterator[Case]:
    plain, every, third = first_use(), first_use(True), look()
    yield _case("first-use", altered(plain), "ok", "f counted on rows that nobody looked at before")
    yield _case("every-line", altered(every), "ok", "classes, top-k and selective at shared δ")
    yield _case("look", altered(third), "ok", "ok on condition that its ledger confirms it")
    confirmed = look_of_ledger()
    why = "ok, and its ledger confirms what was told before it"
    yield _case("look-and-ledger", altered(confirmed), "ok", why, looks=ROWS)
    this = claim_of(confirmed).look
    assert this is not None
    free = _at(confirmed, dataclasses.replace(this, bits_before=this.bits_before - 1))
    why = "the ledger told a bit more than is paid"
    yield _case("look-bit-unpaid", free, "not ok", why, looks=ROWS)
    why = "look 4 has no answer in the ledger"
    later = _at(confirmed, dataclasses.replace(this, number=4))
    yield _case("look-unanswered", later, "not ok", why, looks=ROWS)
    errors = plain.claim.errors
    more = {"errors": errors + 1, "bound": "0.5"}
    yield _case("count-rounded-up", altered(plain, **more), "ok", "counted is at most stated")
    fewer = altered(plain, errors=errors - 1)
    yield _case("errors-one-less", fewer, "not ok", "f errs on more rows than stated")
    small = altered(plain, bound=less(plain.claim.bound))
    yield _case("bound-one-step-smaller", small, "not ok", "the count implies more", level="none")
    why = "the program of f is another, although its numbers are the same"
    yield _case("another-program", altered(plain), "not ok", why, net="same_numbers")
    yield _case("another-net", altered(plain), "not ok", "the numbers of f differ", net="other")
    why = "the same rows, and no more of them"
    yield _case("other-rows", altered(plain), "not ok", why, data="halves")
    yield from _false_lines(every, third)
    yield from _malformed(plain, every, third)


def _at(certificate: Certificate, look: Look) -> bytes:
    """The certificate of another look, its overall bound weakened to 1 and its ledger adapted."""
    (item,) = certificate.claim.ledger
    paid = (dataclasses.replace(item, bits=look.bits_before),)
    return altered(certificate, look=look, ledger=paid, bound="1.0")


def _false_lines(every: Certificate, third: Certificate) -> Iterator[Case]:
    claim = claim_of(every)
    first, *rest = claim.lines
    assert first.errors is not None
    changed = (dataclasses.replace(first, errors=first.errors - 1), *rest)
    yield _case("class-line", altered(every, lines=changed), "not ok", "a class line errs more")
    chosen = claim.selective
    assert chosen is not None
    assert chosen.refused
    assert chosen.m
    changed_one = dataclasses.replace(chosen, refused=chosen.refused - 1, m=chosen.m + 1)
    yield _case(
        "refusals", altered(every, selective=changed_one), "not ok", "f refuses more rows than that"
    )
    first, *rest = claim_of(third).lines
    told = (dataclasses.replace(first, bound="0.0001"), *rest)
    yield _case("look-line", altered(third, lines=told), "not ok", "what is counted implies more")


def _malformed(plain: Certificate, every: Certificate, third: Certificate) -> Iterator[Case]:
    chosen, this = claim_of(every).selective, claim_of(third).look
    assert chosen is not None
    assert this is not None
    first, *rest = claim_of(every).lines
    assert first.m
    two = dataclasses.replace(first, which=2)
    more = dataclasses.replace(first, m=first.m + 10**6)
    early = dataclasses.replace(this, number=this.bits_before + 2)
    off = dataclasses.replace(chosen, threshold="0.123")
    unpaid = dataclasses.replace(this, bits_before=0)
    counted = dataclasses.replace(claim_of(third).lines[0], errors=1, m=60)
    for name, content, why in (
        ("message", altered(plain, message=b"\0"), "there is no message"),
        ("share", altered(plain, delta_all="0.04"), "the shares sum to δ"),
        ("class-left-out", altered(every, lines=(two, *rest)), "all classes, in their order"),
        ("threshold", altered(every, selective=off), "a threshold outside the grid is a free one"),
        ("unpaid-look", altered(third, look=unpaid), "the ledger states the bits of the look"),
        ("look-with-counts", altered(third, lines=(counted, *claim_of(third).lines[1:])), "counts"),
        ("look-as-first-use", altered(third, look=None, ledger=()), "it assumes another thing"),
        ("tolerance", altered(plain, tolerance="0.0"), "the tolerance is above 0"),
        ("own-line", altered(plain, about="g"), "it is about f"),
        ("lines-of-more-rows", altered(every, lines=(more, *rest)), "the lines are about all rows"),
        ("look-without-past", altered(third, look=early), "every answer before costs a bit"),
    ):
        yield _case(name, content, "malformed", f"{why}")

"""Well-formed files that claim too much: each is not ok, at the level where the lie shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.certificates import nets
from tests.certificates.case import (
    DELTA,
    Case,
    altered,
    base,
    gaussian,
    less,
    transferred,
    version_before,
)
from tests.certificates.samples import noise, sample

from cushion.certificates.certificate import certify_net
from cushion.certificates.format.claims import Holdout
from cushion.certificates.format.message import encode
from cushion.certificates.pac_bayes import binomial_bound, certify_gaussian
from cushion.data.dataset import Dataset
from cushion.theorems.occam import holdout_bound, occam_bound

HELD, FRESH = "halves held out", "halves unlabelled"


def false_cases() -> Iterator[Case]:
    yield from _arithmetic()
    yield from _message()
    yield from _data()
    yield from _lines()
    yield from _transfers()
    yield from _posteriors()


def _no(
    name: str, content: bytes, level: str, why: str, data: str = "halves", **more: str | None
) -> Case:
    return Case(name, content, "not ok", level, why, data, **more)


def _arithmetic() -> Iterator[Case]:
    plain = base(holdout=True)
    claim, line = plain.claim, plain.claim.holdout
    assert line is not None
    unpaid = occam_bound(claim.errors, claim.m, claim.bits - 1, DELTA)
    yield _no(
        "bound-one-step-smaller",
        altered(plain, bound=less(claim.bound)),
        "none",
        "one millionth too small",
    )
    yield _no(
        "bound-training-error",
        altered(plain, bound="0.1"),
        "none",
        "the training error stated as the bound",
    )
    yield _no("bound-zero", altered(plain, bound="0.0"), "none", "a bound of zero")
    yield _no(
        "entropy-as-length",
        altered(plain, bound=unpaid),
        "none",
        "a bound for one bit less than the message has",
    )
    yield _no(
        "no-bits-paid",
        altered(plain, bound=holdout_bound(claim.errors, claim.m, DELTA)),
        "none",
        "no bit is paid",
    )
    yield _no(
        "minimum-of-two-lines",
        altered(plain, bound=line.bound),
        "none",
        "the hold-out line's bound as the certificate's",
    )
    smaller = dataclasses.replace(line, delta="0.01")
    yield _no(
        "delta-lowered",
        altered(plain, delta="0.01", holdout=smaller),
        "none",
        "a smaller δ than the bound was computed for",
    )
    yield _no(
        "sample-enlarged",
        altered(plain, m=10**7, bound=occam_bound(claim.errors, 10**7, claim.bits, DELTA)),
        "message",
        "ten million examples are claimed where there are 200",
        holdout=None,
    )
    seeded = certify_net(nets.masked(4711), sample("halves"), DELTA)
    free = encode(nets.masked(0)).bits
    cheap = occam_bound(seeded.claim.errors, 200, free, DELTA)
    yield _no(
        "seed-unpaid",
        altered(seeded, bound=cheap),
        "none",
        "a bound that leaves out what the seed costs",
    )
    long = certify_net(nets.long_net(), _wide(), DELTA)
    stuck = occam_bound(1200, 60000, 1075, DELTA)
    yield _no(
        "underflow",
        altered(long, m=60000, errors=1200, bound=stuck),
        "none",
        "δ·2^-bits taken as a float sticks near 2^-1075: about 5 % where the truth is about 8 %",
    )


def _wide() -> Dataset:
    """A sample that the long net can read; its rows do not matter, since the bound is false
    already.
    """
    x = noise("wide", 280).reshape(2, 1, 1, 140).astype("uint8")
    return Dataset("wide", x, noise("wide labels", 2) % 2, 2)


def _message() -> Iterator[Case]:
    plain = base()
    claim = plain.claim
    ledger = list(claim.ledger)
    moved = [
        dataclasses.replace(ledger[0], bits=ledger[0].bits + 1),
        dataclasses.replace(ledger[1], bits=ledger[1].bits - 1),
    ]
    opposite = encode(nets.difference(-1))
    assert opposite.bits == claim.bits
    yield _no(
        "ledger-short",
        altered(plain, ledger=tuple(ledger[:-1])),
        "arithmetic",
        "the ledger does not sum to the bits",
    )
    yield _no("ledger-empty", altered(plain, ledger=()), "arithmetic", "an empty ledger")
    yield _no(
        "ledger-moved",
        altered(plain, ledger=(*moved, *ledger[2:])),
        "arithmetic",
        "the right sum, but a bit moved",
    )
    yield _no(
        "ledger-swapped",
        altered(plain, ledger=(ledger[1], ledger[0], *ledger[2:])),
        "arithmetic",
        "lines in another order",
    )
    yield _no(
        "message-swapped",
        altered(plain, opposite.data),
        "message",
        "the message of another net with as many bits and the same ledger: its error count differs",
    )


def _data() -> Iterator[Case]:
    plain = base()
    claim = plain.claim
    fewer = occam_bound(claim.errors - 1, claim.m, claim.bits, DELTA)
    yield _no(
        "errors-one-less",
        altered(plain, errors=claim.errors - 1, bound=fewer),
        "message",
        "one error was not counted",
    )
    yield _no(
        "errors-one-more",
        altered(plain, errors=claim.errors + 1, bound="1.0"),
        "message",
        "a count that is not the count",
    )
    yield _no(
        "errors-none",
        altered(plain, errors=0, bound=occam_bound(0, 200, claim.bits, DELTA)),
        "message",
        "no errors claimed",
    )
    yield _no(
        "fingerprint",
        altered(plain, data_fingerprint="0" * 64),
        "message",
        "the fingerprint of no known data",
    )
    for name, data in (
        ("row-dropped", "halves without a row"),
        ("row-duplicated", "halves with a row twice"),
        ("sorted-by-label", "halves sorted by label"),
        ("label-changed", "halves with one label changed"),
        ("pixel-changed", "halves with one pixel changed"),
        ("held-out-as-sample", HELD),
    ):
        yield _no(
            f"data-{name}",
            altered(plain),
            "message",
            f"given {data}, which is not the sample",
            data,
        )
    dropped = sample("halves without a row")
    yield _no(
        "data-row-dropped-and-stated",
        altered(certify_net(nets.difference(), dropped, DELTA)),
        "message",
        "certified without one row: true of its own sample, and refused on the whole one",
    )
    for name, data in (
        ("classes-too-few", "halves with a third class"),
        ("inputs-of-another-type", "halves as floats"),
    ):
        other = sample(data)
        content = altered(plain, data_fingerprint=other.fingerprint, m=len(other))
        yield _no(name, content, "message", f"the net cannot be evaluated on {data}", data)
    bars = sample("bars")
    shape = altered(plain, data_fingerprint=bars.fingerprint, m=len(bars), errors=0, bound="1.0")
    yield _no(
        "inputs-of-another-shape", shape, "message", "the net reads inputs of another size", "bars"
    )


def _lines() -> Iterator[Case]:
    plain = base(holdout=True)
    line = plain.claim.holdout
    assert line is not None
    for name, level, changes in (
        ("bound", "none", {"bound": less(line.bound)}),
        ("errors", "message", {"errors": line.errors - 1}),
        ("size", "message", {"m": line.m + 1}),
        ("fingerprint", "message", {"data_fingerprint": "f" * 64}),
    ):
        content = altered(plain, holdout=dataclasses.replace(line, **changes))
        yield _no(
            f"holdout-{name}", content, level, f"the hold-out line's {name} is false", holdout=HELD
        )
    net = nets.difference()
    for name, rows, held, why in (
        (
            "sample-doubled",
            "halves doubled",
            "halves",
            "the sample's rows, each of which it has twice",
        ),
        (
            "sample-resampled",
            "halves resampled",
            "halves",
            "the sample's rows, which it repeats as draws from few possible rows do",
        ),
        (
            "lowest-bits",
            "halves",
            "halves with lowest bits flipped",
            "the sample's rows, each with the lowest bit of a pixel flipped",
        ),
    ):
        made, seen = certify_net(net, sample(rows), DELTA), sample(held)
        errors = net.errors(seen.x, seen.y)
        stated = Holdout(
            seen.fingerprint, errors, len(seen), "0.05", holdout_bound(errors, len(seen), DELTA)
        )
        content = altered(made, holdout=stated, assumptions=plain.claim.assumptions)
        yield _no(f"not-held-out-{name}", content, "message", why, rows, holdout=held)


def _transfers() -> Iterator[Case]:
    plain = transferred()
    claim, line = plain.claim, plain.claim.transfer
    assert line is not None
    few = holdout_bound(line.disagreements - 1, line.m, Decimal("0.01"))
    total = format(Decimal(claim.bound) + Decimal(few), "f")
    replayed = {"unlabelled": FRESH, "net": "f"}
    for name, level, changes, why in (
        (
            "bound",
            "none",
            {"bound": less(line.bound), "bound_f": less(line.bound_f)},
            "too small for the disagreements",
        ),
        ("sum", "none", {"bound_f": less(line.bound_f)}, "the bound on f is not the sum of both"),
        ("sum-more", "none", {"bound_f": less(line.bound_f, "-0.000001")}, "the sum must be exact"),
        ("sum-g-only", "none", {"bound_f": claim.bound}, "g's bound stated as f's"),
        (
            "delta",
            "none",
            {"delta": "0.001"},
            "a smaller δ than the disagreements were bounded for",
        ),
        (
            "count",
            "message",
            {"disagreements": line.disagreements - 1, "bound": few, "bound_f": total},
            "one is not counted",
        ),
        ("inputs", "message", {"data_fingerprint": "1" * 64}, "other unlabelled inputs"),
        ("net-fingerprint", "message", {"net_fingerprint": "2" * 64}, "another net's fingerprint"),
    ):
        content = altered(plain, transfer=dataclasses.replace(line, **changes))
        yield _no(f"transfer-{name}", content, level, why, **replayed)
    yield _no(
        "transfer-other-net",
        altered(plain),
        "message",
        "given a net that is not f",
        unlabelled=FRESH,
        net="other",
    )
    yield _no(
        "transfer-other-program",
        altered(plain),
        "message",
        "given a net with f's numbers and another forward",
        unlabelled=FRESH,
        net="same_numbers",
    )
    yield _no(
        "transfer-other-inputs",
        altered(plain),
        "message",
        "given other inputs",
        unlabelled=HELD,
        net="f",
    )
    stale = transferred(inputs="halves")
    yield _no(
        "transfer-not-fresh",
        altered(stale),
        "message",
        "the inputs are the sample's own",
        unlabelled="halves",
        net="f",
    )


def _posteriors() -> Iterator[Case]:
    plain = gaussian(holdout=True)
    claim = plain.claim
    line = claim.holdout
    assert line is not None
    ledger = list(claim.ledger)
    kl = [
        dataclasses.replace(paid, nats="0.000000") if paid.meaning.startswith("KL") else paid
        for paid in ledger
    ]
    unpaid = binomial_bound(claim.errors, claim.draws, Fraction(claim.delta_draws), 0, Fraction(0))
    unconfident = [*ledger[:-1], dataclasses.replace(ledger[-1], nats="0.000000")]
    changes: dict[str, tuple[str, dict[str, Any]]] = {
        "bound": ("none", {"bound": less(claim.bound)}),
        "sample-bound": ("none", {"sample_bound": less(claim.sample_bound)}),
        "kl": ("arithmetic", {"kl": less(claim.kl)}),
        "kl-zero-everywhere": ("arithmetic", {"kl": "0.000000", "ledger": tuple(kl)}),
        "confidence-unpaid": ("arithmetic", {"ledger": tuple(unconfident)}),
        "ledger-short": ("arithmetic", {"ledger": tuple(ledger[:-1])}),
        "errors": ("message", {"errors": claim.errors - 1, "bound": "1.000000"}),
        "draws": (
            "message",
            {"draws": claim.draws + 1, "sample_bound": "1.000000", "bound": "1.000000"},
        ),
        "holdout": ("message", {"holdout": dataclasses.replace(line, errors=line.errors - 1)}),
        "holdout-bound": ("none", {"holdout": dataclasses.replace(line, bound=less(line.bound))}),
        "fingerprint": ("message", {"data_fingerprint": "3" * 64}),
        "tries-unpaid": ("none", {"sample_bound": unpaid, "bound": "1.000000"}),
    }
    for name, (level, change) in changes.items():
        yield _no(
            f"pac-bayes-{name}",
            altered(plain, **change),
            level,
            f"the posterior's {name} is false",
            holdout=HELD,
        )
    other = certify_gaussian(nets.posterior(1), sample("halves"), DELTA, draws=claim.draws)
    errors = [other.claim.errors, claim.errors]
    swapped = altered(gaussian(), other.message)
    level = "arithmetic"  # one quarter in one mean changes the divergence
    yield _no(
        "pac-bayes-message-swapped",
        swapped,
        level,
        f"another posterior's message ({errors[0]} errors, not {errors[1]})",
    )
    yield _no(
        "pac-bayes-version-before",
        version_before("pac-bayes"),
        "none",
        "300 draws of a stream that costs nothing to choose: written before tries were paid for",
    )

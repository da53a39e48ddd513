"""A certificate: the claim, the message it is about, the file that carries both, and its words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.certificates.features import Seen, condition
from cushion.certificates.format import claims
from cushion.certificates.format.container import pack
from cushion.certificates.format.holdout_claim import HoldoutClaim
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import encode
from cushion.certificates.holdout.words import statement
from cushion.certificates.sample_assumptions import notes_on
from cushion.data.dataset import Dataset
from cushion.data.doubts import doubts_about_holdout
from cushion.data.files import write_whole
from cushion.data.inputs import check_holdout
from cushion.data.registered import note_first_use
from cushion.errors import remark
from cushion.numerics import float_up, percent_up
from cushion.theorems.occam import holdout_bound, occam_bound

if TYPE_CHECKING:
    from cushion.certificates.ladder import Rung

_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Certificate:
    """With probability ≥ 1-δ, what it is `about` errs on at most `bound` of new examples.

    about "g": the integer net in the message (OccamClaim), or what a fixed learner makes of the
    rows that it names (PicksClaim); "f": the user's own net, where the claim carries a transfer
    (`claim.bound` is always g's), the user's own training picked the rows, or f was counted on
    held-out ones (HoldoutClaim); "Q": nets drawn from the message's posterior (GaussianClaim).
    `ladder`: where no kind was asked for, every kind, what it says here or what it would need.
    """

    claim: claims.Claim
    message: bytes
    ladder: tuple[Rung, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    @property
    def about(self) -> str:
        return self.claim.about if _transfer(self.claim) is None else "f"

    @property
    def bound(self) -> float:
        transfer = _transfer(self.claim)
        return float_up(self.claim.bound if transfer is None else transfer.bound_f)

    @property
    def bits(self) -> int:
        """What was paid in bits: the whole message, or a posterior's header."""
        return sum(item.bits for item in self.claim.ledger)

    def __str__(self) -> str:
        return sentence(self.claim)

    def save(self, path: str | Path) -> Path:
        """Write the certificate file; it appears whole or not at all."""
        return write_whole(path, pack(self.claim, self.message))


def _transfer(claim: claims.Claim) -> claims.Transfer | None:
    return getattr(claim, "transfer", None)


def certify_net(
    net: IntegerNet,
    sample: Dataset,
    delta: Decimal,
    *,
    holdout: Dataset | None = None,
    made_with: Mapping[str, Any] | None = None,
    errors: int | None = None,
    seen: Seen | None = None,
) -> Certificate:
    """State the Occam bound of one integer net on its sample, and perhaps a hold-out line.

    Valid however the net was found, as long as it was found without the held-out examples: only its
    message is paid. errors: of the net on the sample, where they were counted before. seen: the
    backbone that made the examples' bytes, which allows some errors more. Guarantee as in
    `occam_bound`, under `claims.assumptions_of`.
    """
    check_holdout(holdout, sample, net.as_read)
    message = encode(net)
    stated = format(delta, "f")
    errors = net.errors(sample.x, sample.y) if errors is None else errors
    line, m = None, len(sample)
    errors = min(m, errors + (0 if seen is None else seen.allowed(m, m)))
    if holdout is not None:
        missed, n = net.errors(holdout.x, holdout.y), len(holdout)
        missed = min(n, missed + (0 if seen is None else seen.allowed(n, m)))
        line = claims.Holdout(
            holdout.fingerprint, missed, n, stated, holdout_bound(missed, n, delta)
        )
        note_first_use(holdout, hashlib.sha256(message.data).hexdigest())
    claim = claims.OccamClaim(
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=len(sample),
        errors=errors,
        bits=message.bits,
        delta=stated,
        bound=occam_bound(errors, len(sample), message.bits, delta),
        ledger=message.ledger,
        assumptions=claims.assumptions_of(
            "occam", holdout=line is not None, features=seen is not None
        ),
        holdout=line,
        made_with={**(made_with or {}), **notes_on(sample, holdout)},
        features=None if seen is None else seen.claim,
    )
    remark(*doubts_about(claim))
    return Certificate(claim, message.data)


def doubts_about(claim: claims.Claim) -> list[str]:
    """What a person must know before quoting the bound: that the hold-out line contradicts it."""
    line = claim.holdout
    return [] if line is None else doubts_about_holdout(line.errors, line.m, claim.bound)


def sentence(claim: claims.Claim) -> str:
    """What is proved, in words that say which net each number is about; percentages rounded up."""
    m, line = spaced(claim.m), _transfer(claim)
    if isinstance(claim, HoldoutClaim):
        return statement(claim)
    if isinstance(claim, claims.GaussianClaim):
        return _proved(
            claim,
            f"a divergence of {claim.kl} nats on {m} examples proves nothing about new examples.",
            f"{m} examples and of the nets counted, a net drawn anew from this posterior",
            "new examples",
        )
    assert isinstance(claim, claims.OccamClaim | claims.PicksClaim)
    about_g = sentence_about_g(claim)
    if line is None:
        return about_g
    n = spaced(line.m)
    shares = (
        f"{about_g} f and g disagree on {spaced(line.disagreements)} of the {n} unlabelled inputs, "
        f"so on at most {percent_up(line.bound)} of new ones with probability {_sure(line.delta)}."
    )
    if Decimal(line.bound_f) >= 1:
        vacuous = "Vacuous for your net f: the bounds below prove nothing about its errors on new"
        return f"{vacuous} examples.\n{shares}"
    return (
        f"With probability {_sure(total_delta(claim))} over the draw of these {m} examples and {n} "
        f"unlabelled inputs, your net f errs on at most {percent_up(line.bound_f)} of new "
        f"examples.\n{shares}"
    )


def sentence_about_g(claim: claims.OccamClaim | claims.PicksClaim) -> str:
    """The part of the statement that is about g, the net in the file."""
    if isinstance(claim, claims.PicksClaim):
        return _sentence_of_picks(claim)
    m, bits = spaced(claim.m), spaced(claim.bits)
    g = f"this {bits}-bit classifier"
    if claim.features is not None:
        g += f" on features of {claim.features.name}"
    if claim.transfer is not None:
        g = f"g, the integer net in the file, a {bits}-bit classifier,"
    counted = f"{spaced(claim.errors)} errors on {m} examples and {bits} bits"
    nothing = f"{counted} prove nothing about new examples."
    return _proved(claim, nothing, f"{m} examples, {g}", "new ones")


def _sentence_of_picks(claim: claims.PicksClaim) -> str:
    """About what was learnt from the picked rows."""
    m, picks, errors = map(spaced, (claim.m, claim.picks, claim.errors))
    made = f"made of {picks} of them"
    g = f"this classifier, {made},"
    if claim.fit is not None:
        g = f"your net f, trained on {picks} of them,"
    elif claim.transfer is not None:
        g = f"g, the classifier {made},"
    if claim.features is not None:
        g += f" on features of {claim.features.name},"
    nothing = f"{picks} picks and {errors} errors on {m} examples prove nothing about new examples."
    return _proved(claim, nothing, f"{m} examples, {g}", "new ones")


def _proved(claim: claims.Claim, nothing: str, draws_and_subject: str, new: str) -> str:
    if Decimal(claim.bound) >= 1:
        return f"Vacuous: {nothing}"
    said = (
        f"ith probability {_sure(claim.delta)} over the draw of these {draws_and_subject} errs on "
        f"at most {percent_up(claim.bound)} of {new}."
    )
    features = getattr(claim, "features", None)
    on_what = "" if features is None else condition(features)
    return f"Provided that {on_what}: w{said}" if on_what else f"W{said}"


def holdout_sentence(line: claims.Holdout, whose: str) -> str:
    """The bound that the held-out examples give, in plain words that say on whose error."""
    return (
        f"For comparison: {spaced(line.errors)} errors on {spaced(line.m)} held-out examples bound "
        f"{whose} error by {percent_up(line.bound)} (δ = {line.delta})."
    )


def total_delta(claim: claims.Claim) -> str:
    """The failure probability of the statement: g's share, and that of the disagreements with f."""
    line = _transfer(claim)
    if line is None:
        return claim.delta
    return format(_EXACT.add(Decimal(claim.delta), Decimal(line.delta)).normalize(), "f")


def spaced(count: int) -> str:
    """A count with its thousands apart.

    >>> spaced(60000)
    '60 000'
    """
    return f"{count:,}".replace(",", " ")


def _sure(delta: str) -> str:
    return f"{((1 - Decimal(delta)) * 100).normalize():f} %"

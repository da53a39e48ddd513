"""A certificate: the claim, the message it is about, and the file that carries both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cushion.certificates.format.claims import Claim, Holdout, assumptions_of
from cushion.certificates.format.container import pack
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import encode
from cushion.data.dataset import Dataset
from cushion.data.files import write_whole
from cushion.data.inputs import check_holdout
from cushion.numerics import float_up, percent_up
from cushion.theorems.occam import holdout_bound, occam_bound


@dataclass(frozen=True)
class Certificate:
    """With probability ≥ 1-δ over the draw of the m examples, the net in the message errs at most
    `bound` often.

    With a transfer, `about` is "f" and `bound` is that of the user's own net; `claim.bound` is
    always g's.
    """

    claim: Claim
    message: bytes

    @property
    def about(self) -> str:
        return "g" if self.claim.transfer is None else "f"

    @property
    def bound(self) -> float:
        transfer = self.claim.transfer
        return float_up(self.claim.bound if transfer is None else transfer.bound_f)

    def __str__(self) -> str:
        return sentence(self.claim)

    def save(self, path: str | Path) -> Path:
        """Write the certificate file; it appears whole or not at all."""
        return write_whole(path, pack(self.claim, self.message))


def certify_net(
    net: IntegerNet,
    sample: Dataset,
    delta: Decimal,
    *,
    holdout: Dataset | None = None,
    made_with: Mapping[str, Any] | None = None,
) -> Certificate:
    """State the Occam bound of one integer net on its sample (and the hold-out line, if there are
    held-out labels).

    Valid however the net was found, as long as it was found without the held-out examples: only its
    message is paid. Guarantee as in `occam_bound`, under `records.ASSUMPTIONS`.
    """
    check_holdout(holdout, sample)
    message = encode(net)
    stated = format(delta, "f")
    errors = net.errors(sample.x, sample.y)
    line = None
    if holdout is not None:
        missed = net.errors(holdout.x, holdout.y)
        line = Holdout(
            holdout.fingerprint,
            missed,
            len(holdout),
            stated,
            holdout_bound(missed, len(holdout), delta),
        )
    claim = Claim(
        kind="occam",
        about="g",
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=len(sample),
        errors=errors,
        bits=message.bits,
        delta=stated,
        bound=occam_bound(errors, len(sample), message.bits, delta),
        ledger=message.ledger,
        assumptions=assumptions_of(line is not None),
        holdout=line,
        made_with=dict(made_with or {}),
    )
    return Certificate(claim, message.data)


def sentence(claim: Claim) -> str:
    """What the certificate proves, in plain words that say which net each number is about;
    percentages rounded up.
    """
    about_g = sentence_about_g(claim)
    line = claim.transfer
    if line is None:
        return about_g
    m, n = spaced(claim.m), spaced(line.m)
    shares = (
        f"{about_g} f and g disagree on {spaced(line.disagreements)} of the {n} unlabelled inputs, "
        f"so on at most {percent_up(line.bound)} of new ones with probability {_sure(line.delta)}."
    )
    if Decimal(line.bound_f) >= 1:
        return (
            "Vacuous for your net f: the bounds below prove nothing about its errors on new "
            f"examples.\n{shares}"
        )
    total = str(Decimal(claim.delta) + Decimal(line.delta))
    return (
        f"With probability {_sure(total)} over the draw of these {m} examples and {n} unlabelled "
        f"inputs, your net f errs on at most {percent_up(line.bound_f)} of new examples.\n{shares}"
    )


def sentence_about_g(claim: Claim) -> str:
    """The part of the statement that is about g, the net in the file."""
    m, bits = spaced(claim.m), spaced(claim.bits)
    if Decimal(claim.bound) >= 1:
        return (
            f"Vacuous: {spaced(claim.errors)} errors on {m} examples and {bits} bits prove nothing "
            "about new examples."
        )
    name = "this" if claim.transfer is None else "g, the integer net in the file, a"
    return (
        f"With probability {_sure(claim.delta)} over the draw of these {m} examples, {name} "
        f"{bits}-bit classifier{'' if claim.transfer is None else ','} errs on at most "
        f"{percent_up(claim.bound)} of new ones."
    )


def holdout_sentence(line: Holdout, whose: str) -> str:
    """The bound that the held-out examples give, in plain words that say on whose error."""
    return (
        f"For comparison: {spaced(line.errors)} errors on {spaced(line.m)} held-out examples bound "
        f"{whose} error by {percent_up(line.bound)} (δ = {line.delta})."
    )


def spaced(count: int) -> str:
    """A count with its thousands apart.

    >>> spaced(60000)
    '60 000'
    """
    return f"{count:,}".replace(",", " ")


def _sure(delta: str) -> str:
    return f"{((1 - Decimal(delta)) * 100).normalize():f} %"

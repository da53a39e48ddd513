"""A certificate: the claim, the message it is about, and the file that carries both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cushion.certificates.occam import holdout_bound, occam_bound
from cushion.data.dataset import Dataset
from cushion.encoding.container import pack
from cushion.encoding.integer_net import IntegerNet
from cushion.encoding.message import encode
from cushion.files import write_whole
from cushion.numerics import float_up, percent_up
from cushion.records import Claim, Holdout

ASSUMPTIONS = (
    "the m examples are independent draws from the distribution that the bound is about",
    "the file format (the prefix code) was fixed before these examples were seen",
    "δ was fixed in advance",
    "what is folklore about a public benchmark (which kinds of nets do well on it) is not charged",
)
HOLDOUT_ASSUMPTION = (
    "the search never read the held-out examples; certificate and hold-out line quoted together fail with "
    "probability at most 2δ"
)


@dataclass(frozen=True)
class Certificate:
    """With probability ≥ 1-δ over the draw of the m examples, the net in the message errs at most `bound` often."""

    claim: Claim
    message: bytes

    @property
    def bound(self) -> float:
        return float_up(self.claim.bound)

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
    """State the Occam bound of one integer net on its sample (and the hold-out line, if there are held-out labels).

    Valid however the net was found, as long as it was found without the held-out examples: only its message is
    paid. Guarantee and assumptions as in `occam_bound` and ASSUMPTIONS.
    """
    message = encode(net)
    errors = net.errors(sample.x, sample.y)
    line = None
    if holdout is not None:
        missed = net.errors(holdout.x, holdout.y)
        line = Holdout(
            holdout.fingerprint, missed, len(holdout), str(delta), holdout_bound(missed, len(holdout), delta)
        )
    claim = Claim(
        about="g",
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=len(sample),
        errors=errors,
        bits=message.bits,
        delta=str(delta),
        bound=occam_bound(errors, len(sample), message.bits, delta),
        ledger=message.ledger,
        assumptions=ASSUMPTIONS if line is None else (*ASSUMPTIONS, HOLDOUT_ASSUMPTION),
        holdout=line,
        made_with=dict(made_with or {}),
    )
    return Certificate(claim, message.data)


def sentence(claim: Claim) -> str:
    """What the certificate proves, in plain words; percentages are rounded up."""
    sure = (1 - Decimal(claim.delta)) * 100
    m = f"{claim.m:,}".replace(",", " ")
    bits = f"{claim.bits:,}".replace(",", " ")
    if Decimal(claim.bound) >= 1:
        return f"Vacuous: {claim.errors} errors on {m} examples and {bits} bits prove nothing about new examples."
    return (
        f"With probability {sure.normalize():f} % over the draw of these {m} examples, this {bits}-bit classifier "
        f"errs on at most {percent_up(claim.bound)} of new ones."
    )

"""Rechecks an Occam certificate: one integer net g, paid by its bits, and what is stated about the
user's own net f: L(f) ≤ L(g) + P[f and g disagree].

f itself is outside (it needs torch): who has it hands over its answers on the unlabelled inputs, as
plain arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from cushion.certificates.format.claims import Answers, OccamClaim
from cushion.certificates.format.errors import BadInput, Malformed
from cushion.certificates.format.limits import effort
from cushion.certificates.format.message import read
from cushion.verifier.fresh import freshness_fault
from cushion.verifier.stated import (
    Examples,
    Inputs,
    check_claim,
    check_counts,
    check_fingerprint,
    check_line,
    identity_fault,
)
from cushion.verifier.tails import bound_holds

Answering = Callable[[Any], Answers]  # what f answers on unlabelled Inputs

_TOLERANCE = re.compile(r"(0|[1-9][0-9]{0,17})\.[0-9]{1,18}", re.ASCII)
_EXACT = Context(prec=60)  # sums of decimals with at most 18 places are exact


class OccamCheck:
    """A claim and the net that its message decodes to; Malformed if either is not of the format."""

    def __init__(self, claim: OccamClaim, message: bytes) -> None:
        check_claim(claim, claim.bits, transfer=claim.transfer is not None)
        check_counts(claim.errors, claim.m, "errors", "examples")
        _check_transfer(claim)
        self.claim = claim
        self.net, self._ledger = read(message, claim.bits)

    def arithmetic_fault(self) -> str:
        """Why the stated counts do not imply the stated bounds; empty if they do."""
        claim, line, f = self.claim, self.claim.holdout, self.claim.transfer
        said = f"{claim.errors} errors, {claim.m} examples and {claim.bits} bits"
        counts = [(claim.errors, claim.m, claim.bits, claim.delta, claim.bound, said)]
        if line is not None:
            said = f"{line.errors} errors on {line.m} held-out examples"
            counts.append((line.errors, line.m, 0, line.delta, line.bound, said))
        if f is not None:
            said = f"{f.disagreements} disagreements on {f.m} unlabelled inputs"
            counts.append((f.disagreements, f.m, 0, f.delta, f.bound, said))
        for errors, m, bits, delta, bound, said in counts:
            if not bound_holds(errors, m, bits, Decimal(delta), Decimal(bound)):
                return f"{said} do not imply {bound}"
        if f is None:
            return ""
        total = min(Decimal(1), _EXACT.add(Decimal(claim.bound), Decimal(f.bound)))
        if Decimal(f.bound_f) == total:
            return ""
        return f"the bound on f must be {claim.bound} + {f.bound}, and at most 1, not {f.bound_f}"

    def ledger_fault(self) -> str:
        """Why the ledger is not that of the message; empty if it is."""
        same = self._ledger == self.claim.ledger
        return "" if same else "the ledger in the file is not what the message costs"

    def effort(self, rows: int) -> int:
        """How long so many rows take, in multiplications."""
        return rows * effort(self.net.input_shape, self.net.layers)

    def errors(self, data: Examples, held_out: bool) -> int:  # noqa: ARG002
        """Counted by exact evaluation."""
        return self.net.errors(data.x, data.y, progress=True)


def _check_transfer(claim: OccamClaim) -> None:
    """Malformed unless the numbers about f are of the kind that the format allows."""
    if (line := claim.transfer) is None:
        return
    check_counts(line.disagreements, line.m, "disagreements", "unlabelled inputs")
    check_fingerprint(line.net_fingerprint, "the fingerprint of f")
    check_fingerprint(line.data_fingerprint, "the fingerprint of the unlabelled inputs")
    check_line(line.delta, line.bound)
    check_line(line.delta, line.bound_f)
    if not _TOLERANCE.fullmatch(line.tolerance) or not Decimal(line.tolerance) > 0:
        raise Malformed("the tolerance must be a plain decimal above 0, such as 0.001")
    if _EXACT.add(Decimal(claim.delta), Decimal(line.delta)) > Decimal("0.5"):
        raise Malformed("the failure probabilities of both bounds exceed 0.5 together")


def transfer_replay_fault(
    check: OccamCheck, data: Examples, inputs: Inputs, answering: Answering
) -> str:
    """Why the inputs and f do not confirm the stated count; empty if they do.

    Rows whose gap lies between half and one and a half of the tolerance may fall on either side on
    another machine (each score may differ by a quarter of it, so a gap by half of it): the stated
    count must lie between the counts that have all of them agree and all of them disagree. The
    smaller one is what the bound on f needs here.
    """
    g, line, what = check.net, check.claim.transfer, "unlabelled inputs"
    assert line is not None
    if fault := identity_fault(inputs.name, len(inputs.x), inputs.fingerprint, line, what):
        return fault
    if fault := freshness_fault(inputs.x, data.x):
        return f"the unlabelled inputs ({inputs.name}) are not fresh: {fault}"
    if fault := g.fault(inputs.x):
        return f"{fault} (the unlabelled inputs)"
    f = answering(inputs)
    if f.net_fingerprint != line.net_fingerprint:
        return (
            "this is not the net f that the certificate is about (the fingerprints of their "
            "numbers differ)"
        )
    if f.classes.shape != (line.m,) or f.gaps.shape != (line.m,):
        raise BadInput(f"f must answer once for each of the {line.m} unlabelled inputs")
    ours = g.answers(inputs.x, progress=True)
    tolerance = float(line.tolerance)
    differ = (ours < 0) | (f.classes != ours)
    fewest, most = (int((differ | ~(f.gaps > part * tolerance)).sum()) for part in (0.5, 1.5))
    if fewest <= line.disagreements <= most:
        return ""
    counted = str(most) if fewest == most else f"{fewest} to {most}"
    return f"f and g disagree on {counted} of the {what}, not {line.disagreements} as stated"

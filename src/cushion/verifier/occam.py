"""Rechecks an Occam certificate: one integer net, paid by its bits."""

from __future__ import annotations

from decimal import Decimal

from cushion.certificates.format.claims import OccamClaim
from cushion.certificates.format.limits import effort
from cushion.certificates.format.message import read
from cushion.verifier.examples import Examples
from cushion.verifier.fields import check_claim, check_counts
from cushion.verifier.tails import bound_holds
from cushion.verifier.transfer import check_transfer_fields, transfer_fault


class OccamCheck:
    """A claim and the net that its message decodes to; Malformed if either is not of the format."""

    def __init__(self, claim: OccamClaim, message: bytes) -> None:
        check_claim(claim, claim.bits, transfer=claim.transfer is not None)
        check_counts(claim.errors, claim.m, "errors", "examples")
        if claim.transfer is not None:
            check_transfer_fields(claim, claim.transfer)
        self.claim = claim
        self.net, self._ledger = read(message, claim.bits)

    def arithmetic_fault(self) -> str:
        """Why the stated counts do not imply the stated bounds; empty if they do."""
        claim, line = self.claim, self.claim.holdout
        if not bound_holds(
            claim.errors, claim.m, claim.bits, Decimal(claim.delta), Decimal(claim.bound)
        ):
            return (
                f"{claim.errors} errors, {claim.m} examples and {claim.bits} bits do not imply "
                f"{claim.bound}"
            )
        if line is not None and not bound_holds(
            line.errors, line.m, 0, Decimal(line.delta), Decimal(line.bound)
        ):
            return f"{line.errors} errors on {line.m} held-out examples do not imply {line.bound}"
        return "" if claim.transfer is None else transfer_fault(claim, claim.transfer)

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

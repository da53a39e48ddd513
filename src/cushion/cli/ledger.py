"""How verbs show what a certificate pays: bits item by item with their positions, and the failure
probability δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal

from cushion.certificates.format.claims import Claim
from cushion.cli.output import table

_EXACT = Context(prec=60)


@dataclass(frozen=True)
class DeltaItem:
    """A share of the failure probability, and what it pays for."""

    item: str
    delta: str
    meaning: str


def total_delta(claim: Claim) -> str:
    """The failure probability of the certificate's statement: g's share, and that of the
    disagreements with f.
    """
    if claim.transfer is None:
        return claim.delta
    return format(_EXACT.add(Decimal(claim.delta), Decimal(claim.transfer.delta)).normalize(), "f")


def delta_items(claim: Claim) -> list[DeltaItem]:
    """What each share of δ pays; the hold-out line is a statement of its own."""
    items = [
        DeltaItem(
            "bound on the net in the file"
            if claim.transfer is None
            else "bound on g, the net in the file",
            claim.delta,
            "that any message of the code breaks its bound; this one's own part is "
            f"δ·2^-{claim.bits}",
        )
    ]
    if claim.transfer is not None:
        items.append(
            DeltaItem(
                "f and g disagree",
                claim.transfer.delta,
                f"that they disagree more often than their count on {claim.transfer.m} unlabelled "
                "inputs implies",
            )
        )
    return items


def bit_positions(claim: Claim) -> list[tuple[int, int]]:
    """First and last bit of each ledger item, counted from 0; last = first - 1 where an item costs
    nothing.
    """
    positions, start = [], 0
    for item in claim.ledger:
        positions.append((start, start + item.bits - 1))
        start += item.bits
    return positions


def show_ledger(claim: Claim) -> list[str]:
    """The two tables, bits and δ, as lines of text."""
    rows: list[list[object]] = [
        [item.item, item.bits, f"{first}-{last}" if item.bits else "none", item.meaning]
        for item, (first, last) in zip(claim.ledger, bit_positions(claim), strict=True)
    ]
    rows.append(["total", claim.bits, f"0-{claim.bits - 1}", "the length of the message"])
    shares: list[list[object]] = [
        [share.item, share.delta, share.meaning] for share in delta_items(claim)
    ]
    about = "the net in the file" if claim.transfer is None else "your net f"
    shares.append(["total", total_delta(claim), f"that the statement about {about} is false"])
    lines = [
        "What was paid in bits:",
        table(["paid for", "bits", "positions", "what it is"], rows),
        "What was paid in failure probability:",
        table(["paid for", "δ", "the probability"], shares),
    ]
    if claim.holdout is not None:
        lines.append(
            f"The hold-out line is a statement of its own, with δ = {claim.holdout.delta} of its "
            "own."
        )
    return lines

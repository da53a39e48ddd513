"""What a hold-out certificate states: counts of the user's own net f on held-out rows."""

from __future__ import annotations

from typing import Literal

from cushion.certificates.format.claims import Claim
from cushion.records import Record

# What nobody can check; the second sentence is one of two.
_DRAWS = "the m examples are independent draws from the distribution that the bound is about"
FIRST_USE = (
    "nothing was learnt from these examples before: neither f nor what is asked about it was "
    "chosen by looking at them"
)
IN_LEDGER = (
    "nothing was learnt from these examples but the answers in their ledger of looks: f, and what "
    "is asked about it, depend on them through these alone"
)
_REST = (
    "δ was fixed in advance",
    "f is a fixed function: on other machines each of its scores differs by at most a quarter of "
    "the tolerance, times the largest of the row in magnitude",
)


class Look(Record):
    """Which look at its rows a certificate is: number k, and what was told before it.

    chain: the ledger's running sha256 behind the line of this look, before its answer.
    """

    number: int
    bits_before: int
    chain: str


class Line(Record):
    """The error within one class ("class", which: its number), or of the `which` best scored
    classes together ("top").

    errors, m: counted, and among how many rows; None in a look, which states the bound alone.
    """

    what: Literal["class", "top"]
    which: int
    errors: int | None
    m: int | None
    delta: str
    bound: str


class Selective(Record):
    """f answers where the gap between its two largest scores exceeds the threshold.

    Of what it answers it errs on at most `bound` ≤ risk, and it refuses at most `bound_refused` of
    new examples: the least threshold of a fixed grid for which the first holds. threshold None:
    there is none, and both bounds are 1. errors, m: among the rows answered; refused: rows; None in
    a look.
    """

    risk: str
    threshold: str | None
    errors: int | None
    m: int | None
    delta: str
    bound: str
    refused: int | None
    delta_refused: str
    bound_refused: str


class HoldoutClaim(Claim, kw_only=True):
    """About the user's own net f, by m held-out examples: L(f) ≤ bound.

    bound ≥ BinInv(errors; m, δ₀), δ₀ = `delta_all`, or, for look k of a ledger, δ₀·2^-bits_before
    / (k(k+1)). Ties are errors, and gaps of at most `tolerance` times the largest score of the row
    in magnitude. The shares of all lines sum to `delta`.
    """

    kind: Literal["holdout"] = "holdout"
    about: Literal["f"] = "f"
    net_fingerprint: str
    program: str | None
    tolerance: str
    delta_all: str
    look: Look | None
    lines: tuple[Line, ...]
    selective: Selective | None


def assumptions_of_holdout(look: Look | None) -> tuple[str, ...]:
    """With a ledger of looks, or for what is taken as the first use of these rows."""
    return (_DRAWS, FIRST_USE if look is None else IN_LEDGER, *_REST)

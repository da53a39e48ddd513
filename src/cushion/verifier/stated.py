"""What a claim may state, the data that a sceptic hands over, and whether those are these."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.claims import Claim, Holdout, Transfer, assumptions_of
from cushion.certificates.format.errors import Malformed

MOST_EXAMPLES = 10**7
_MOST_BITS = 2**22  # as many as the longest message that a file can hold

_DECIMAL = re.compile(r"0\.[0-9]{1,18}|1\.0{1,18}", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class Inputs(Protocol):
    """x: [m, *shape]; fingerprint: of x (FORMAT.md, section 5)."""

    @property
    def name(self) -> str: ...
    @property
    def x(self) -> NDArray[Any]: ...
    @property
    def fingerprint(self) -> str: ...


class Examples(Protocol):
    """x: [m, *shape], y: [m] labels; hashed() computes the fingerprint of both anew."""

    @property
    def name(self) -> str: ...
    @property
    def x(self) -> NDArray[Any]: ...
    @property
    def y(self) -> NDArray[np.int64]: ...
    def hashed(self) -> str: ...


def identity_fault(
    name: str, m: int, found: str, stated: Claim | Holdout | Transfer, what: str
) -> str:
    """Why m rows with the fingerprint found are not those stated; else empty."""
    if m != stated.m:
        return f"the certificate is about {stated.m} {what}, but {name} has {m}"
    if found != stated.data_fingerprint:
        return f"these are not the {what} that the certificate is about (their fingerprints differ)"
    return ""


# ---- what the format allows in a claim's fields; anything else is malformed


def check_counts(count: int, m: int, what: str, among: str) -> None:
    """0 ≤ count ≤ m and 1 ≤ m ≤ 10^7."""
    if not 1 <= m <= MOST_EXAMPLES or not 0 <= count <= m:
        raise Malformed(f"{count} {what} among {m} {among} is not a count that the format allows")


def check_fingerprint(text: str, what: str) -> None:
    """64 lower-case hexadecimal digits."""
    if not _FINGERPRINT.fullmatch(text):
        raise Malformed(f"{what} must be 64 hexadecimal digits")


def check_line(delta: str, bound: str) -> None:
    """Plain decimals: 0 < δ ≤ 0.5 and 0 ≤ bound ≤ 1."""
    if not _DECIMAL.fullmatch(delta) or not _DECIMAL.fullmatch(bound):
        raise Malformed("delta and bound must be plain decimals such as 0.05")
    if not 0 < Decimal(delta) <= Decimal("0.5"):
        raise Malformed(f"delta = {delta} must be above 0 and at most 0.5")


def check_claim(claim: Claim, bits: int, *, transfer: bool) -> None:
    """What the claims of every kind have in common; bits: what the claim says was paid in bits."""
    check_counts(0, claim.m, "errors", "examples")
    if not 1 <= bits <= _MOST_BITS:
        raise Malformed(f"a message of {bits} bits is outside the format")
    if not claim.data.isprintable():
        raise Malformed("the name of the data must be printable")
    check_fingerprint(claim.data_fingerprint, "the fingerprint of the data")
    line = claim.holdout
    if claim.assumptions != assumptions_of(claim.kind, holdout=line is not None, transfer=transfer):
        raise Malformed("the assumptions are not the ones that this kind of certificate makes")
    check_line(claim.delta, claim.bound)
    if line is None:
        return
    check_counts(line.errors, line.m, "errors", "held-out examples")
    if line.delta != claim.delta:
        raise Malformed("the hold-out line must have the certificate's own delta")
    check_fingerprint(line.data_fingerprint, "the hold-out line's fingerprint")
    if line.data_fingerprint == claim.data_fingerprint:
        raise Malformed("the held-out examples are the sample itself")
    check_line(line.delta, line.bound)

"""The data that a sceptic hands over, and whether they are what a certificate says they are."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.claims import Claim, Holdout, Transfer


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


def freshness_fault(rows: NDArray[Any], sample: NDArray[Any]) -> str:
    """Why the rows cannot be fresh draws beside the sample's, as the end of a sentence; else empty.

    A row of the sample again means that they are not fresh, unless the sample repeats its own rows,
    as draws from few possible rows do: then they may meet the sample's rows up to twice as often as
    it meets its own (a new draw meets m earlier ones about as often as each of them meets the
    others). The sample in another order is never fresh.
    """
    if rows.dtype != sample.dtype:
        return ""
    theirs, ours = Counter(_digests(rows)), Counter(_digests(sample))
    shared = sum(count for digest, count in theirs.items() if digest in ours)
    repeated = sum(count for count in ours.values() if count > 1)
    if not shared or (shared * len(sample) <= 2 * repeated * len(rows) and theirs != ours):
        return ""
    return f"{shared} of the {len(rows)} are rows of the sample itself"


def _digests(x: NDArray[Any]) -> list[bytes]:
    return [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in x]

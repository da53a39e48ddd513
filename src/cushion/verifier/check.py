"""Rechecks a certificate file from its bytes and the data, trusting nothing else.

Three levels, each needing the one before:
- arithmetic: the stated counts imply the stated bound, and the same for the hold-out line;
- message: the bytes decode strictly to a net, to the last bit, and cost what the ledger says;
- replay: that net, evaluated exactly on data with the stated fingerprint, makes the stated number of errors.

The formulas are computed a second time, in `tails`. No torch, no floats; nothing of `numerics`, `certificates`,
`compressors` or `measures`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from cushion.claims import Claim, Verdict, assumptions_of
from cushion.data import Dataset, as_dataset, load_pair
from cushion.encoding.container import unpack
from cushion.encoding.integer_net import IntegerNet
from cushion.encoding.message import read
from cushion.errors import BadInput, Malformed
from cushion.verifier.tails import bound_holds

_DECIMAL = re.compile(r"0\.[0-9]{1,18}|1\.0{1,18}", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_MOST_EXAMPLES = 10**7
_MOST_BITS = 10**8
_MOST_BYTES = 2**25


def verify(path: str | Path, data: Dataset | str | None, holdout: Dataset | None = None) -> Verdict:
    """Check the certificate at `path` against the sample it is about.

    Raises BadInput (no such file) or Malformed (not a certificate); otherwise returns a Verdict whose `ok` means
    that all three levels hold. Without `data` the verdict stops at level "message" and is not ok. The name of a
    source stands for its sample and its held-out part.
    """
    if not isinstance(path, (str, Path)):
        raise BadInput(f"verify reads a certificate file, not a {type(path).__name__}; save it and give its path")
    if isinstance(data, str):
        data, holdout = load_pair(data)
    if data is not None:
        data = as_dataset(data)
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror}); name a certificate file") from None
    if len(content) > _MOST_BYTES:
        raise Malformed(f"{path}: longer than any certificate file", _MOST_BYTES)
    try:
        claim, message = unpack(content)
        check_fields(claim)
        net, ledger = read(message, claim.bits)
    except Malformed as problem:
        raise Malformed(f"{path}: {problem}") from None

    reason = arithmetic_fault(claim)
    if reason:
        return _verdict(claim, "none", reason)
    if ledger != claim.ledger:
        return _verdict(claim, "arithmetic", "the ledger in the file is not what the message costs")
    if data is None:
        return _verdict(claim, "message", "the error count was not replayed: no data was given")
    reason = replay_fault(net, claim, data)
    if reason:
        return _verdict(claim, "message", reason)
    replayed = holdout is not None and claim.holdout is not None
    if holdout is not None and claim.holdout is not None:
        line = claim.holdout
        reason = _count_fault(net, holdout, line.m, line.data_fingerprint, line.errors, "held-out examples")
        if reason:
            return _verdict(claim, "message", reason)
    return _verdict(claim, "replay", "", holdout_replayed=replayed)


def check_fields(claim: Claim) -> None:
    """Malformed unless the claim's numbers are of the kind that the format allows."""
    if not 1 <= claim.m <= _MOST_EXAMPLES or not 0 <= claim.errors <= claim.m:
        raise Malformed(f"{claim.errors} errors among {claim.m} examples is not a count that the format allows")
    if not 1 <= claim.bits <= _MOST_BITS:
        raise Malformed(f"a message of {claim.bits} bits is outside the format")
    if not claim.data.isprintable() or not _FINGERPRINT.fullmatch(claim.data_fingerprint):
        raise Malformed("the name of the data must be printable, and its fingerprint 64 hexadecimal digits")
    if claim.assumptions != assumptions_of(claim.holdout is not None):
        raise Malformed("the assumptions are not the ones that every certificate of this format makes")
    lines = [(claim.delta, claim.bound)]
    if claim.holdout is not None:
        if not 1 <= claim.holdout.m <= _MOST_EXAMPLES or not 0 <= claim.holdout.errors <= claim.holdout.m:
            raise Malformed("the hold-out line's counts are outside the format")
        if claim.holdout.delta != claim.delta:
            raise Malformed("the hold-out line must have the certificate's own delta")
        if not _FINGERPRINT.fullmatch(claim.holdout.data_fingerprint):
            raise Malformed("the hold-out line's fingerprint must be 64 hexadecimal digits")
        if claim.holdout.data_fingerprint == claim.data_fingerprint:
            raise Malformed("the held-out examples are the sample itself")
        lines.append((claim.holdout.delta, claim.holdout.bound))
    for delta, bound in lines:
        if not _DECIMAL.fullmatch(delta) or not _DECIMAL.fullmatch(bound):
            raise Malformed("delta and bound must be plain decimals such as 0.05")
        if not 0 < Decimal(delta) <= Decimal("0.5"):
            raise Malformed(f"delta = {delta} must be above 0 and at most 0.5")


def arithmetic_fault(claim: Claim) -> str:
    """Why the stated counts do not imply the stated bound; empty if they do."""
    if not bound_holds(claim.errors, claim.m, claim.bits, Decimal(claim.delta), Decimal(claim.bound)):
        return f"{claim.errors} errors, {claim.m} examples and {claim.bits} bits do not imply {claim.bound}"
    line = claim.holdout
    if line is not None and not bound_holds(line.errors, line.m, 0, Decimal(line.delta), Decimal(line.bound)):
        return f"{line.errors} errors on {line.m} held-out examples do not imply {line.bound}"
    return ""


def replay_fault(net: IntegerNet, claim: Claim, data: Dataset) -> str:
    """Why exact evaluation on the data does not confirm the claim; empty if it does."""
    return _count_fault(net, data, claim.m, claim.data_fingerprint, claim.errors, f"examples of {claim.data}")


def _count_fault(net: IntegerNet, data: Dataset, m: int, fingerprint: str, errors: int, what: str) -> str:
    if len(data) != m:
        return f"the certificate is about {m} {what}, but {data.name} has {len(data)}"
    if data.fingerprint != fingerprint:
        return f"these are not the {what} that the certificate is about (their fingerprints differ)"
    if fault := net.fault(data.x):
        return f"{fault} (the {what})"
    if int(data.y.max()) >= net.classes:
        return f"the net knows {net.classes} classes, the {what} have label {int(data.y.max())}"
    counted = net.errors(data.x, data.y, progress=True)
    return "" if counted == errors else f"the net makes {counted} errors on the {what}, not {errors} as stated"


def _verdict(claim: Claim, level: str, reason: str, holdout_replayed: bool = False) -> Verdict:
    return Verdict(ok=not reason, level=level, reason=reason, claim=claim, holdout_replayed=holdout_replayed)

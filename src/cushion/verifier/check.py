"""Rechecks a certificate file from its bytes and the data, trusting nothing else.

Three levels, each needing the one before:
- arithmetic: the stated counts imply the stated bound, and the same for the hold-out line and the
  bound on f;
- message: the bytes decode strictly to a net, to the last bit, and cost what the ledger says;
- replay: that net, evaluated exactly on data with the stated fingerprint, makes the stated number
  of errors.

The formulas are computed a second time, in `tails`. No torch, no floats; nothing of `numerics`,
`certificates`, `compressors` or `measures`.
"""

from __future__ import annotations

from decimal import Decimal
from importlib import import_module
from pathlib import Path

from cushion.certificates.format.claims import AnyClaim, Claim, Verdict, assumptions_of
from cushion.certificates.format.container import unpack
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.limits import effort
from cushion.certificates.format.message import read
from cushion.data import Dataset, as_dataset, load_pair
from cushion.data.inputs import Inputs, as_inputs, holdout_fault
from cushion.errors import BadInput, Malformed
from cushion.verifier.effort import check_effort
from cushion.verifier.fields import check_counts, check_fingerprint, check_line
from cushion.verifier.tails import bound_holds
from cushion.verifier.transfer import (
    Answering,
    check_transfer_fields,
    transfer_fault,
    transfer_replay_fault,
)

_MOST_BITS = 2**22  # as many as the longest message that a file can hold
_MOST_BYTES = 2**25
# Who checks the claims of the other kinds: a module with verify_claim(claim, message, data,
# holdout, slow) -> Verdict.
_CHECKERS = {"pac-bayes": "cushion.verifier.gaussian"}


def verify(
    path: str | Path,
    data: Dataset | str | None,
    holdout: Dataset | None = None,
    *,
    unlabelled: Inputs | Dataset | str | None = None,
    answering: Answering | None = None,
    slow: bool = False,
) -> Verdict:
    """Check the certificate at `path` against the sample it is about.

    Raises BadInput (no such file) or Malformed (not a certificate); otherwise returns a Verdict
    whose `ok` means that all three levels hold. Without `data` the verdict stops at level "message"
    and is not ok. The name of a source stands for its sample and its held-out part.

    A bound on f is replayed with the unlabelled inputs and `answering`, which gives f's answers on
    them (`certificates.answers.answer` does for a torch module). Without both, ok is about g, and
    `transfer_replayed` False.

    A small file can ask for hours of counting. What takes longer than some minutes is refused
    unless `slow`.
    """
    if not isinstance(path, (str, Path)):
        raise BadInput(
            f"verify reads a certificate file, not a {type(path).__name__}; save it and give its "
            "path"
        )
    if (unlabelled is None) != (answering is None):
        raise BadInput(
            "to replay the bound on f give both its net and the unlabelled inputs, or neither"
        )
    if isinstance(data, str):
        data, holdout = load_pair(data)
    data, holdout = (None if part is None else as_dataset(part) for part in (data, holdout))
    inputs = None if unlabelled is None else as_inputs(unlabelled)
    claim, message = _open(path)
    if answering is not None and getattr(claim, "transfer", None) is None:
        raise BadInput(
            f"{path}: this certificate says nothing about a net f; leave out the net and "
            "unlabelled inputs"
        )
    try:
        if not isinstance(claim, Claim):
            checker = import_module(_CHECKERS[claim.kind])
            verdict: Verdict = checker.verify_claim(claim, message, data, holdout, slow=slow)
            return verdict
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
    rows = sum(len(part) for part in (data, holdout, inputs) if part is not None)
    check_effort(rows * effort(net.input_shape, net.layers), slow)
    if reason := replay_fault(net, claim, data):
        return _verdict(claim, "message", reason)
    if holdout is not None and claim.holdout is not None:
        line = claim.holdout
        reason = _count_fault(
            net, holdout, line.m, line.data_fingerprint, line.errors, "held-out examples"
        )
        reason = reason or holdout_fault(holdout, data)
    if not reason and inputs is not None and answering is not None and claim.transfer is not None:
        reason = transfer_replay_fault(net, claim.transfer, data, inputs, answering)
    if reason:
        return Verdict(ok=False, level="message", reason=reason, claim=claim, sample_replayed=True)
    return Verdict(
        ok=True,
        level="replay",
        reason="",
        claim=claim,
        sample_replayed=True,
        holdout_replayed=holdout is not None and claim.holdout is not None,
        transfer_replayed=answering is not None,
    )


def _open(path: str | Path) -> tuple[AnyClaim, bytes]:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        raise BadInput(
            f"{path}: cannot be read ({problem.strerror}); name a certificate file"
        ) from None
    except ValueError:  # a name that no file can have
        raise BadInput(
            f"{str(path)!r} cannot be the name of a file; name a certificate file"
        ) from None
    if len(content) > _MOST_BYTES:
        raise Malformed(f"{path}: longer than any certificate file", _MOST_BYTES)
    try:
        return unpack(content)
    except Malformed as problem:
        raise Malformed(f"{path}: {problem}") from None


def check_fields(claim: Claim) -> None:
    """Malformed unless the claim's numbers are of the kind that the format allows."""
    check_counts(claim.errors, claim.m, "errors", "examples")
    if not 1 <= claim.bits <= _MOST_BITS:
        raise Malformed(f"a message of {claim.bits} bits is outside the format")
    if not claim.data.isprintable():
        raise Malformed("the name of the data must be printable")
    check_fingerprint(claim.data_fingerprint, "the fingerprint of the data")
    if claim.assumptions != assumptions_of(claim.holdout is not None, claim.transfer is not None):
        raise Malformed(
            "the assumptions are not the ones that every certificate of this format makes"
        )
    check_line(claim.delta, claim.bound)
    if claim.holdout is not None:
        check_counts(claim.holdout.errors, claim.holdout.m, "errors", "held-out examples")
        if claim.holdout.delta != claim.delta:
            raise Malformed("the hold-out line must have the certificate's own delta")
        check_fingerprint(claim.holdout.data_fingerprint, "the hold-out line's fingerprint")
        if claim.holdout.data_fingerprint == claim.data_fingerprint:
            raise Malformed("the held-out examples are the sample itself")
        check_line(claim.holdout.delta, claim.holdout.bound)
    if claim.transfer is not None:
        check_transfer_fields(claim, claim.transfer)


def arithmetic_fault(claim: Claim) -> str:
    """Why the stated counts do not imply the stated bounds; empty if they do."""
    if not bound_holds(
        claim.errors, claim.m, claim.bits, Decimal(claim.delta), Decimal(claim.bound)
    ):
        return (
            f"{claim.errors} errors, {claim.m} examples and {claim.bits} bits do not imply "
            f"{claim.bound}"
        )
    line = claim.holdout
    if line is not None and not bound_holds(
        line.errors, line.m, 0, Decimal(line.delta), Decimal(line.bound)
    ):
        return f"{line.errors} errors on {line.m} held-out examples do not imply {line.bound}"
    return "" if claim.transfer is None else transfer_fault(claim, claim.transfer)


def replay_fault(net: IntegerNet, claim: Claim, data: Dataset) -> str:
    """Why exact evaluation on the data does not confirm the claim; empty if it does."""
    return _count_fault(
        net, data, claim.m, claim.data_fingerprint, claim.errors, f"examples of {claim.data}"
    )


def _count_fault(
    net: IntegerNet, data: Dataset, m: int, fingerprint: str, errors: int, what: str
) -> str:
    if len(data) != m:
        return f"the certificate is about {m} {what}, but {data.name} has {len(data)}"
    if data.hashed() != fingerprint:
        return f"these are not the {what} that the certificate is about (their fingerprints differ)"
    if fault := net.fault(data.x):
        return f"{fault} (the {what})"
    if int(data.y.max()) >= net.classes:
        return f"the net knows {net.classes} classes, the {what} have label {int(data.y.max())}"
    counted = net.errors(data.x, data.y, progress=True)
    return (
        ""
        if counted == errors
        else f"the net makes {counted} errors on the {what}, not {errors} as stated"
    )


def _verdict(claim: Claim, level: str, reason: str) -> Verdict:
    return Verdict(ok=False, level=level, reason=reason, claim=claim)

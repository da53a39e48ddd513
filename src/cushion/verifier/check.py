"""Rechecks a certificate file from its bytes and the data, trusting nothing else.

Three levels, each needing the one before:
- arithmetic: the stated counts imply the stated bound, and the same for the hold-out line and the
  bound on f;
- message: the bytes decode strictly to a net (or a posterior), to the last bit, and cost what the
  ledger says;
- replay: that net, evaluated exactly on data with the stated fingerprint, makes the stated number
  of errors.

The formulas are computed a second time, in `tails` and `gaussian`. No torch, no floats; nothing of
cushion but the format's decoder.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cushion.certificates.format.claims import Claim, GaussianClaim, Holdout, OccamClaim, Verdict
from cushion.certificates.format.container import unpack
from cushion.certificates.format.errors import BadInput, Malformed
from cushion.verifier.fresh import freshness_fault
from cushion.verifier.gaussian import GaussianCheck
from cushion.verifier.occam import Answering, OccamCheck, transfer_replay_fault
from cushion.verifier.stated import Examples, Inputs, identity_fault

_MOST_BYTES = 2**25
# In multiplications (`format.limits.effort`): half a minute to some minutes on one core. A small
# file can ask for hours.
MOST_EFFORT = 2**39


def verify(
    path: str | Path,
    data: Examples | None,
    holdout: Examples | None = None,
    *,
    unlabelled: Inputs | None = None,
    answering: Answering | None = None,
    slow: bool = False,
) -> Verdict:
    """Check the certificate at `path` against the sample it is about.

    Raises BadInput (no such file) or Malformed (not a certificate); otherwise returns a Verdict
    whose `ok` means that all three levels hold. Without `data` the verdict stops at level "message"
    and is not ok.

    A bound on f is replayed with the unlabelled inputs and `answering`, which gives f's answers on
    them (`certificates.answers.answer` does for a torch module). Without both, ok is about g, and
    `transfer_replayed` False.

    A small file can ask for hours of counting. What takes longer than some minutes is refused
    unless `slow`.
    """
    if not isinstance(path, (str, Path)):
        raise BadInput(f"give the path of a certificate file, not a {type(path).__name__}")
    for given in (data, holdout, unlabelled):
        if isinstance(given, (str, Path)):
            raise BadInput(
                f"examples are needed here, not the name {str(given)!r}; cushion.verify takes names"
            )
    if (unlabelled is None) != (answering is None):
        raise BadInput("to replay the bound on f give both its net and the unlabelled inputs")
    try:
        claim, message = unpack(_read(path))
        check = _check(claim, message)
    except Malformed as problem:
        raise Malformed(f"{path}: {problem}") from None
    if answering is not None and getattr(claim, "transfer", None) is None:
        raise BadInput(f"{path} says nothing about a net f; leave out net and unlabelled inputs")
    if reason := check.arithmetic_fault():
        return Verdict(False, "none", reason, claim)
    if reason := check.ledger_fault():
        return Verdict(False, "arithmetic", reason, claim)
    if data is None:
        unread = "the error count was not replayed: no data was given"
        return Verdict(False, "message", unread, claim)
    rows = sum(len(part.x) for part in (data, holdout, unlabelled) if part is not None)
    if (effort := check.effort(rows)) > MOST_EFFORT and not slow:
        raise BadInput(
            f"replaying this certificate takes about {effort / MOST_EFFORT:.0f} times the few "
            "minutes that verify takes unasked; add `slow` to do it all the same"
        )
    if reason := _count_fault(check, data, claim, f"examples of {claim.data}"):
        return Verdict(False, "message", reason, claim)
    if held := holdout is not None and claim.holdout is not None:
        reason = _count_fault(check, holdout, claim.holdout, "held-out examples")
        if not reason and (fault := freshness_fault(holdout.x, data.x)):
            reason = f"the held-out examples ({holdout.name}) are not held out: {fault}"
    if not reason and unlabelled is not None and answering is not None:
        assert isinstance(check, OccamCheck)
        reason = transfer_replay_fault(check, data, unlabelled, answering)
    level, ok = ("message", False) if reason else ("replay", True)
    return Verdict(ok, level, reason, claim, True, ok and held, ok and answering is not None)


def _check(claim: Claim, message: bytes) -> GaussianCheck | OccamCheck:
    if isinstance(claim, GaussianClaim):
        return GaussianCheck(claim, message)
    assert isinstance(claim, OccamClaim)
    return OccamCheck(claim, message)


def _read(path: str | Path) -> bytes:
    try:
        # a pipe that nobody writes to would be waited for
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path}: cannot be read (no plain file); name a certificate")
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror}); name a certificate") from None
    except ValueError:
        raise BadInput(f"{str(path)!r} cannot be the name of a file") from None
    if len(content) > _MOST_BYTES:
        raise Malformed("longer than any certificate file", _MOST_BYTES)
    return content


def _count_fault(
    check: GaussianCheck | OccamCheck, data: Examples, stated: Claim | Holdout, what: str
) -> str:
    """Why exact evaluation does not confirm the errors on these data; empty if it does."""
    if fault := identity_fault(data.name, len(data.x), data.hashed(), stated, what):
        return fault
    if fault := check.net.fault(data.x):
        return f"{fault} (the {what})"
    if (label := int(data.y.max())) >= check.net.classes:
        return f"the net knows {check.net.classes} classes, the {what} have label {label}"
    counted, errors = check.errors(data, isinstance(stated, Holdout)), stated.errors
    return "" if counted == errors else f"{counted} errors on the {what}, not {errors} as stated"

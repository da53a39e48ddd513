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

from pathlib import Path
from typing import Protocol

from cushion.certificates.format.claims import Claim, GaussianClaim, OccamClaim, Verdict
from cushion.certificates.format.container import unpack
from cushion.certificates.format.errors import BadInput, Malformed
from cushion.certificates.format.integer_net import IntegerNet
from cushion.verifier.examples import Examples, Inputs, freshness_fault, identity_fault
from cushion.verifier.gaussian import GaussianCheck
from cushion.verifier.occam import OccamCheck
from cushion.verifier.transfer import Answering, transfer_replay_fault

_MOST_BYTES = 2**25
# In multiplications (`format.limits.effort`): half a minute to some minutes on one core. A small
# file can ask for hours.
MOST_EFFORT = 2**39


class Check(Protocol):
    """A claim of one kind whose fields and message are of the format; what is left to check."""

    @property
    def net(self) -> IntegerNet:
        """What reads the inputs."""

    def arithmetic_fault(self) -> str: ...
    def ledger_fault(self) -> str: ...
    def effort(self, rows: int) -> int: ...
    def errors(self, data: Examples, held_out: bool) -> int: ...


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
        raise BadInput(
            f"verify reads a certificate file, not a {type(path).__name__}; save it, give its path"
        )
    if (unlabelled is None) != (answering is None):
        raise BadInput(
            "to replay the bound on f give both its net and the unlabelled inputs, or neither"
        )
    content = _read(path)
    try:
        claim, message = unpack(content)
        if answering is not None and getattr(claim, "transfer", None) is None:
            raise BadInput(
                f"{path}: this certificate says nothing about a net f; leave out the net and "
                "unlabelled inputs"
            )
        return verify_claim(
            claim, message, data, holdout, unlabelled=unlabelled, answering=answering, slow=slow
        )
    except Malformed as problem:
        raise Malformed(f"{path}: {problem}") from None


def verify_claim(
    claim: Claim,
    message: bytes,
    data: Examples | None,
    holdout: Examples | None = None,
    *,
    unlabelled: Inputs | None = None,
    answering: Answering | None = None,
    slow: bool = False,
) -> Verdict:
    """The three levels of a claim with its message; Malformed if either is not of the format."""
    check = _check(claim, message)

    def no(level: str, reason: str, sample_replayed: bool = False) -> Verdict:
        return Verdict(False, level, reason, claim, sample_replayed)

    if reason := check.arithmetic_fault():
        return no("none", reason)
    if reason := check.ledger_fault():
        return no("arithmetic", reason)
    if data is None:
        return no("message", "the error count was not replayed: no data was given")
    _check_effort(
        check.effort(sum(len(part.x) for part in (data, holdout, unlabelled) if part is not None)),
        slow,
    )
    stated = (claim.m, claim.data_fingerprint)
    if reason := _count_fault(check, data, stated, claim.errors, f"examples of {claim.data}"):
        return no("message", reason)
    line = claim.holdout
    if holdout is not None and line is not None:
        stated = (line.m, line.data_fingerprint)
        reason = _count_fault(check, holdout, stated, line.errors, "held-out examples", True)
        if not reason and (fault := freshness_fault(holdout.x, data.x)):
            reason = f"the held-out examples ({holdout.name}) are not held out: {fault}"
    if not reason and unlabelled is not None and answering is not None:
        assert isinstance(claim, OccamClaim)
        assert claim.transfer is not None
        reason = transfer_replay_fault(check.net, claim.transfer, data, unlabelled, answering)
    if reason:
        return no("message", reason, sample_replayed=True)
    return Verdict(
        ok=True,
        level="replay",
        reason="",
        claim=claim,
        sample_replayed=True,
        holdout_replayed=holdout is not None and line is not None,
        transfer_replayed=answering is not None,
    )


def _check(claim: Claim, message: bytes) -> Check:
    if isinstance(claim, GaussianClaim):
        return GaussianCheck(claim, message)
    assert isinstance(claim, OccamClaim)
    return OccamCheck(claim, message)


def _read(path: str | Path) -> bytes:
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
    return content


def _check_effort(multiplications: int, slow: bool) -> None:
    if multiplications > MOST_EFFORT and not slow:
        raise BadInput(
            f"replaying this certificate takes about {multiplications / MOST_EFFORT:.0f} times the "
            "few minutes that verify takes unasked; add `slow` to do it all the same"
        )


def _count_fault(
    check: Check,
    data: Examples,
    stated: tuple[int, str],
    errors: int,
    what: str,
    held_out: bool = False,
) -> str:
    """Why exact evaluation does not confirm the errors on these data; empty if it does."""
    if fault := identity_fault(data.name, len(data.x), data.hashed(), stated, what):
        return fault
    if fault := check.net.fault(data.x):
        return f"{fault} (the {what})"
    if (label := int(data.y.max())) >= check.net.classes:
        return f"the net knows {check.net.classes} classes, the {what} have label {label}"
    counted = check.errors(data, held_out)
    return "" if counted == errors else f"{counted} errors on the {what}, not {errors} as stated"

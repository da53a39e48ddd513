"""Rechecks what a certificate states about the user's own net f: L(f) ≤ L(g) + P[f and g disagree].

f itself is outside (it needs torch): who has it hands over its answers on the unlabelled inputs, as
plain arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from cushion.certificates.format.answers import Answers
from cushion.certificates.format.claims import OccamClaim, Transfer
from cushion.certificates.format.errors import BadInput, Malformed
from cushion.certificates.format.integer_net import IntegerNet
from cushion.verifier.examples import Examples, Inputs, freshness_fault, identity_fault
from cushion.verifier.fields import check_counts, check_fingerprint, check_line
from cushion.verifier.tails import bound_holds

Answering = Callable[[Any], Answers]  # what f answers on unlabelled Inputs

_TOLERANCE = re.compile(r"(0|[1-9][0-9]{0,17})\.[0-9]{1,18}", re.ASCII)
_EXACT = Context(prec=60)  # sums of decimals with at most 18 places are exact


def check_transfer_fields(claim: OccamClaim, line: Transfer) -> None:
    """Malformed unless the numbers are of the kind that the format allows."""
    check_counts(line.disagreements, line.m, "disagreements", "unlabelled inputs")
    check_fingerprint(line.net_fingerprint, "the fingerprint of f")
    check_fingerprint(line.data_fingerprint, "the fingerprint of the unlabelled inputs")
    check_line(line.delta, line.bound)
    check_line(line.delta, line.bound_f)
    if not _TOLERANCE.fullmatch(line.tolerance) or not Decimal(line.tolerance) > 0:
        raise Malformed("the tolerance must be a plain decimal above 0, such as 0.001")
    if _EXACT.add(Decimal(claim.delta), Decimal(line.delta)) > Decimal("0.5"):
        raise Malformed(
            "the failure probabilities of g's bound and of the disagreements exceed 0.5 together"
        )


def transfer_fault(claim: OccamClaim, line: Transfer) -> str:
    """Why the stated counts do not imply the bound on f; empty if they do."""
    if not bound_holds(line.disagreements, line.m, 0, Decimal(line.delta), Decimal(line.bound)):
        return (
            f"{line.disagreements} disagreements on {line.m} unlabelled inputs do not imply "
            f"{line.bound}"
        )
    total = min(Decimal(1), _EXACT.add(Decimal(claim.bound), Decimal(line.bound)))
    if Decimal(line.bound_f) != total:
        return (
            f"the bound on f must be {claim.bound} + {line.bound}, and at most 1, not "
            f"{line.bound_f}"
        )
    return ""


def transfer_replay_fault(
    g: IntegerNet, line: Transfer, data: Examples, inputs: Inputs, answering: Answering
) -> str:
    """Why the inputs and f do not confirm the stated count; empty if they do.

    Rows whose gap lies between half and one and a half of the tolerance may fall on either side on
    another machine (each score may differ by a quarter of it, so a gap by half of it): the stated
    count must lie between the counts that have all of them agree and all of them disagree. The
    smaller one is what the bound on f needs here.
    """
    stated = (line.m, line.data_fingerprint)
    what = "unlabelled inputs"
    if fault := identity_fault(inputs.name, len(inputs.x), inputs.fingerprint, stated, what):
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
    fewest = int((differ | ~(f.gaps > 0.5 * tolerance)).sum())
    most = int((differ | ~(f.gaps > 1.5 * tolerance)).sum())
    if fewest <= line.disagreements <= most:
        return ""
    counted = str(most) if fewest == most else f"{fewest} to {most}"
    return (
        f"f and g disagree on {counted} of the unlabelled inputs, not {line.disagreements} as "
        "stated"
    )

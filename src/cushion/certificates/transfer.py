"""From g back to f: fresh unlabelled inputs bound how often the user's net f and g disagree.

Wherever f errs on an example, g errs on it too or the two answers differ. So L(f) ≤ L(g) + P[f(x) ≠
g(x)], and the last term is a coin's probability that unlabelled inputs estimate: BinInv of the
disagreements, as on held-out labels.
"""

from __future__ import annotations

import dataclasses
from decimal import ROUND_CEILING, ROUND_DOWN, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.certificate import Certificate
from cushion.certificates.format.claims import (
    Answers,
    OccamClaim,
    PicksClaim,
    Transfer,
    assumptions_of,
)
from cushion.certificates.format.message import decode
from cushion.certificates.sample_assumptions import notes_on_inputs
from cushion.data.inputs import Inputs
from cushion.data.rows import count_repeated
from cushion.errors import BadInput, remark
from cushion.theorems.occam import holdout_bound

SHARE_OF_G = Decimal("0.8")  # of the total failure probability; the rest pays for the disagreements
# of a typical largest score: a hundred times what float32 sums differ by between machines
RELATIVE_TOLERANCE = 1e-4
COARSE_TOLERANCE = 0.03  # the same for half precision, whose sums round by up to 2^-8 a step
_EXACT = Context(prec=60)
_LAST_PLACE = Decimal("1e-18")


def split_delta(total: Decimal, first: Decimal = SHARE_OF_G) -> tuple[Decimal, Decimal]:
    """Two shares, usually of g and of the disagreements, which sum to the total exactly.

    >>> split_delta(Decimal("0.05"))
    (Decimal('0.04'), Decimal('0.01'))
    """
    part = _EXACT.multiply(total, first)
    share = part.quantize(_LAST_PLACE, ROUND_DOWN, _EXACT).normalize(_EXACT)
    rest = _EXACT.subtract(total, share).normalize(_EXACT)
    if not (share > 0 and rest > 0):
        raise BadInput(f"`delta` = {total} is too small to be shared")
    return share, rest


def choose_tolerance(largest: NDArray[np.float64], relative: float = RELATIVE_TOLERANCE) -> Decimal:
    """The gap between f's two largest scores up to which an answer counts as a disagreement.

    largest: [m], the largest magnitude among f's scores of each row of the *sample*. The rule is
    fixed: `relative` times their median, rounded up to two digits. The unlabelled inputs play no
    part.

    >>> choose_tolerance(np.array([9.0, 12.345, 50.0]))
    Decimal('0.0013')
    """
    typical = Decimal(relative * float(np.median(largest)))
    if typical <= _LAST_PLACE:
        return _LAST_PLACE
    place = max(_LAST_PLACE, Decimal(1).scaleb(typical.adjusted() - 1))
    tolerance = typical.quantize(place, ROUND_CEILING, _EXACT)
    if tolerance >= 10**18:
        raise BadInput("the net's scores are too large to state a tolerance; scale them down")
    return tolerance


def count_disagreements(g: NDArray[np.int64], f: Answers, tolerance: Decimal) -> int:
    """Rows with different answers; so count ties in g (-1) and gaps within f's tolerance."""
    return int(((g < 0) | (f.classes != g) | ~(f.gaps > float(tolerance))).sum())


def transfer(
    certificate: Certificate,
    inputs: Inputs,
    answers: Answers,
    tolerance: Decimal,
    delta: Decimal,
    classes: NDArray[np.int64] | None = None,
) -> Certificate:
    """The certificate with the bound on f added.

    With probability ≥ 1 - claim.delta - delta over the draws of the sample and of `inputs`, L(f) ≤
    claim.bound + BinInv(disagreements; n, delta). `inputs` are i.i.d. and neither f nor g nor the
    tolerance was chosen by looking at them. `answers`: what f says on them; `classes`: [n] what g
    says, -1 for a tie, where the message is not g itself. docs/derivations.md, section 1.
    """
    claim = certificate.claim
    assert isinstance(claim, OccamClaim | PicksClaim)
    if isinstance(claim, OccamClaim):
        classes = decode(certificate.message, claim.bits).answers(inputs.x)
    assert classes is not None
    if again := count_repeated(inputs.x):
        remark(
            f"{again} of the {len(inputs)} inputs of {inputs.name} repeat earlier ones: the bound "
            "is about independent draws, and false if rows were copied; then give each once"
        )
    disagreements = count_disagreements(classes, answers, tolerance)
    bound = holdout_bound(disagreements, len(inputs), delta)
    line = Transfer(
        net_fingerprint=answers.net_fingerprint,
        data_fingerprint=inputs.fingerprint,
        m=len(inputs),
        disagreements=disagreements,
        tolerance=_plain(tolerance),
        delta=_plain(delta),
        bound=bound,
        bound_f=_plain(min(Decimal(1), _EXACT.add(Decimal(claim.bound), Decimal(bound)))),
        program=answers.program,
    )
    assumed = assumptions_of(
        claim.kind,
        holdout=claim.holdout is not None,
        transfer=True,
        features=getattr(claim, "features", None) is not None,
    )
    notes = {**claim.made_with, **notes_on_inputs(inputs)}
    changed = dataclasses.replace(claim, transfer=line, assumptions=assumed, made_with=notes)
    return dataclasses.replace(certificate, claim=changed)


def _plain(value: Decimal) -> str:
    """The decimal without exponent, with at least one digit behind the point."""
    text = format(value, "f")
    return text if "." in text else f"{text}.0"

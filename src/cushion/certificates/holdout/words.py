"""A hold-out certificate in words; percentages are rounded up."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal

from cushion.certificates.format.holdout_claim import HoldoutClaim, Line, Selective
from cushion.numerics import counted, percent_up


def statement(claim: HoldoutClaim) -> str:
    """What is proved about all examples together."""
    rows = f"{spaced(claim.m)} held-out examples"
    if Decimal(claim.bound) >= 1:
        return f"Vacuous: these {rows} prove nothing about the errors of your net f on new ones."
    sure = f"{((1 - Decimal(claim.delta)) * 100).normalize():f} %"
    return (
        f"With probability at least {sure}, your net f errs on at most {percent_up(claim.bound)} "
        "of new examples."
    )


def count_sentence(claim: HoldoutClaim) -> str:
    """The count behind it, and what was told about these rows before."""
    among = f"the {spaced(claim.m)} held-out examples of {claim.data}"
    errors = spaced(claim.errors)
    if (look := claim.look) is None:
        return f"It errs on {errors} of {among}; that this is their first use is assumed."
    told = "nothing was told before it"
    if look.number > 1:
        were = "was" if look.bits_before == 1 else "were"
        told = f"it pays the {counted(spaced(look.bits_before), 'bit')} that {were} told before it"
    return f"It errs on at most {errors} of {among}. This is look {look.number}; {told}."


def other_sentences(claim: HoldoutClaim, labels: Sequence[int | str] | None = None) -> list[str]:
    """The other lines, which share δ with the overall one, each in words."""
    found = [_line(line, labels) for line in claim.lines]
    if (chosen := claim.selective) is not None:
        found.append(_selective(chosen))
    if found:
        found.insert(0, f"All of this together fails with probability at most {claim.delta}:")
    return found


def _line(line: Line, labels: Sequence[int | str] | None) -> str:
    errors = "" if line.errors is None or line.m is None else f" ({_among(line.errors, line.m)})"
    if line.what == "top":
        what = f"the true class is not among its {spaced(line.which)} best scored ones"
        return f"{what}: at most {percent_up(line.bound)} of new examples{errors}"
    name = line.which if labels is None else labels[line.which]
    return f"of class {name} it errs on at most {percent_up(line.bound)}{errors}"


def _among(errors: int, m: int) -> str:
    return f"{counted(spaced(errors), 'error')} on {spaced(m)}"


def _selective(line: Selective) -> str:
    risk = percent(Decimal(line.risk))
    if line.threshold is None:
        return (
            f"no threshold of the grid leaves an error of at most {risk} on what it answers: more "
            "held-out examples would help, or a larger risk"
        )
    covered = (1 - Decimal(line.bound_refused)) * 100
    shown = f"{covered.quantize(Decimal('0.01'), ROUND_FLOOR):f} %"
    errors = "" if line.errors is None or line.m is None else f" ({_among(line.errors, line.m)})"
    return (
        f"where its two largest scores are more than {line.threshold} apart it errs on at most "
        f"{risk} of what it answers{errors}, and it answers at least {shown} of new examples"
    )


def percent(share: Decimal) -> str:
    """A share as people write it.

    >>> percent(Decimal("0.01"))
    '1 %'
    """
    return f"{(share * 100).normalize():f} %"


def short(share: str) -> str:
    """A part of δ with four digits; the file has all of them.

    >>> short("0.025000000000000005"), short("0.000833333333333333")
    ('0.025', '0.0008333')
    """
    return f"{Context(prec=4).create_decimal(share).normalize():f}"


def spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")

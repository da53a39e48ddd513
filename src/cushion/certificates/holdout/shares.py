"""How δ is shared among the lines of one hold-out certificate, and what a look leaves of a share.

The shares are a rule and no choice: half of δ to the overall line where others are asked for, the
other half in equal parts to the groups of them (classes, top-k, selective); within a group equal
again: each class, and of the selective line the errors and the refusals. Rounded down to 18 places;
the overall line has what is left, so that all of them sum to δ exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

from cushion.certificates.format.holdout_claim import Look
from cushion.errors import BadInput

_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
_LAST_PLACE = Decimal("1e-18")


@dataclass(frozen=True)
class Shares:
    """Of δ, one for each line; 0 where a line is not asked for.

    overall: the error of all. each_class: of one class. top: the top-k errors. errors, refused: of
    the selective line.
    """

    overall: Decimal
    each_class: Decimal
    top: Decimal
    errors: Decimal
    refused: Decimal


def share_delta(delta: Decimal, classes: int, top: bool, selective: bool) -> Shares:
    """The shares for so many class lines (0: none asked for), and the other lines.

    >>> share_delta(Decimal("0.05"), 10, True, False).each_class  # half of half, for 10 classes
    Decimal('0.001250000000000000')
    """
    groups = (classes > 0) + top + selective
    if not groups:
        return Shares(delta, *[Decimal(0)] * 4)
    each_class = _part(delta, 2 * groups * classes) if classes else Decimal(0)
    whole = _part(delta, 2 * groups) if top else Decimal(0)
    half = _part(delta, 4 * groups) if selective else Decimal(0)
    if not all((each_class or not classes, whole or not top, half or not selective)):
        raise BadInput(f"`delta` = {delta} is too small to be shared among the lines asked for")
    others = _DOWN.add(_DOWN.multiply(each_class, classes), _DOWN.add(whole, 2 * half))
    return Shares(_DOWN.subtract(delta, others), each_class, whole, half, half)


def _part(delta: Decimal, parts: int) -> Decimal:
    return _DOWN.divide(delta, parts).quantize(_LAST_PLACE, ROUND_FLOOR, _DOWN)


def left(share: Decimal, look: Look | None, among: int = 1) -> tuple[Decimal, int]:
    """(δ', bits): what one bound may fail with is δ'·2^-bits, rounded down.

    A share is divided among so many bounds (`among`: thresholds); of look k there is left the part
    2^-bits_before/(k(k+1)) (docs/holdout.md).
    """
    if look is None:
        return _DOWN.divide(share, among), 0
    parts = among * look.number * (look.number + 1)
    return _DOWN.divide(share, parts), look.bits_before

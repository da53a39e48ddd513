"""Which lines a ledger of looks may have: exactly these keys, each of its kind and range."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from cushion.certificates.holdout import grid
from cushion.certificates.holdout.lines import Asked, Told
from cushion.data.labels import MOST_CLASSES
from cushion.errors import Malformed

_MOST_ROWS = 10**7
_HEX = re.compile("[0-9a-f]{64}")
_SHARE = re.compile(r"0\.[0-9]{1,18}", re.ASCII)
# what would steer a terminal, or forge a line of `status` (FORMAT.md, section 2)
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_TOLERANCE = re.compile(r"(0|[1-9][0-9]{0,17})\.[0-9]{1,18}", re.ASCII)


def is_printable(text: str) -> bool:
    """Whether nothing in the text steers a terminal, ends a line or reorders it."""
    return _UNPRINTABLE.search(text) is None


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _form(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and pattern.fullmatch(value) is not None


def _or_none(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


def _positive(value: Any) -> bool:
    return _form(_TOLERANCE)(value) and Decimal(value) > 0


def _share(value: Any) -> bool:
    return _form(_SHARE)(value) and Decimal(value) > 0


_OPENING = {
    "looks": _whole(1, 1),  # the version
    "data": lambda value: type(value) is str and is_printable(value),
    "data_fingerprint": _form(_HEX),
    "m": _whole(1, _MOST_ROWS),
    "classes": _whole(2, MOST_CLASSES),
    "delta": lambda value: _share(value) and Decimal(value) <= Decimal("0.5"),
}
_REQUEST = {
    "look": _whole(1, 10**6),
    "net_fingerprint": _form(_HEX),
    "program": _or_none(_form(_HEX)),
    "tolerance": _positive,
    "per_class": lambda value: type(value) is bool,
    "top_k": _or_none(_whole(1, MOST_CLASSES)),
    "selective": _or_none(_share),
}
_ANSWER = {
    "answer": _whole(1, 10**6),
    "said": lambda value: value in ("counted", "no better", "failed"),
    "errors": _or_none(lambda value: type(value) is int),
    "rates": lambda value: type(value) is list,
    "chosen": _or_none(lambda value: type(value) is list and len(value) == 2),
    "bits": _whole(1, 2**22),
}


def check_opening(obj: dict[str, Any]) -> None:
    """Malformed unless this is how a ledger begins."""
    _check(obj, _OPENING, "the first line of a ledger of looks")


def check_request(obj: dict[str, Any], number: int) -> None:
    """Malformed unless this is look `number`."""
    _check(obj, _REQUEST, f"the line of look {number}")
    if obj["look"] != number:
        raise Malformed(f"look {number} is missing")


def check_answer(
    obj: dict[str, Any], number: int, m: int, classes: int, asked: Asked, best: int | None
) -> Told | None:
    """What look `number` was told; Malformed unless it can have had this answer."""
    _check(obj, _ANSWER, f"the answer of look {number}")
    if obj["answer"] != number:
        raise Malformed(f"the answer of look {number} is missing")
    told, bits = None, grid.NO_BETTER_BITS
    if obj["said"] == "counted":
        told = _told(obj, m, classes, asked, best)
        bits = told.bits(m, best)
    elif obj["said"] == "failed":
        bits = grid.failed_bits(best)
    empty = obj["errors"] is None and not obj["rates"] and obj["chosen"] is None
    if (told is None) != empty or (obj["said"] == "no better" and best is None):
        raise Malformed(f"look {number} cannot have had this answer")
    if obj["bits"] != bits:
        raise Malformed(f"the answer of look {number} costs {bits} bits and not {obj['bits']}")
    return told


def _told(obj: dict[str, Any], m: int, classes: int, asked: Asked, best: int | None) -> Told:
    errors, rates, chosen = obj["errors"], obj["rates"], obj["chosen"]
    lines = (classes if asked.per_class else 0) + (asked.top_k is not None)
    known = set(grid.rates())
    fits = (
        errors in grid.counts(m)
        and (best is None or errors < best)
        and len(rates) == lines
        and all(type(rate) is int and rate in known for rate in rates)
        and (chosen is None) == (asked.selective is None)
    )
    if fits and chosen is not None:
        threshold, rate = chosen
        fits = type(rate) is int and rate in known
        fits &= _or_none(_whole(0, len(grid.thresholds()) - 1))(threshold)
        fits &= threshold is not None or rate == grid.PARTS
    if not fits:
        raise Malformed(f"look {obj['answer']} cannot have had this answer")
    return Told(errors, tuple(rates), None if chosen is None else tuple(chosen))


def _check(obj: dict[str, Any], tests: dict[str, Callable[[Any], bool]], what: str) -> None:
    if obj.keys() != tests.keys() or not all(test(obj[key]) for key, test in tests.items()):
        raise Malformed(f"it is not {what}")

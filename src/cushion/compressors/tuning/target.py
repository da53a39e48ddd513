"""What a person asks of the compressed net, and which of two settings is nearer to it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from cushion.compressors.tuning.records import Setting
from cushion.errors import BadInput

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kmg]?i?b)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(%?)", re.ASCII)


@dataclass(frozen=True)
class Target:
    """At most one of errors and size; neither: the smallest bound.

    errors: at most so many of the `rows` on which it is checked. size: bytes of the file, at most.
    """

    words: str
    rows: int
    errors: int | None = None
    size: int | None = None

    def met(self, one: Setting) -> bool:
        if self.errors is not None:
            return one.checked_errors <= self.errors
        return self.size is None or one.bytes <= self.size

    def rank(self, one: Setting) -> tuple[float, ...]:
        """Smaller is better: what meets the target first; of it the smallest file, or with the
        fewest errors where the size was asked for; of the others the nearest.
        """
        met, errors = self.met(one), one.checked_errors
        if self.errors is not None:
            return (0, one.bytes, errors) if met else (1, errors, one.bytes)
        if self.size is not None:
            return (0, errors, one.bytes) if met else (1, one.bytes, errors)
        return (one.exact_bound, one.bytes)


def choose_target(
    *,
    max_error: str | None,
    lose: str | None,
    max_size: str | None,
    bound: bool,
    before: int,
    m: int,
) -> Target:
    """The target that these words say; without any, at most one point of error more than before.

    before: errors of the net as it is on the `m` rows.
    """
    given = {"max_error": max_error, "lose": lose, "max_size": max_size}
    names = [name for name, value in given.items() if value is not None]
    names += ["min_bound"] if bound else []
    if len(names) > 1:
        raise BadInput(f"`{names[0]}` and `{names[1]}` are two targets; give one of them")
    if bound:
        return Target("the smallest bound", m)
    if max_size is not None:
        size = read_size(max_size)
        unit = "byte" if size == 1 else "bytes"
        return Target(f"at most {size} {unit}", m, size=size)
    if max_error is not None:
        share = read_share(max_error)
        return Target(
            f"at most {100 * share:g} % of errors", m, errors=math.floor(share * m + 1e-9)
        )
    points = read_points("1" if lose is None else lose)
    unit = "point" if points == 1 else "points"
    words = f"at most {points:g} {unit} of error more"
    return Target(words, m, errors=before + math.floor(points / 100 * m + 1e-9))


def read_size(text: str) -> int:
    """Bytes of a text such as 20kB or 1.5 MiB."""
    found = _SIZE.fullmatch(text)
    unit = _UNITS.get((found[2] or "").lower(), 0) if found else 0
    size = int(Fraction(found[1]) * unit) if found else 0
    if size < 1:
        raise BadInput(f"`max_size` = {text} must be a size such as 20kB or 1.5MB")
    return size


def read_share(text: str) -> float:
    """A fraction of a text such as 3% or 0.03."""
    found = _NUMBER.fullmatch(text)
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share < 1:
        raise BadInput(f"`max_error` = {text} must be a share of errors such as 3% or 0.03")
    return share


def read_points(text: str) -> float:
    """Percentage points of a text such as 0.5."""
    found = _NUMBER.fullmatch(text)
    points = float(found[1]) if found else -1.0
    if not 0 <= points < 100:
        raise BadInput(f"`lose` = {text} must be percentage points of error such as 0.5")
    return points

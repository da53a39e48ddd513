"""The values of a stored description, each checked: a description may come from anywhere."""

from __future__ import annotations

import math
from typing import Any

LARGEST = 1 << 28  # numbers of one map, and of all weights together


def sides(value: Any) -> tuple[int, ...]:
    found = tuple(whole(side) for side in value)
    if not found or min(found) < 1 or math.prod(found) > LARGEST:
        raise ValueError("a shape has sides of at least 1")
    return found


def whole(value: Any, least: int = 0) -> int:
    """A whole number of at least `least`."""
    if type(value) is not int or not least <= value <= LARGEST:
        raise TypeError("not a whole number")
    return value


def two(value: Any, least: int = 0) -> tuple[int, int]:
    first, second = (whole(side, least) for side in value)
    return first, second


def flag(value: Any) -> bool:
    """True or false, and not 1 or 0."""
    if type(value) is not bool:
        raise TypeError("neither true nor false")
    return value

"""What a reader should know of the setting that was taken among several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Tried(Protocol):
    """One setting on one grid; the one with the smallest bound is chosen."""

    @property
    def asked(self) -> str: ...
    @property
    def grid(self) -> str: ...
    @property
    def errors(self) -> int: ...
    @property
    def bound(self) -> float: ...
    @property
    def chosen(self) -> bool: ...


def worthless(tried: Sequence[Tried], classes: int) -> list[str]:
    """A word where the smallest bound, by which a setting was taken, is no better than guessing."""
    gentlest = min(tried, key=lambda one: one.errors)
    if len(tried) == 1 or gentlest.chosen or min(one.bound for one in tried) < 1 - 1 / classes:
        return []
    return [
        "no setting has a bound better than guessing; the smallest was taken all the same, and "
        f"{gentlest.asked} with grid {gentlest.grid} errs least ({gentlest.errors} of the "
        "examples): ask for it alone to get that net"
    ]

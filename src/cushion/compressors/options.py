"""Options of a method, as a user gives them: one number stands for a list of one; no torch."""

from __future__ import annotations

import re
from typing import Any

from cushion.errors import BadInput
from cushion.records import Options, option
from cushion.records.options import Option, options_of

BEST_GRIDS = (2, 3, 4, 5, 6, 8)  # bits of a weight that `grid` = best tries
_MOST_TRIED = 64
_GRID = re.compile("[0-9]{1,2}", re.ASCII)


class MethodOptions(Options):
    """Options of a method; what they mean, their ranges and defaults stand in their fields."""

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            value = _plain(one, getattr(self, one.name))
            object.__setattr__(self, one.name, value)
            if value == "":
                raise BadInput(f"`{one.name}` must not be empty")
            if one.many and isinstance(value, tuple) and len(value) > _MOST_TRIED:
                raise BadInput(f"`{one.name}` lists more than {_MOST_TRIED} values to try")
        super().__post_init__()

    def check(self, method: str) -> None:
        """BadInput where a combination makes no sense for the method."""

    def settings(self) -> dict[str, Any]:
        """Every option by name, as it was given or by default, for records and files."""
        return {name: _joined(value) for name, value in vars(self).items()}


class MarginOptions(MethodOptions):
    """The margin γ of the net, which every method that compresses a net asks for."""

    gamma: float | None = option(
        None,
        "the margin that must survive, from which accuracy follows (default: see `level`)",
        above=0,
    )
    level: float = option(
        0.05, "gamma is the margin that all but this fraction exceed", least=0, below=1
    )


def grids_of(grid: str, *words: str) -> tuple[int, ...]:
    """The bits of a weight that a `grid` stands for; () for a word that is not "best"."""
    if grid in words:
        return BEST_GRIDS if grid == "best" else ()
    if not (_GRID.fullmatch(grid) and 2 <= int(grid) <= 32):
        raise BadInput(
            f"`grid` = {grid} must be {', '.join(words)}, or the bits of a weight, from 2 to 32"
        )
    return (int(grid),)


def _plain(one: Option, value: Any) -> Any:
    """A list or array as a tuple, one value as a list of one, a whole float as an int."""
    if one.many and value is not None:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, str) and one.kind is str:
            value = tuple(part.strip() for part in value.split(","))
        many = tuple(value) if isinstance(value, list | tuple) else (value,)
        return tuple(float(v) if one.kind is float and type(v) is int else v for v in many)
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if one.kind is str and type(value) is int and not one.choices:
        return str(value)
    whole = one.kind is int and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _joined(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    return ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in value)

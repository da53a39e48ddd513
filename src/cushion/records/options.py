"""Options as dataclasses that check themselves; the command line makes its flags from them.

A refusal names the parameter in backticks and its value, as Python knows them; the command line
turns the backticks into flags.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cushion.errors import BadInput
from cushion.records.record import Frozen

_KEY = "cushion.option"


@dataclass(frozen=True)
class Option:
    """One option: its type without None, its range, and what it means.

    kind: of one value; `many` if it takes several. least and most are allowed, above and below not.
    """

    name: str
    kind: type
    many: bool
    optional: bool
    default: Any
    meaning: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    shown: str = ""
    flag: str = ""

    @property
    def rule(self) -> str:
        """What a value must be, for the sentence that refuses another."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "True or False"
        if self.kind is str:
            return "words" if self.many else "a word"
        noun = "whole number" if self.kind is int else "number"
        words = ("of at least", "above", "at most", "below")
        limits = zip(words, (self.least, self.above, self.most, self.below), strict=True)
        said = " and ".join(f"{word} {_limit(at)}" for word, at in limits if at is not None)
        text = f"{noun}s {said}".strip() if self.many else f"a {noun} {said}".strip()
        return f"{text}, such as {_shown(self.default)}" if self.many and self.default else text

    def accepts(self, value: Any) -> bool:
        """Whether the option takes the value."""
        if value is None and self.optional:
            return True
        if not self.many:
            return self._takes(value)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
            return False
        empty_is_meant = self.default == ()
        return (len(value) > 0 or empty_is_meant) and all(map(self._takes, value))

    def check(self, value: Any) -> None:
        """BadInput unless the option takes the value."""
        if not self.accepts(value):
            raise BadInput(f"`{self.name}` must be {self.rule}, not {_shown(value) or 'nothing'}")

    def _takes(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if self.kind in (bool, str):
            return type(value) is self.kind
        if isinstance(value, bool) or not isinstance(value, Real):  # numpy's numbers are real too
            return False
        number: Any = value
        return (
            (float(number).is_integer() if self.kind is int else math.isfinite(number))
            and (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
            and (self.below is None or number < self.below)
        )


def _limit(limit: float) -> str:
    """A limit as people write it: 2^63 rather than 9.22337e+18."""
    power = int(limit).bit_length() - 1 if limit >= 2**20 else 0
    return f"2^{power}" if power and limit == 2**power else f"{limit:g}"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(_shown, value)) if isinstance(value, tuple | list) else str(value)


def option(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    shown: str = "",
    flag: str = "",
) -> Any:
    """A field of an Options class: its default, what it means, and its range.

    shown: what help prints for the value. flag: the name on the command line where it is not the
    field's own. The type, its choices (Literal) and whether None is allowed are read off the
    annotation.
    """
    limits = {"least": least, "above": above, "most": most, "below": below}
    said = {"meaning": meaning, **limits, "shown": shown, "flag": flag}
    return dataclasses.field(default=default, metadata={_KEY: said})


class Options(Frozen):
    """A frozen dataclass: every field made by `option` is checked when one is built."""

    def __post_init__(self) -> None:
        for one in options_of(self.__class__):
            one.check(getattr(self, one.name))


def options_of(cls: type) -> tuple[Option, ...]:
    """The options of an Options class, in order."""
    hints = get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        if (said := field.metadata.get(_KEY)) is not None:
            kind, many, optional, choices = _kind(hints[field.name])
            given = (field.name, kind, many, optional, field.default)
            found.append(Option(*given, choices=choices, **said))
    return tuple(found)


def _kind(hint: Any) -> tuple[type, bool, bool, tuple[str, ...]]:
    """(type of a value, whether several, whether None is allowed, choices) of an annotation."""
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        kind, many, _, choices = _kind(rest[-1])
        return kind, many, NoneType in get_args(hint), choices
    if get_origin(hint) is tuple:
        kind, _, _, choices = _kind(get_args(hint)[0])
        return kind, True, False, choices
    if get_origin(hint) is Literal:
        return str, False, False, get_args(hint)
    return hint, False, False, ()

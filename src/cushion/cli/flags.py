"""Flags from options, and sentences about parameters as sentences about flags.

A flag's name, type, range, default and help are those of a field made by `records.option`; nothing
of it stands here a second time. The library names parameters in backticks (`minutes` = 0), and
`translate` makes flags of them (--minutes 0).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from cushion.records.options import Option, options_of

Chosen = TypeVar("Chosen")
_NAMED = re.compile(r"`(\w+)`( = )?")
# Parameters of Python whose flags have other names, by verb.
_ALIASES = {
    "out": ("-o",),
    "model": ("--net",),
    "scale": ("--sharpness-scale", "--feature-scale"),
    "offset": ("--sharpness-offset", "--feature-offset"),
    "rounds": ("--prune-rounds",),
    "to": ("--prune-to",),
    "fraction": ("--prune-fraction",),
    "scope": ("--prune-scope",),
    "rewind": ("--rewind-epoch",),
}


def translate(sentence: str, flags: Collection[str]) -> str:
    """The sentence with every parameter that has one of these flags under the flag's name.

    >>> translate("`minutes` = 0 must be above 0; see `x`", {"--minutes"})
    '--minutes 0 must be above 0; see `x`'
    """

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        own = f"--{name.replace('_', '-')}"
        found = next((one for one in (own, *_ALIASES.get(name, ())) if one in flags), None)
        if found is None:
            return "NET" if name == "model" else match[0]
        return f"{found}{' ' if match[2] else ''}"

    return _NAMED.sub(flag, sentence)


def translated(value: Any, flags: Collection[str]) -> Any:
    """A JSON value whose texts are translated; keys stay."""
    if isinstance(value, str):
        return translate(value, flags)
    if isinstance(value, Mapping):
        return {key: translated(part, flags) for key, part in value.items()}
    return [translated(part, flags) for part in value] if isinstance(value, list | tuple) else value


def add_options(parser: Any, cls: type, *, leave_out: Collection[str] = ()) -> None:
    """A flag for each option of the class; what is not given stays None."""
    for one in options_of(cls):
        if one.name not in leave_out:
            add_option(parser, one)


def add_option(parser: Any, one: Option, text: str = "", read: Any = None) -> None:
    """One flag; text: its help, where that is not its meaning; read: its reader, if not its own."""
    text = (text or help_of(one)).replace("%", "%%")
    flag, kept = flag_of(one), _kept_as(one)
    if one.kind is bool:
        parser.add_argument(flag, dest=kept, action="store_true", default=None, help=text)
        return
    shown = one.shown or {int: "N", float: "F"}.get(one.kind, "|".join(one.choices) or "WORD")
    if one.many and not one.shown:
        shown = f"{shown},{shown}"
    parser.add_argument(flag, dest=kept, type=read or _reader(one), metavar=shown, help=text)


def help_of(one: Option) -> str:
    """Its meaning and its default."""
    if one.default in (None, (), "", False):
        return one.meaning
    values = one.default if one.many else (one.default,)
    shown = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return f"{one.meaning} (default {','.join(shown)})"


def from_flags(cls: type[Chosen], args: argparse.Namespace, **fixed: Any) -> Chosen:
    """The options that were given, and the class's own defaults for the rest."""
    return cls(**given(cls, args) | fixed)


def given(cls: type, args: argparse.Namespace) -> dict[str, Any]:
    """The options of the class that were given, by the names of their fields."""
    found = {one.name: getattr(args, _kept_as(one), None) for one in options_of(cls)}
    return {name: value for name, value in found.items() if value is not None}


def flag_of(one: Option) -> str:
    """What the option is called on the command line.

    >>> flag_of(Option("max_alpha", float, False, False, 1.0, ""))
    '--max-alpha'
    """
    return f"--{one.flag or one.name.replace('_', '-')}"


def _kept_as(one: Option) -> str:
    """Its name among the parsed arguments; fields of one name in two classes may have two flags."""
    return (one.flag or one.name).replace("-", "_")


def _reader(one: Option) -> Any:
    """From the text behind a flag to a value; argparse prints the sentence of a refusal."""

    def read(text: str) -> Any:
        try:
            value = value_of(one, text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be {one.rule}, not '{text}'") from None
        if not one.accepts(value):
            raise argparse.ArgumentTypeError(f"must be {one.rule}, not {text or 'nothing'}")
        return value

    return read


def value_of(one: Option, text: str) -> Any:
    """What the text behind a flag says; ValueError where it is no such number."""
    return tuple(map(one.kind, text.split(","))) if one.many else one.kind(text)

"""Tables and legends for people, drawn from what records say of their own fields.

Tables are as wide as the terminal (100 columns where there is none; COLUMNS overrides both): what
does not fit side by side is continued below, under the first column repeated.
"""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from cushion.numerics import percent_up
from cushion.records import Column, Record, columns_of

_PIPED = 100
_GAP = 2
_NARROWEST = 16  # characters that a column of sentences keeps in any case


def width() -> int:
    """Characters of a line."""
    if (asked := os.environ.get("COLUMNS", "")).isdigit():
        return max(20, int(asked))
    return os.get_terminal_size().columns if sys.stdout.isatty() else _PIPED


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of text, numbers to the right; sentences are wrapped, and what is too wide continues.

    >>> print(table(["name", "n"], [["a", 1], ["bc", 20]]))
    name   n
    a      1
    bc    20
    """
    cells = [[str(cell) for cell in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[at], int | float) for row in rows)
        for at in range(len(header))
    ]
    widths = [_width(header[at], [row[at] for row in cells]) for at in range(len(header))]
    blocks = [
        _block(
            [header[at] for at in part], [[row[at] for at in part] for row in cells], right, part
        )
        for part in _parts(widths)
    ]
    return "\n\n".join(blocks)


def records(rows: Sequence[Record], *names: str) -> str:
    """A table of records, one a row: the fields named, or all described ones; empty ones are left
    out.
    """
    kept = [
        column
        for column in columns_of(type(rows[0]), *names)
        if any(getattr(row, column.name) not in (None, (), "") for row in rows)
    ]
    return table(
        [column.label for column in kept],
        [[cell(column, getattr(row, column.name)) for column in kept] for row in rows],
    )


def facts(record: Record, *names: str) -> str:
    """One record as lines "label  value", for what is no list; empty fields are left out."""
    found = [(column, getattr(record, column.name)) for column in columns_of(record, *names)]
    return table(
        ["", ""],
        [[column.label, cell(column, value)] for column, value in found if value is not None],
    ).lstrip("\n")


def legend(cls: type, *names: str) -> str:
    """What the columns mean, one a line."""
    lines = []
    for column in columns_of(cls, *names):
        source = f" ({column.source})" if column.source else ""
        lines += textwrap.wrap(
            f"{column.label}: {column.meaning}{source}", width(), subsequent_indent="  "
        )
    return "\n".join(lines)


def cell(column: Column, value: Any) -> Any:
    """A value as its column's unit is printed; whole numbers stay numbers."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if column.unit == "bound":
        return "vacuous" if float(value) >= 1 else percent_up(str(value))
    if column.unit == "error":
        return f"{100 * value:.2f} %"
    if column.unit == "log10":
        return f"10^{value:.1f}" if abs(value) > 6 else f"{10**value:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return "x".join(map(str, value))
    return getattr(value, "value", value) if isinstance(value, Record) else value


def _width(head: str, cells: Sequence[str]) -> int:
    """What a column asks for: all of its words in one line, but no more than a line of
    sentences.
    """
    return min(max(map(len, (head, *cells)), default=0), max(_NARROWEST, width() // 2))


def _parts(widths: Sequence[int]) -> list[list[int]]:
    """Columns that fit beside each other; the first column opens every part."""
    parts: list[list[int]] = [[]]
    for at, wide in enumerate(widths):
        used = sum(widths[k] + _GAP for k in parts[-1])
        if len(parts[-1]) > 1 and used + wide > width():
            parts.append([0])
        parts[-1].append(at)
    return parts


def _block(
    header: list[str], rows: list[list[str]], right: Sequence[bool], part: Sequence[int]
) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_edge=False)
    for head, at in zip(header, part, strict=True):
        drawn.add_column(Text(head), justify="right" if right[at] else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    console = Console(width=width(), no_color=True, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))

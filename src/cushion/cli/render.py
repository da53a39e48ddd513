"""Tables, legends and sentences for people, drawn from what records say of their own fields.

Tables are as wide as the terminal (100 columns where there is none; COLUMNS overrides both): what
does not fit side by side is continued below, under the columns that tell the rows apart. Sentences
are wrapped for a terminal, and left alone in a pipe.
"""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len

from cushion.measures.family import View, column_of
from cushion.numerics import percent_up
from cushion.records import Column, Record, columns_of
from cushion.records.text import one_line

_PIPED = 100
_GAP = 2
_NARROWEST = 16  # characters that a column of sentences keeps in any case
Shown = tuple[Column, list[Any], str]  # a column, every row's cell, and the path to its field


def width() -> int:
    return _asked() or _PIPED


def _asked() -> int:
    """What COLUMNS or the terminal says; 0 in a pipe."""
    if (said := os.environ.get("COLUMNS", "")).isdigit():
        return max(20, int(said))
    return os.get_terminal_size().columns if sys.stdout.isatty() else 0


def fitted(text: str) -> str:
    """The text with its sentences wrapped for the terminal; its tables fit already."""
    most = _asked() or sys.maxsize
    lines = []
    for line in text.split("\n"):
        if cell_len(line) <= most:
            lines.append(line)
            continue
        inner = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(line, most, subsequent_indent=inner, break_on_hyphens=False)
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of text, numbers to the right; sentences are wrapped, and what is too wide continues.

    >>> print(table(["name", "n"], [["a", 1], ["bc", 20]]))
    name   n
    a      1
    bc    20
    """
    cells = [[one_line(str(one)) for one in column] for column in zip(header, *rows, strict=True)]
    kinds = zip(*([isinstance(value, int | float) for value in row] for row in rows), strict=True)
    right = [all(kind) for kind in kinds] or [False] * len(header)
    widest = max(_NARROWEST, width() // 2)  # no more than a line of sentences
    widths = [min(max(map(len, column)), widest) for column in cells]
    parts = _parts(widths, _telling(cells, widths))
    return "\n\n".join(_block([(cells[at], right[at]) for at in part]) for part in parts)


def _telling(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[int]:
    """The first column, and those without which rows would look alike, as far as there is room."""
    found = [0]
    for at in range(1, len(cells)):
        more = [*found, at]
        apart, now = (
            len(set(zip(*(cells[k] for k in keys), strict=True))) for keys in (more, found)
        )
        room = sum(widths[k] + _GAP for k in more) + _NARROWEST <= width()
        found = more if apart > now and room else found
    return found


def _parts(widths: Sequence[int], telling: Sequence[int]) -> list[list[int]]:
    """Columns that fit beside each other; those that tell the rows apart open every part."""
    parts: list[list[int]] = [[]]
    for at, wide in enumerate(widths):
        used = sum(widths[k] + _GAP for k in parts[-1])
        if len(parts[-1]) > len(telling) and used + wide > width():
            parts.append([*telling])
        if at not in parts[-1]:
            parts[-1].append(at)
    return parts


def _block(columns: Sequence[tuple[Sequence[str], bool]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_edge=False)
    for cells, right in columns:
        drawn.add_column(Text(cells[0]), justify="right" if right else "left", overflow="fold")
    for row in zip(*(cells[1:] for cells, _ in columns), strict=True):
        drawn.add_row(*map(Text, row))
    console = Console(width=width(), no_color=True, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


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


def facts(record: Record, *names: str) -> str:
    """One record as lines "label  value", for what is no list; empty fields are left out."""
    found = [(column, getattr(record, column.name)) for column in columns_of(record, *names)]
    lines = [[column.label, cell(column, value)] for column, value in found if value is not None]
    return table(["", ""], lines).lstrip("\n")


def records(rows: Sequence[Record], *names: str) -> str:
    """A table of records, one a row: the fields named, or all described ones, unless empty."""
    view = View("", rows, " ".join(names))
    return _table(view, _columns(view))


def show(parts: Iterable[View | str]) -> str:
    """All views, each with the meanings of columns that none before it has shown; texts as is."""
    explained: set[tuple[str, str]] = set()
    return "\n\n".join(
        part if isinstance(part, str) else "\n".join(_lines(part, explained)) for part in parts
    )


def _lines(view: View, explained: set[tuple[str, str]]) -> list[str]:
    columns = _columns(view)
    lines = [view.title] if view.title else []
    if columns:
        lines.append(_table(view, columns))
    for one, _, _ in columns:
        if one.name != "name" and (one.name, one.meaning) not in explained:
            explained.add((one.name, one.meaning))
            lines += legend([one])
    return [*lines, *view.notes]


def legend(columns: Iterable[Column]) -> list[str]:
    """What the columns mean, one a line, as far as their labels do not say it."""
    sources = ((one, f" ({one.source})" if one.source else "") for one in columns if one.meaning)
    return list(dict.fromkeys(f"{one.label}: {one.meaning}{source}" for one, source in sources))


def _columns(view: View) -> list[Shown]:
    """The columns of a view that have a value anywhere."""
    names = view.columns.split() or [one.name for row in view.rows[:1] for one in columns_of(row)]
    found = [(*_column(view.rows, path), path) for path in names]
    return _labelled([(one, cells, path) for one, cells, path in found if one is not None], view)


def _table(view: View, columns: Sequence[Shown]) -> str:
    twins = [_column(view.beside, path)[1] for _, _, path in columns] if view.beside else []
    if view.upright:
        header = ["", "this net", "beside it"] if view.beside else ["", ""]
        own = [[column.label, *cells] for column, cells, _ in columns]
        rows = [[*row, *twin] for row, twin in zip(own, twins or [[]] * len(own), strict=True)]
        return table(header, rows).lstrip("\n")
    header, parts = [], []
    for at, (column, cells, path) in enumerate(columns):
        header.append(column.label)
        parts.append(cells)
        if view.beside and path != "name":
            header.append("beside")
            parts.append(twins[at])
    return table(header, list(zip(*parts, strict=True)))


def _column(rows: Sequence[Record], path: str) -> tuple[Column | None, list[Any]]:
    """What the field at the end of the path is, and every row's cell; None if no row has any."""
    found = [_walk(row, path.split(".")) for row in rows]
    column = next((column for column, value in found if value not in (None, (), "")), None)
    return column, [cell(column, value) for _, value in found] if column else ["-" for _ in found]


def _walk(holder: Any, names: list[str]) -> tuple[Column | None, Any]:
    """The column and the value at the end of a path; a record stands for its value."""
    column = None
    for name in names:
        if holder is None:
            return None, None
        if name.lstrip("-").isdigit():
            holder = holder[int(name)] if len(holder) > int(name) else None
        elif name == "median":
            assert column is not None
            column = replace(column, label=f"{column.label}: median".lstrip(": "))
            holder = holder.quantiles["0.5"]
        else:
            column, holder = column_of(type(holder), name), getattr(holder, name)
    return column, getattr(holder, "value", holder)


def _labelled(columns: list[Shown], view: View) -> list[Shown]:
    """Labels that occur twice are said with those of the records in which the fields differ."""
    result = []
    for column, cells, path in columns:
        alike = [_outer(other) for one, _, other in columns if one.label == column.label]
        own = _outer(path)
        differ = [
            at for at in range(len(own)) if any(one[at : at + 1] != [own[at]] for one in alike)
        ]
        if differ and column.label != "±":
            outer = " ".join(_label(view.rows, own[: at + 1]) for at in differ)
            column = replace(column, label=f"{outer}: {column.label}")
        result.append((column, cells, path))
    return result


def _outer(path: str) -> list[str]:
    return path.removesuffix(".median").split(".")[:-1]


def _label(rows: Sequence[Record], names: list[str]) -> str:
    return next(column.label for row in rows if (column := _walk(row, names)[0]) is not None)

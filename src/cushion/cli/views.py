"""Views (`measures.family.View`) for people: a table, what its columns mean, and sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from cushion.cli.render import cell, table, width
from cushion.measures.family import View, column_of
from cushion.records import Column, Record


def show(views: Iterable[View]) -> str:
    """All views, each with the meanings of those columns that no view before it has shown."""
    explained: set[tuple[str, str]] = set()
    return "\n\n".join("\n".join(_lines(view, explained)) for view in views)


def _lines(view: View, explained: set[tuple[str, str]]) -> list[str]:
    columns = _labelled(
        [
            (column, cells, path)
            for path in view.columns.split()
            for column, cells in [_column(view.rows, path)]
            if column is not None
        ],
        view,
    )
    lines = textwrap.wrap(view.title, width())
    if columns:
        lines.append(_table(view, columns))
    for column, _, _ in columns:
        key = (column.name, column.meaning)
        if column.name != "name" and key not in explained:
            explained.add(key)
            source = f" ({column.source})" if column.source else ""
            lines += _wrapped(f"{column.label}: {column.meaning}{source}")
    for note in view.notes:
        lines += _wrapped(note)
    return lines


Shown = tuple[Column, list[Any], str]


def _table(view: View, columns: Sequence[Shown]) -> str:
    twins = [_column(view.beside, path)[1] for _, _, path in columns] if view.beside else []
    if view.upright:
        header = ["", *(["this net", "beside it"] if view.beside else [""])]
        return table(
            header,
            [
                [column.label, *cells, *(twins[at] if view.beside else [])]
                for at, (column, cells, _) in enumerate(columns)
            ],
        ).lstrip("\n")
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
    """The records that a path leads through."""
    return path.removesuffix(".median").split(".")[:-1]


def _label(rows: Sequence[Record], names: list[str]) -> str:
    return next(column.label for row in rows if (column := _walk(row, names)[0]) is not None)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width(), subsequent_indent="  ")

"""How a verb answers: text for people, or one JSON object for programs; never half a file."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from cushion.cli.flags import translate, translated
from cushion.data.files import check_writable, write_whole


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        metavar="FILE|-",
        help="write the answer as one JSON object to FILE, or to stdout with -",
    )


def check_json(args: argparse.Namespace) -> None:
    """Refuse an impossible --json FILE before the work, not after it."""
    if args.json not in (None, "-"):
        check_writable(args.json)


def answer(args: argparse.Namespace, obj: Mapping[str, Any], text: str) -> None:
    """Print the text, except where the JSON goes to stdout; write the JSON where --json says."""
    obj, text = translated(obj, args.flags), translate(text, args.flags)
    if args.json == "-":  # ASCII: a terminal shows what a file says and is not steered by it
        sys.stdout.write(json.dumps(obj, indent=2, allow_nan=False) + "\n")
        return
    if args.json is not None:
        write_whole(
            args.json, json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )
    print(text)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of text, numbers to the right.

    >>> print(table(["name", "n"], [["a", 1], ["bc", 20]]))
    name   n
    a      1
    bc    20
    """
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    numeric = [
        bool(rows) and all(isinstance(row[i], (int, float)) for row in rows)
        for i in range(len(header))
    ]
    lines = [
        "  ".join(
            c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def wrapped_table(header: Sequence[str], rows: Sequence[Sequence[object]], width: int = 150) -> str:
    """A table whose last column, a sentence, is wrapped so that no line is longer than `width`.

    >>> print(wrapped_table(["a", "text"], [["x", "one two three"]], width=10))
    a  text
    x  one two
       three
    """
    if not rows:
        return table(header, rows)
    left = table(header[:-1], [row[:-1] for row in rows]).split("\n")
    start = max(map(len, left)) + 2
    lines = []
    for cells, text in zip(left, (header[-1], *(str(row[-1]) for row in rows)), strict=True):
        first, *rest = textwrap.wrap(text, max(8, width - start)) or [""]
        lines.append(f"{cells:<{start}}{first}".rstrip())
        lines += [" " * start + more for more in rest]
    return "\n".join(lines)


def number(value: Any) -> str:
    """Four significant digits, or a dash for what has no value.

    >>> number(0.123456), number(None), number(float("nan"))
    ('0.1235', '-', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def power(log10: float | None, value: float | None) -> str:
    """A number, as a power of ten above 10^6 and below 10^-6; a dash for what has no value.

    >>> power(2.0, 100.0), power(1234.5, None), power(None, None), power(None, 0.0)
    ('100', '10^1234.5', '-', '0')
    """
    if log10 is None:
        return number(value)
    return f"10^{log10:.1f}" if value is None or not abs(log10) <= 6 else number(value)

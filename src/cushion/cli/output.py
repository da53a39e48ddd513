"""How a verb answers: text for people, or one JSON object for programs; never half a file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cushion.cli.flags import translate, translated
from cushion.data.files import check_writable, write_whole
from cushion.errors import BadInput


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        metavar="FILE|-",
        help="write the answer as one JSON object to FILE, or to stdout with -",
    )


# What verbs write and read, by the names of their arguments.
_WRITTEN = {
    "out": "-o",
    "certificate": "--certificate",
    "save_margins": "--save-margins",
    "json": "--json",
}
_READ = {
    "net": "the net itself",
    "weights": "the net's weights",
    "file": "the certificate itself",
    "data": "the data",
    "unlabelled": "the unlabelled inputs",
    "beside": "the net beside it",
    "beside_weights": "the weights of the net beside it",
}


def check_files(args: argparse.Namespace) -> None:
    """Refuse an impossible --json FILE, and a file that would be written over another of this
    command, before the work and not after it.
    """
    if args.json not in (None, "-"):
        check_writable(args.json)
    given = {name: value for name, value in vars(args).items() if isinstance(value, str)}
    written: dict[Path, str] = {}
    for name, flag in _WRITTEN.items():
        if given.get(name, "-") == "-":
            continue
        path = Path(given[name]).resolve()
        if path in written:
            raise BadInput(
                f"{written[path]} and {flag} are one file, {path.name}; give each a name of its own"
            )
        written[path] = flag
        for other, what in _READ.items():
            source = given.get(other, "").split(",")[0]
            if source and path == Path(source).resolve() and path.is_file():
                raise BadInput(f"{flag} is {what}, {source}; give another name")


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

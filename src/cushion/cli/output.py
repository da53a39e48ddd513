"""How a verb answers: text for people, or one JSON object for programs; never half a file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cushion.cli.flags import translate, translated
from cushion.cli.render import fitted
from cushion.data.files import check_writable, write_whole
from cushion.errors import BadInput
from cushion.records.text import harmless, harmless_json

# What verbs write and read, by the names of their arguments.
_WRITTEN = ("out", "certificate", "save_margins", "json")
_READ = {
    "net": "the net itself",
    "weights": "the net's weights",
    "fit": "the training itself",
    "recipe": "the recipe",
    "file": "the certificate itself",
    "data": "the data",
    "holdout": "the held-out rows",
    "looks": "the ledger of looks",
    "unlabelled": "the unlabelled inputs",
    "beside": "the net beside it",
    "beside_weights": "the weights of the net beside it",
    "backbone": "the backbone itself",
    "backbone_weights": "the backbone's weights",
    "features": "the features",
}


def check_files(args: argparse.Namespace) -> None:
    """Before the work: refuse an impossible --json FILE, and files written over one another."""
    if args.json not in (None, "-"):
        check_writable(args.json)
    given = {name: value for name, value in vars(args).items() if isinstance(value, str)}
    written: dict[Path, str] = {}
    for name in _WRITTEN:
        if given.get(name, "-") == "-":
            continue
        flag = "-o" if name == "out" else f"--{name.replace('_', '-')}"
        path = Path(given[name]).resolve()
        if path in written:
            both = f"{written[path]} and {flag} are one file, {path.name}"
            raise BadInput(f"{both}; give each a name of its own")
        written[path] = flag
        for other, what in _READ.items():
            source = given.get(other, "").split(",")[0]
            # of file.py:name the file
            for file in filter(None, (source, source.rpartition(":")[0])):
                if path == Path(file).resolve() and path.is_file():
                    raise BadInput(f"{flag} is {what}, {file}; give another name")


def answer(args: argparse.Namespace, obj: Mapping[str, Any], *text: str, wrap: bool = True) -> None:
    """Print the lines, except where the JSON goes to stdout; write the JSON where --json says."""
    obj, shown = translated(obj, args.flags), translate("\n".join(text), args.flags)
    if args.json == "-":  # ASCII: a terminal shows what a file says and is not steered by it
        sys.stdout.write(json.dumps(obj, indent=2, allow_nan=False) + "\n")
        return
    if args.json is not None:
        written = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(args.json, harmless_json(written) + "\n")
    shown = harmless(shown)
    print(fitted(shown) if wrap else shown)

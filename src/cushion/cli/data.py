"""cushion data list | get NAME"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.cli.options import add_verb
from cushion.cli.output import answer
from cushion.cli.render import records


def add_parser(verbs: Any) -> None:
    summary, example = "list the named sets, or fetch one", "example: cushion data get mnist"
    parser: argparse.ArgumentParser = verbs.add_parser(
        "data", help=summary, description=summary, epilog=example, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", metavar="list|get", required=True)
    summary = "the named sets and whether they are here"
    add_verb(actions, "list", run_list, summary=summary, example="cushion data list")
    summary = "fetch a named set, checked against its hashes"
    getting = add_verb(actions, "get", run_get, summary=summary, example="cushion data get cifar10")
    getting.add_argument("name", metavar="NAME", help="mnist, fashion-mnist or cifar10")


def run_list(args: argparse.Namespace) -> None:
    from cushion.data.fetch import list_sets

    sets = list_sets()
    lines = [records(sets, "name", "examples", "held_out", "shape", "classes", "present")]
    if missing := [one.name for one in sets if not one.present]:
        lines.append(f"Fetch a set with: cushion data get {missing[0]}")
    answer(args, {"sets": [s.to_json() for s in sets]}, *lines)


def run_get(args: argparse.Namespace) -> None:
    from cushion.data import load_pair
    from cushion.data.fetch import get

    folder = get(args.name)
    lines, parts = [f"{args.name} is in {folder}; every hash matches"], {}
    for name, part in zip(("train", "test"), load_pair(args.name), strict=True):
        if part is not None:
            facts = {"m": len(part), "shape": list(part.shape), "fingerprint": part.fingerprint}
            parts[name] = facts
            lines.append(f"{name}: {len(part)} examples, fingerprint {part.fingerprint}")
    answer(args, {"name": args.name, "folder": str(folder), "parts": parts}, *lines)

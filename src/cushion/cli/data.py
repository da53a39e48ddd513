"""cushion data list | get NAME"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.cli.options import add_verb
from cushion.cli.output import answer
from cushion.cli.render import records


def add_parser(verbs: Any) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "data",
        help="list the named sets, or fetch one",
        description="List the named sets, or fetch one.",
        epilog="example: cushion data get mnist",
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", metavar="list|get", required=True)
    listing = add_verb(
        actions,
        "list",
        summary="the named sets and whether they are here",
        example="cushion data list",
    )
    listing.set_defaults(run=run_list)
    getting = add_verb(
        actions,
        "get",
        summary="fetch a named set, checked against its hashes",
        example="cushion data get cifar10",
    )
    getting.add_argument("name", metavar="NAME", help="mnist, fashion-mnist or cifar10")
    getting.set_defaults(run=run_get)


def run_list(args: argparse.Namespace) -> int:
    from cushion.data.fetch import list_sets

    sets = list_sets()
    text = records(sets, "name", "examples", "held_out", "shape", "classes", "present")
    if missing := [one.name for one in sets if not one.present]:
        text += f"\nFetch a set with: cushion data get {missing[0]}"
    answer(args, {"sets": [s.to_json() for s in sets]}, text)
    return 0


def run_get(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.data.fetch import get

    folder = get(args.name)
    train, test = load_pair(args.name)
    parts = {"train": train} | ({} if test is None else {"test": test})
    obj = {
        "name": args.name,
        "folder": str(folder),
        "parts": {
            part: {"m": len(d), "shape": list(d.shape), "fingerprint": d.fingerprint}
            for part, d in parts.items()
        },
    }
    lines = [f"{part}: {len(d)} examples, fingerprint {d.fingerprint}" for part, d in parts.items()]
    answer(args, obj, "\n".join([f"{args.name} is in {folder}; every hash matches", *lines]))
    return 0

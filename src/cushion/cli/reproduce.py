"""cushion reproduce [ID | --all] [--list]"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cushion.cli.options import add_verb, seed
from cushion.cli.output import answer, table
from cushion.errors import BadInput


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "reproduce",
        summary="make a registered table or figure again; run it again to continue",
        example="cushion reproduce cushion-occam-table -o results/reproduce",
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="what to make; --list shows the ids")
    parser.add_argument("--all", action="store_true", help="make every item")
    parser.add_argument("--list", action="store_true", help="show the items and whether they are done")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", dest="size", action="store_const", const="quick", default="quick", help="the default")
    sizes.add_argument(
        "--recorded", dest="size", action="store_const", const="recorded", help="what results/ holds: fewer epochs"
    )
    sizes.add_argument("--full", dest="size", action="store_const", const="full", help="the paper's own settings")
    parser.add_argument("-o", "--out", default="results/reproduce", metavar="DIR", help="default: results/reproduce")
    parser.add_argument("--device", default="cpu", metavar="DEV", help="cpu (default) or cuda")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="default 0")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.reproduction.registry import ITEMS
    from cushion.reproduction.runner import is_done, reproduce, reproduce_all

    if (args.id is not None) + args.all + args.list != 1:
        raise BadInput("say what to reproduce: one ID, or --all, or --list to see the ids")
    out = Path(args.out)
    if args.list:
        items = [
            {
                "id": item.id,
                "title": item.title,
                "source": item.source,
                "shows": item.shows,
                "quick": item.quick,
                "recorded": item.recorded,
                "full": item.full,
                "done": is_done(item, out, args.size),
            }
            for item in ITEMS.values()
        ]
        columns = ("id", "source", "title", "quick", "recorded", "full")
        rows = [[*(i[column] for column in columns), "yes" if i["done"] else "no"] for i in items]
        answer(args, {"items": items}, table([*columns, f"done ({args.size})"], rows))
        return 0
    options: dict[str, Any] = {"size": args.size, "device": args.device, "seed": args.seed}
    folders = reproduce_all(out, **options) if args.all else [reproduce(args.id, out, **options)]
    pages = [(folder / "page.md").read_text(encoding="utf-8") for folder in folders]
    answer(args, {"folders": [str(folder) for folder in folders]}, "\n\n".join(pages).rstrip())
    return 0

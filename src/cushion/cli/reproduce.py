"""cushion reproduce [ID | --all] [--list]"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cushion.cli.options import add_verb, filled, seed
from cushion.cli.output import answer
from cushion.cli.render import table
from cushion.errors import BadInput


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "reproduce",
        summary="make a paper's table or figure again, ours beside the paper's; run it again to "
        "continue",
        example="cushion reproduce arora2018-table1 --quick -o pages",
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="what to make; --list shows the ids")
    parser.add_argument("--all", action="store_true", help="make every item")
    parser.add_argument(
        "--list", action="store_true", help="show the items and at which sizes they are done"
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="every verdict and claim of what is done, in markdown",
    )
    parser.add_argument(
        "--link",
        metavar="LINK",
        help="with --summary: how the folder is reached from where its text will stand",
    )
    sizes = parser.add_mutually_exclusive_group()
    for size, words in {
        "quick": "small, the default",
        "recorded": "what results/ holds: fewer epochs",
        "full": "the paper's own settings",
    }.items():
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, help=words)
    parser.add_argument(
        "-o",
        "--out",
        type=filled,
        default="results/reproduce",
        metavar="DIR",
        help="default: results/reproduce",
    )
    parser.add_argument(
        "--from-records",
        action="store_true",
        help="train and measure nothing: pages from OUT/records alone",
    )
    parser.add_argument("--svg", action="store_true", help="draw the pictures as SVG besides PNG")
    parser.add_argument("--device", default="cpu", metavar="DEV", help="cpu (default) or cuda")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="default 0")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.papers.runner import reproduce, reproduce_all

    if (args.id is not None) + args.all + args.list + args.summary != 1:
        raise BadInput(
            "say what to reproduce: one ID, or --all; --list shows the ids, --summary what was "
            "found"
        )
    if args.link is not None and not args.summary:
        raise BadInput("--link goes with --summary; add that, or leave it out")
    if args.from_records and (args.list or args.summary):
        raise BadInput("--from-records makes pages; leave it out with --list and --summary")
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is not a folder; choose another -o")
    if args.list:
        return _list(args, out)
    if args.summary:
        return _summary(args, out)
    options: dict[str, Any] = {
        "size": args.size or "quick",
        "device": args.device,
        "seed": args.seed,
        "from_records": args.from_records,
        "svg": args.svg,
    }
    folders, without = (
        reproduce_all(out, **options) if args.all else ([reproduce(args.id, out, **options)], [])
    )
    pages = [(folder / "page.md").read_text(encoding="utf-8") for folder in folders]
    if without:
        pages.append(f"No records in {out / 'records'} for {', '.join(without)}: left as they are.")
    found = {"folders": [str(folder) for folder in folders], "without_records": without}
    answer(args, found, "\n\n".join(pages).rstrip())
    return 0


def _list(args: argparse.Namespace, out: Path) -> int:
    """Every item; done: at the size that was asked for, or at any where none was."""
    from cushion.papers.registry import ITEMS
    from cushion.papers.runner import done_sizes

    keys = ("id", "title", "source", "shows", "quick", "recorded", "full")
    items = []
    for item in ITEMS.values():
        sizes = done_sizes(item, out)
        done = bool(sizes) if args.size is None else args.size in sizes
        facts = {key: getattr(item, key) for key in keys}
        items.append({**facts, "done": done, "done_at": sizes})
    columns = ("id", "source", "shows", "quick", "recorded", "full")
    rows = [
        [*(item[column] for column in columns), ", ".join(item["done_at"]) or "no"]
        for item in items
    ]
    text = table([*columns, "done"], rows)
    count = sum(item["done"] for item in items)
    asked = "" if args.size is None else f" at {args.size} size"
    ends = (
        f"{count} of {len(items)} items are done{asked} in {out}. Times are for two cores; "
        "(shared): trainings are."
    )
    answer(args, {"items": items}, f"{text}\n\n{ends}")
    return 0


def _summary(args: argparse.Namespace, out: Path) -> int:
    from cushion.papers.summary import summarise

    text = summarise(out, args.link or "")
    answer(args, {"summary": text}, text.rstrip())
    return 0

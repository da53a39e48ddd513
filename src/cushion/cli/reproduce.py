"""cushion reproduce [ID | --all] [--list]"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cushion.cli.options import add_switch, add_verb, add_word, seed
from cushion.cli.output import answer
from cushion.cli.render import table
from cushion.errors import BadInput

_SIZES = {
    "quick": "small, the default",
    "recorded": "what results/ holds: fewer epochs",
    "full": "the paper's own settings",
}
_COLUMNS = ("id", "source", "shows", *_SIZES)


def add_parser(verbs: Any) -> None:
    summary = "make a paper's table or figure again, beside the paper's; run it again to continue"
    example = "cushion reproduce arora2018-table1 --quick -o pages"
    parser = add_verb(verbs, "reproduce", run, summary=summary, example=example)
    parser.add_argument("id", metavar="ID", nargs="?", help="what to make; --list shows the ids")
    add_switch(parser, "--all", "make every item")
    add_switch(parser, "--list", "show the items and at which sizes they are done")
    add_switch(parser, "--summary", "every verdict and claim of what is done, in markdown")
    link = "with --summary: how the folder is reached from where its text will stand"
    parser.add_argument("--link", metavar="LINK", help=link)
    sizes = parser.add_mutually_exclusive_group()
    for size, words in _SIZES.items():
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, help=words)
    out = "results/reproduce"
    add_word(parser, "-o --out", "DIR", f"default: {out}", default=out)
    records = "train and measure nothing: pages from OUT/records alone"
    add_switch(parser, "--from-records", records)
    add_switch(parser, "--svg", "draw the pictures as SVG besides PNG")
    parser.add_argument(
        "--device", default="cpu", metavar="DEV", help="cpu (default), cuda, cuda:1, mps or auto"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="default 0")


def run(args: argparse.Namespace) -> None:
    from cushion.papers.runner import reproduce, reproduce_all

    if (args.id is not None) + args.all + args.list + args.summary != 1:
        ways = "one ID, or --all; --list shows the ids, --summary what was found"
        raise BadInput(f"say what to reproduce: {ways}")
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
        from cushion.papers.summary import summarise

        text = summarise(out, args.link or "")
        return answer(args, {"summary": text}, text.rstrip(), wrap=False)
    names = ("device", "seed", "from_records", "svg")
    how: dict[str, Any] = {name: getattr(args, name) for name in names}
    how["size"] = args.size or "quick"
    if args.all:
        folders, without = reproduce_all(out, **how)
    else:
        folders, without = [reproduce(args.id, out, **how)], []
    pages = [(folder / "page.md").read_text(encoding="utf-8") for folder in folders]
    if without:
        pages.append(f"No records in {out / 'records'} for {', '.join(without)}: left as they are.")
    found = {"folders": [str(folder) for folder in folders], "without_records": without}
    return answer(args, found, "\n\n".join(pages).rstrip(), wrap=False)


def _list(args: argparse.Namespace, out: Path) -> None:
    """Every item; done: at the size that was asked for, or at any where none was."""
    from cushion.papers.registry import ITEMS
    from cushion.papers.runner import done_sizes

    items = []
    for item in ITEMS.values():
        sizes = done_sizes(item, out)
        done = bool(sizes) if args.size is None else args.size in sizes
        facts = {key: getattr(item, key) for key in ("id", "title", *_COLUMNS[1:])}
        items.append({**facts, "done": done, "done_at": sizes})
    rows = [
        [*(item[key] for key in _COLUMNS), ", ".join(item["done_at"]) or "no"] for item in items
    ]
    count = sum(item["done"] for item in items)
    asked = "" if args.size is None else f" at {args.size} size"
    found = f"{count} of {len(items)} items are done{asked} in {out}"
    ends = f"{found}. Times are for two cores; (shared): trainings are."
    answer(args, {"items": items}, table([*_COLUMNS, "done"], rows), "", ends)

"""All pages in one: the verdict of every item that is done, and which claims hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from cushion.data.files import check_regular
from cushion.errors import BadInput, Malformed
from cushion.papers.pages import Outcome, Size, grid
from cushion.papers.registry import ITEMS
from cushion.papers.runner import done_sizes, folder_of

_ANSWERS = {True: "hold", False: "do not hold", None: "cannot be decided"}


def summarise(out: str | Path, link: str = "") -> str:
    """Markdown: one row an item at the largest size that is done, then every claim by answer.

    link: how the folder `out` is reached from where the text will stand.
    """
    root = Path(out)
    found = {item_id: _largest(root, item_id) for item_id in ITEMS}
    done = {item_id: one for item_id, one in found.items() if one is not None}
    if not done:
        raise BadInput(f"{root} holds no finished item; `cushion reproduce ID -o {root}` makes one")
    rows = []
    for item_id, (size, records) in done.items():
        item, page = ITEMS[item_id], f"{link}{'/' if link else ''}{item_id}/{size}/page.md"
        verdict = (size, records["verdict"], _counted(records))
        rows.append((f"[{item_id}]({page})", item.source, item.title, *verdict))
    missing = ", ".join(item_id for item_id in ITEMS if item_id not in done)
    rest = f"; not {missing}." if missing else "."
    lines = [f"{len(done)} of {len(ITEMS)} items are done{rest}", ""]
    lines += grid(("item", "source", "title", "size", "verdict", "claims that hold"), rows)
    for answer, words in _ANSWERS.items():
        claims = [
            f"- {item_id}: {claim['text']} ({claim['because']})"
            for item_id, (_, records) in done.items()
            for claim in records["claims"]
            if claim["holds"] is answer
        ]
        lines += [f"## Claims that {words} ({len(claims)})", "", *claims, ""] if claims else []
    return "\n".join(lines).rstrip() + "\n"


def _largest(root: Path, item_id: str) -> tuple[Size, Mapping[str, Any]] | None:
    sizes = done_sizes(ITEMS[item_id], root)
    if not sizes:
        return None
    path = folder_of(ITEMS[item_id], root, sizes[-1]) / "records.json"
    try:
        records = json.loads(check_regular(path).read_text(encoding="utf-8"))
        if records["verdict"] not in get_args(Outcome):
            raise ValueError(records["verdict"])
        if any(claim["holds"] not in (True, False, None) for claim in records["claims"]):
            raise ValueError("holds")
        return sizes[-1], {key: records[key] for key in ("verdict", "claims")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise Malformed(f"{path} is damaged; make the item again") from None


def _counted(records: Mapping[str, Any]) -> str:
    held = sum(claim["holds"] is True for claim in records["claims"])
    return f"{held} of {len(records['claims'])}" if records["claims"] else "-"

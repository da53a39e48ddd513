"""What can be reproduced: every item of contents.toml, under its id."""

from __future__ import annotations

import tomllib
from pathlib import Path

from cushion.errors import BadInput
from cushion.papers.item import Item


def _read() -> dict[str, Item]:
    contents = tomllib.loads((Path(__file__).parent / "contents.toml").read_text(encoding="utf-8"))
    found = {}
    for key, one in contents["items"].items():
        times = contents["times"][one["times"]] if isinstance(one["times"], str) else one["times"]
        maker = f"cushion.papers.{one['maker']}"
        quick, recorded, full = times
        words = {part: one[part] for part in ("title", "source", "claim", "shows")}
        found[key] = Item(key, **words, quick=quick, recorded=recorded, full=full, maker=maker)
    return found


ITEMS = _read()


def find(item_id: str) -> Item:
    """The item of that id, or a sentence that says where the ids are."""
    if item_id not in ITEMS:
        shown = "`cushion reproduce --list` shows the ids"
        raise BadInput(f"there is nothing to reproduce called {item_id!r}; {shown}")
    return ITEMS[item_id]

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
        times = one.pop("times")
        times = contents["times"][times] if isinstance(times, str) else times
        named = dict(zip(("quick", "recorded", "full"), times, strict=True))
        found[key] = Item(id=key, **one | named | {"maker": f"cushion.papers.{one['maker']}"})
    return found


ITEMS = _read()


def find(item_id: str) -> Item:
    """The item of that id, or a sentence that says where the ids are."""
    if item_id not in ITEMS:
        shown = "`cushion reproduce --list` shows the ids"
        raise BadInput(f"there is nothing to reproduce called {item_id!r}; {shown}")
    return ITEMS[item_id]

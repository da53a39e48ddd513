"""What can be reproduced: every table and figure of contents.toml, under its id."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from cushion.papers.pages import Page
    from cushion.papers.runner import Workshop


@dataclass(frozen=True)
class Item:
    """A table or figure: `maker` is "module:function", imported only when the item runs."""

    id: str
    title: str
    source: str  # the paper and the item in it, or "cushion" for our own tables
    claim: str  # of the source, as a sentence
    shows: str
    quick: str  # time on two cores at quick size
    recorded: str  # at the size that results/ holds: larger, but with fewer epochs than the paper's
    full: str  # with the paper's own settings
    maker: str

    def load(self) -> Callable[[Workshop], Page]:
        """The function that makes the page."""
        module, _, function = self.maker.partition(":")
        found: Any = getattr(import_module(module), function)
        return found  # type: ignore[no-any-return]


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

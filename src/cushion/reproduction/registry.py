"""What can be reproduced: every item with its id, and where the function that makes it lives."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cushion.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from cushion.reproduction.runner import Page, Workshop


@dataclass(frozen=True)
class Item:
    """A table or figure: `maker` is "module:function", imported only when the item runs."""

    id: str
    title: str
    source: str  # the paper and the item in it, or "cushion" for our own tables
    shows: str
    quick: str  # time on two cores at quick size
    full: str  # at full size
    maker: str

    def load(self) -> Callable[[Workshop], Page]:
        """The function that makes the page."""
        module, _, function = self.maker.partition(":")
        found: Any = getattr(import_module(module), function)
        return found  # type: ignore[no-any-return]


ITEMS: dict[str, Item] = {
    item.id: item
    for item in (
        Item(
            id="cushion-occam-table",
            title="What bits and training errors buy",
            source="cushion",
            shows="the certified error by message length and training error: exact tail, kl form, Hoeffding form",
            quick="seconds",
            full="seconds",
            maker="cushion.reproduction.occam_table:make",
        ),
    )
}


def find(item_id: str) -> Item:
    """The item of that id, or a sentence that lists what there is."""
    if item_id not in ITEMS:
        raise BadInput(f"there is nothing to reproduce called {item_id!r}; `cushion reproduce --list` shows the ids")
    return ITEMS[item_id]

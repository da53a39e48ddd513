"""What can be reproduced: every item of every paper, under its id."""

from __future__ import annotations

from cushion.errors import BadInput
from cushion.papers.arora.items import ITEMS as ARORA
from cushion.papers.guha.items import ITEMS as GUHA
from cushion.papers.item import Item
from cushion.papers.neyshabur.items import ITEMS as NEYSHABUR
from cushion.papers.note.items import ITEMS as NOTE
from cushion.papers.own.items import ITEMS as OWN
from cushion.papers.shin.items import ITEMS as SHIN

ITEMS: dict[str, Item] = {item.id: item for item in (*OWN, *ARORA, *NOTE, *GUHA, *SHIN, *NEYSHABUR)}


def find(item_id: str) -> Item:
    """The item of that id, or a sentence that lists what there is."""
    if item_id not in ITEMS:
        raise BadInput(
            f"there is nothing to reproduce called {item_id!r}; `cushion reproduce --list` shows "
            "the ids"
        )
    return ITEMS[item_id]

"""The items of the note, for the registry."""

from __future__ import annotations

from cushion.reproduction.item import Item

ITEMS: tuple[Item, ...] = ()

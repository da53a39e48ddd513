"""The items of Neyshabur 2017, for the registry."""

from __future__ import annotations

from cushion.reproduction.item import Item

ITEMS: tuple[Item, ...] = ()

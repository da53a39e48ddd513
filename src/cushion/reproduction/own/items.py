"""Our own tables, for the registry."""

from __future__ import annotations

from cushion.reproduction.item import Item

ITEMS = (
    Item(
        id="cushion-occam-table",
        title="What bits and training errors buy",
        source="cushion",
        shows="the certified error by message length and training error: exact tail, kl form, Hoeffding form",
        quick="seconds",
        recorded="seconds",
        full="seconds",
        maker="cushion.reproduction.own.occam_table:make",
    ),
)

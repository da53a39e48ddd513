"""Our own tables, for the registry."""

from __future__ import annotations

from cushion.papers.item import Item

ITEMS = (
    Item(
        id="cushion-occam-table",
        title="What bits and training errors buy",
        source="cushion",
        shows="the certified error by message length and training error: exact tail, kl form, "
        "Hoeffding form",
        quick="seconds",
        recorded="seconds",
        full="seconds",
        maker="cushion.papers.own.occam_table:make",
    ),
    Item(
        id="cushion-certificates",
        title="Published certificates against ours",
        source="cushion",
        shows="error bounds that hold with probability 95 %, ours verified by replay, beside what "
        "papers print",
        quick="2 minutes",
        recorded="2.5 hours",
        full="12 hours",
        maker="cushion.papers.own.certificates:published_against_ours",
    ),
)

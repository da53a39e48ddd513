"""A field says once what it is: text tables, legends, DataFrames and docs are drawn from that."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, dataclass
from typing import Any, Literal, TypeAlias

Unit: TypeAlias = Literal["", "bits", "nats", "fraction", "error", "bound", "seconds", "log10"]
Better: TypeAlias = Literal["", "low", "high"]
_KEY = "cushion.column"


@dataclass(frozen=True)
class Column:
    """What one field of a record is.

    name: the field's, which is its key in JSON and in DataFrames. label: its header in a table.
    unit: "fraction" is printed as it is, "error" in percent, "bound" in percent rounded up,
    "vacuous" from 1 on. better: which way a good net lies, "" where neither. meaning: one sentence
    for legends and docs. source: the definition or theorem that it comes from.
    """

    name: str
    label: str
    meaning: str
    unit: Unit = ""
    better: Better = ""
    source: str = ""


def column(
    meaning: str,
    *,
    label: str = "",
    unit: Unit = "",
    better: Better = "",
    source: str = "",
    default: Any = MISSING,
) -> Any:
    """A dataclass field that knows what it is; without a default it must be given."""
    said = {"meaning": meaning, "label": label, "unit": unit, "better": better, "source": source}
    return dataclasses.field(default=default, metadata={_KEY: said})


def columns_of(record: Any, *names: str) -> tuple[Column, ...]:
    """The described fields of a record or its class: those named, in that order, or all of them."""
    found = {
        field.name: Column(
            field.name,
            **{**said, "label": said["label"] or field.name.replace("_", " ")},
        )
        for field in dataclasses.fields(record)
        if (said := field.metadata.get(_KEY)) is not None
    }
    return tuple(found[name] for name in names) if names else tuple(found.values())

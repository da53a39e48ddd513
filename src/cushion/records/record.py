"""Frozen records: JSON out, field names as keys; no torch. A field says once what it is: text
tables, legends, DataFrames and docs are drawn from that.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, dataclass_transform

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


@dataclass_transform(frozen_default=True, field_specifiers=(column, dataclasses.field))
class Frozen:
    """Every subclass is a frozen dataclass; its keywords, such as kw_only, go to `dataclass`."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        dataclass(frozen=True, **options)(cls)


class Record(Frozen):
    """A frozen dataclass that writes itself as JSON with its field names as keys."""

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; JSON has no non-finite float: null."""
        result = _plain(self)
        assert isinstance(result, dict)
        return result

    def dumps(self) -> str:
        """The record as indented JSON text."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def columns_of(record: Any, *names: str) -> tuple[Column, ...]:
    """The described fields of a record or its class: those named, in that order, or all of them."""
    found = {}
    for field in dataclasses.fields(record):
        if (said := field.metadata.get(_KEY)) is not None:
            label = said["label"] or field.name.replace("_", " ")
            found[field.name] = Column(field.name, **{**said, "label": label})
    return tuple(found[name] for name in names or found)


class Distribution(Record):
    """One number per example of S: its defined extremum over S, and how it is spread.

    `value` is the minimum or maximum over S, whichever the definition asks for (`extremum` says
    which). `quantiles` maps "0.01", "0.05", ... to order statistics (the ζ-quantile versions of
    Corollaries A.1/C.1 of Arora 2018 read from here); the histogram has len(edges) == len(counts) +
    1 and its counts sum to `count`. `infinite` examples have no finite value (a contraction where
    the ReLU switches everything off): they are in the quantiles and, if the extremum is the
    maximum, make `value` infinite (null in JSON), but not in mean, std and histogram.
    """

    value: float
    extremum: Literal["min", "max"]
    count: int
    mean: float
    std: float
    quantiles: dict[str, float]
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    infinite: int = 0

"""Frozen records: JSON out, field names as keys; no torch."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, Literal


class Record:
    """Mixin: a frozen dataclass that writes itself as JSON with its field names as keys."""

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers; a non-finite float becomes null (JSON has
        none).
        """
        result = _plain(self)
        assert isinstance(result, dict)
        return result

    def dumps(self) -> str:
        """Return the record as indented JSON text."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@dataclass(frozen=True)
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

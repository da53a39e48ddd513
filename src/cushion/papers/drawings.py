"""Pictures as data: numbers, labels and what kind of picture they make; `pictures` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from cushion.records import Record


class Series(Record):
    """One line, or one group of bars, of a picture; a point without a value is None."""

    label: str
    values: Sequence[float | None]
    from_paper: bool = False


class Picture(Record):
    """Numbers over the places x: lines where these are numbers, bars where they are names."""

    name: str  # of the file
    title: str
    x: Sequence[Any]
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False


class Contour(Record):
    """values[row][column] at (x[column], y[row]); colours run from `low` to `high`."""

    name: str  # of the file
    title: str
    x: Sequence[float]
    y: Sequence[float]
    x_label: str
    y_label: str
    values: Sequence[Sequence[float]]
    value_label: str
    low: float = 0.0
    high: float = 1.0
    kind: Literal["contour"] = "contour"


class Points(Record):
    """One group of points (x, y); x_errors: standard errors of x, drawn as bars."""

    label: str
    places: Sequence[tuple[float, float]]
    x_errors: Sequence[float] = ()


class Line(Record):
    """The straight line y = slope·x + intercept."""

    label: str
    slope: float
    intercept: float


class Scatter(Record):
    """Groups of points, and straight lines across the range of their x."""

    name: str  # of the file
    title: str
    x_label: str
    y_label: str
    groups: Sequence[Points]
    lines: Sequence[Line] = ()
    kind: Literal["scatter"] = "scatter"


class Curve(Record):
    """A line through its own points in order; y_errors: standard errors, drawn as bars."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    y_errors: Sequence[float] = ()


class Curves(Record):
    """Lines that do not share their places; `y_limits` cuts the picture out of a larger one."""

    name: str  # of the file
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    x_log: bool = False
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    kind: Literal["curves"] = "curves"


class Spread(Record):
    """The histogram of one group: len(edges) == len(counts) + 1."""

    label: str
    edges: Sequence[float]
    counts: Sequence[float]


class Histogram(Record):
    """Densities of one or two groups over the same axis; a density integrates to 1."""

    name: str  # of the file
    title: str
    x_label: str
    spreads: Sequence[Spread]
    y_label: str = "density"
    kind: Literal["histogram"] = "histogram"


class Panels(Record):
    """Pictures in one file, row by row, their own names unused; equal legends are drawn once."""

    name: str  # of the file
    title: str
    columns: int
    panels: Sequence[Picture | Curves | Histogram | Scatter]
    kind: Literal["panels"] = "panels"


Drawing: TypeAlias = Picture | Contour | Scatter | Curves | Histogram | Panels


def spread_of(label: str, found: Mapping[str, Any]) -> Spread:
    """A Distribution or Spectrum as JSON has it."""
    return Spread(label, found["edges"], found["counts"])

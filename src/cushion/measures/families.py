"""Every family of measures, a line each, in the order in which they are measured and shown."""

from __future__ import annotations

from pkgutil import resolve_name

from cushion.measures.family import Family

_WHERE = (
    "stability.family:FAMILY",
    "norms.family:SPECTRA",
    "norms.family:NORMS",
    "norms.family:PATHS",
    "margins:FAMILY",
    "sharpness.family:FAMILY",
    "conditions.family:FAMILY",
    "tails.family:FAMILY",
)
FAMILIES: tuple[Family, ...] = tuple(resolve_name(f"cushion.measures.{name}") for name in _WHERE)

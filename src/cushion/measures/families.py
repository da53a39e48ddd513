"""Every family of measures, a line each, in the order in which they are measured and shown."""

from __future__ import annotations

from cushion.measures import margins
from cushion.measures.conditions import family as conditions
from cushion.measures.family import Family
from cushion.measures.norms import family as norms
from cushion.measures.sharpness import family as sharpness
from cushion.measures.stability import family as stability
from cushion.measures.tails import family as tails

FAMILIES: tuple[Family, ...] = (
    stability.FAMILY,
    norms.SPECTRA,
    norms.NORMS,
    norms.PATHS,
    margins.FAMILY,
    sharpness.FAMILY,
    conditions.FAMILY,
    tails.FAMILY,
)

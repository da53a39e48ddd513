"""Bi-criteria curves (§2.4): expected sharpness over KL as the noise α varies, and the KL at a
given sharpness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from cushion.papers.drawings import Curve, Curves

_SHOWN = 0.5  # expected sharpness; what lies above is cut off, as it hides the rest


def kl_at(points: Sequence[Mapping[str, Any]], level: float, key: str) -> float | None:
    """The KL at which `key` (sharpness, error_sharpness) is `level`, by straight lines in ln KL;
    None: not reached.

    The smallest such KL, hence the largest noise that the net bears; as ExpectedSharpness.kl_at has
    it.

    >>> points = [{"kl": 1.0, "sharpness": 0.2}, {"kl": 100.0, "sharpness": 0.0}]
    >>> round(kl_at(points, 0.1, "sharpness"), 9)
    10.0
    """
    ordered = sorted(points, key=lambda point: float(point["kl"]))
    for one, two in pairwise(ordered):  # noise falls, and with it the rise
        high, low = float(one[key]), float(two[key])
        if high > level >= low:
            share = (high - level) / (high - low)
            return math.exp((1 - share) * math.log(one["kl"]) + share * math.log(two["kl"]))
    return None


def curve(label: str, points: Sequence[Mapping[str, Any]]) -> Curve:
    """One net's points in the order of their KL."""
    ordered = sorted(points, key=lambda point: float(point["kl"]))
    return Curve(
        label,
        tuple(float(point["kl"]) for point in ordered),
        tuple(float(point["sharpness"]) for point in ordered),
        tuple(float(point["sharpness_standard_error"] or 0.0) for point in ordered),
    )


def panel(title: str, curves: Sequence[Curve], limits: tuple[float, float] | None = None) -> Curves:
    """Curves of several nets, between two KL if `limits` are given; bars: standard errors."""
    heights = (-0.02, _SHOWN)
    return Curves(
        "",
        title,
        "KL (nats)",
        "expected sharpness",
        tuple(curves),
        True,
        x_limits=limits,
        y_limits=heights,
    )

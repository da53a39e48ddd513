"""A mixture of linear regressions by expectation maximisation (Figure 3 of Shin 2021). A measure.

Each point (x, y) belongs to line k with probability share_k, and then y = slope_k·x + intercept_k + N(0, deviation_k²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cushion.errors import BadInput
from cushion.records import Record

Floats = NDArray[np.float64]

# Of the deviation about the one line of least squares. A line through two of the points would have deviation 0 and an
# infinite likelihood. With this floor such a line gains 2·ln 20 nats and pays 2·ln(n/2) for its share: from n = 40 on
# nothing is left.
FLOOR = 0.05
_STEPS = 2000
_GAIN = 1e-12  # in nats a point: a step that gains less is the last


@dataclass(frozen=True)
class RegressionLine(Record):
    """y = slope·x + intercept + N(0, deviation²), for the share of the points that the line is expected to have."""

    slope: float
    intercept: float
    deviation: float
    share: float


@dataclass(frozen=True)
class RegressionMixture(Record):
    """The most likely mixture that was found, its lines in the order of their slopes, then intercepts.

    bic: (4K - 1)·ln n - 2·log_likelihood for K lines; smaller is better. responsibilities: of each point, the
    probabilities that it belongs to each line. iterations: of expectation maximisation, in the best of the restarts.
    """

    lines: tuple[RegressionLine, ...]
    log_likelihood: float
    bic: float
    responsibilities: tuple[tuple[float, ...], ...]
    iterations: int


@dataclass(frozen=True, eq=False)
class Lines:
    """K lines in standardised coordinates: slope, intercept, deviation and share, each [K]."""

    slope: Floats
    intercept: Floats
    deviation: Floats
    share: Floats


def fit_mixture(x: ArrayLike, y: ArrayLike, components: int, *, seed: int, restarts: int = 20) -> RegressionMixture:
    """The mixture of `components` lines with the largest likelihood among `restarts` seeded starts.

    Every step of expectation maximisation raises the likelihood or leaves it. No deviation falls below a twentieth of
    that of the one line of least squares, which is the answer, in closed form, for one component. With more, a start is
    a line through two random points for each of them; the best of the starts need not be the best of all.
    """
    x, y = _points(x, y, components, restarts)
    n = x.size
    moved = (x - x.mean()) / x.std()
    slope = float(moved @ y) / n
    rest = y - y.mean() - slope * moved
    unit = math.sqrt(float(rest @ rest) / n)
    if unit <= 1e-12 * float(np.abs(y).max()):
        raise BadInput("the points lie on one straight line exactly: a mixture of regressions has no deviation to fit")
    scaled = (y - y.mean()) / unit
    one = Lines(*(np.array([value]) for value in (slope / unit, 0.0, 1.0, 1.0)))
    rng = np.random.default_rng(seed)
    starts = [one] if components == 1 else [_start(moved, scaled, components, rng) for _ in range(restarts)]
    runs = [_climb(moved, scaled, start) for start in starts]
    lines, responsibilities, likelihood, iterations = max(runs, key=lambda run: run[2])
    slopes = lines.slope * unit / x.std()
    intercepts = y.mean() + lines.intercept * unit - slopes * x.mean()
    order = np.lexsort((intercepts, slopes))
    likelihood -= n * math.log(unit)
    return RegressionMixture(
        lines=tuple(
            RegressionLine(*(float(value[k]) for value in (slopes, intercepts, lines.deviation * unit, lines.share)))
            for k in order
        ),
        log_likelihood=likelihood,
        bic=(4 * components - 1) * math.log(n) - 2 * likelihood,
        responsibilities=tuple(tuple(float(value) for value in row) for row in responsibilities[:, order]),
        iterations=iterations,
    )


def expectation(x: Floats, y: Floats, lines: Lines) -> tuple[Floats, float]:
    """Responsibilities [n, K] of the lines for the points, and the log-likelihood of the mixture."""
    residual = (y[:, None] - x[:, None] * lines.slope - lines.intercept) / lines.deviation
    with np.errstate(divide="ignore"):  # a line may have lost all of its points
        weight = np.log(lines.share) - np.log(lines.deviation * math.sqrt(2 * math.pi))
    joint = weight - np.square(residual) / 2
    largest = joint.max(axis=1, keepdims=True)
    total = largest + np.log(np.exp(joint - largest).sum(axis=1, keepdims=True))
    return np.exp(joint - total), float(total.sum())


def maximisation(x: Floats, y: Floats, responsibilities: Floats, before: Lines) -> Lines:
    """The lines that maximise the expected log-likelihood: least squares with the responsibilities as weights.

    The deviation is at least `FLOOR`, which is the constrained maximum, so the likelihood still cannot fall. A line
    without points stays where it was, one whose points share one x keeps its slope.
    """
    mass = responsibilities.sum(axis=0)
    there = mass > 1e-10
    weights = responsibilities / np.where(there, mass, 1.0)
    mean_x, mean_y = weights.T @ x, weights.T @ y
    from_x, from_y = x[:, None] - mean_x, y[:, None] - mean_y
    spread = (weights * from_x * from_x).sum(axis=0)
    steep = there & (spread > 1e-12)
    slope = np.where(steep, (weights * from_x * from_y).sum(axis=0) / np.where(steep, spread, 1.0), before.slope)
    intercept = np.where(there, mean_y - slope * mean_x, before.intercept)
    residual = y[:, None] - x[:, None] * slope - intercept
    deviation = np.maximum(np.sqrt((weights * residual * residual).sum(axis=0)), FLOOR)
    return Lines(slope, intercept, np.where(there, deviation, before.deviation), mass / mass.sum())


def _climb(x: Floats, y: Floats, lines: Lines) -> tuple[Lines, Floats, float, int]:
    responsibilities, likelihood = expectation(x, y, lines)
    steps, gain = 0, math.inf
    while gain >= _GAIN * x.size and steps < _STEPS:
        lines = maximisation(x, y, responsibilities, lines)
        responsibilities, reached = expectation(x, y, lines)
        gain, likelihood, steps = reached - likelihood, reached, steps + 1
    return lines, responsibilities, likelihood, steps


def _start(x: Floats, y: Floats, components: int, rng: np.random.Generator) -> Lines:
    """Lines through two random points of different x each, as wide as the line of least squares, with equal shares."""
    slope, intercept = np.empty(components), np.empty(components)
    for k in range(components):
        first = rng.integers(x.size)
        second = rng.choice(np.flatnonzero(x != x[first]))
        slope[k] = (y[second] - y[first]) / (x[second] - x[first])
        intercept[k] = y[first] - slope[k] * x[first]
    return Lines(slope, intercept, np.ones(components), np.full(components, 1 / components))


def _points(x: ArrayLike, y: ArrayLike, components: int, restarts: int) -> tuple[Floats, Floats]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise BadInput(f"a mixture of regressions needs as many x as y, in one row each, not {x.shape} and {y.shape}")
    if components < 1 or restarts < 1:
        raise BadInput(f"a mixture has at least one component and one start, not {components} and {restarts}")
    if x.size < 4 * components:
        raise BadInput(
            f"{components} lines have {4 * components - 1} parameters and need at least {4 * components} points, "
            f"not {x.size}; take fewer components"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise BadInput("a mixture of regressions needs finite x and y; leave the points without a number out")
    if x.max() - x.min() <= 1e-12 * np.abs(x).max():
        raise BadInput(f"all {x.size} points have the x {x[0]:.6g}: no slope can be fitted")
    return x, y

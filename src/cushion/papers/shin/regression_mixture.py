"""A mixture of linear regressions by expectation maximisation (Figure 3 of Shin 2021). A measure.

Each point (x, y) belongs to line k with probability share_k, and then y = slope_k·x + intercept_k +
N(0, deviation_k²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from cushion.errors import BadInput
from cushion.progress import progress

# Of K lines in standardised coordinates [4, K] or [4, R, K] for R mixtures: slopes, intercepts,
# deviations, shares.
Floats = NDArray[np.float64]

# Of the deviation about the one line of least squares. A line through two of the points would have
# deviation 0 and an infinite likelihood. The floor keeps it finite, not honest: of samples of one
# true line BIC still takes two or three lines in 56 % at 20 points, 27 % at 30 and 18 % at 43.
# `one_line_p` is the test that holds its level.
FLOOR = 0.05
_STEPS = 2000
_SHORT, _LONG = 30, 3  # steps that every start has, and how many of them climb on
_GAIN = 1e-10  # in nats a point: a step that gains less is the last


@dataclass(frozen=True)
class RegressionLine:
    """y = slope·x + intercept + N(0, deviation²), for its expected share of the points."""

    slope: float
    intercept: float
    deviation: float
    share: float


@dataclass(frozen=True)
class RegressionMixture:
    """The most likely mixture that was found, its lines in the order of their slopes, then
    intercepts.

    bic: (4K - 1)·ln n - 2·log_likelihood for K lines; smaller is better.
    """

    lines: tuple[RegressionLine, ...]
    log_likelihood: float
    bic: float


def fit_mixture(
    x: ArrayLike, y: ArrayLike, components: int, *, seed: int, restarts: int = 20
) -> RegressionMixture:
    """The mixture of `components` lines with the largest likelihood among `restarts` seeded starts,
    for at least four finite points a line.

    Every step of expectation maximisation raises the likelihood or leaves it. No deviation falls
    below a twentieth of that of the one line of least squares, which is the answer, in closed form,
    for one component. With more, a start is a line through two random points for each of them; the
    best of the starts need not be the best of all.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.max() - x.min() <= 1e-12 * np.abs(x).max():
        raise BadInput(f"all {x.size} points have the x {x[0]:.6g}: no slope can be fitted")
    moved = (x - x.mean()) / x.std()
    slope = float(moved @ y) / x.size
    unit = float(np.std(y - slope * moved))
    if unit <= 1e-12 * float(np.abs(y).max()):
        raise BadInput("the points lie on one straight line exactly: there is no deviation to fit")
    scaled = (y - y.mean()) / unit
    start = np.array([slope / unit, 0.0, 1.0, 1.0]).reshape(4, 1, 1)
    if components > 1:
        start = _starts(moved, scaled, (restarts, components), np.random.default_rng(seed))
    (slopes, intercepts, deviations, shares), likelihood = _climb(moved, scaled, start)
    slopes = slopes * unit / x.std()
    intercepts = y.mean() + intercepts * unit - slopes * x.mean()
    likelihood -= x.size * math.log(unit)
    lines = np.stack([slopes, intercepts, deviations * unit, shares]).T.tolist()
    return RegressionMixture(
        lines=tuple(RegressionLine(*line) for line in sorted(lines)),
        log_likelihood=likelihood,
        bic=(4 * components - 1) * math.log(x.size) - 2 * likelihood,
    )


def one_line_p(x: ArrayLike, y: ArrayLike, components: int, *, draws: int, seed: int) -> float:
    """How often samples of the one fitted line gain as much by `components` lines: a test of one
    line, not by BIC.

    Each of `draws` samples has the same x and normal deviations about the least-squares line. p =
    (1 + #{gains at least the data's})/(1 + draws), so that p ≤ a has probability at most a where
    one line with normal errors is true (up to that its deviation and slope are estimated, which the
    gain does not depend on).
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    rng = np.random.default_rng(seed)
    (line,) = fit_mixture(x, y, 1, seed=seed).lines

    def gain(values: Floats) -> float:
        one, more = (fit_mixture(x, values, lines, seed=seed) for lines in (1, components))
        return more.log_likelihood - one.log_likelihood

    seen = gain(y)
    expected = line.slope * x + line.intercept
    drawn = (expected + line.deviation * rng.standard_normal(x.size) for _ in range(draws))
    as_much = sum(gain(values) >= seen for values in progress(drawn, "mixtures", total=draws))
    return (1 + as_much) / (1 + draws)


def expectation(x: Floats, y: Floats, lines: Floats) -> tuple[Floats, Floats]:
    """Responsibilities [..., n, K] of the lines, and the log-likelihood [...] of each mixture."""
    slope, intercept, deviation, share = lines[..., None, :]
    residual = (y[:, None] - x[:, None] * slope - intercept) / deviation
    with np.errstate(divide="ignore"):  # a line may have lost all of its points
        weight = np.log(share) - np.log(deviation * math.sqrt(2 * math.pi))
    joint = weight - np.square(residual) / 2
    total = logsumexp(joint, axis=-1, keepdims=True)
    return np.exp(joint - total), total.sum(axis=(-2, -1))


def maximisation(x: Floats, y: Floats, responsibilities: Floats, before: Floats) -> Floats:
    """The lines that maximise the expected log-likelihood: least squares with the responsibilities
    as weights.

    The deviation is at least `FLOOR`, which is the constrained maximum, so the likelihood still
    cannot fall. A line without points stays where it was, one whose points share one x keeps its
    slope.
    """
    mass = responsibilities.sum(axis=-2)
    there = mass > 1e-10
    weights = responsibilities / np.where(there, mass, 1.0)[..., None, :]
    mean_x, mean_y = (np.einsum("...nk,n->...k", weights, value) for value in (x, y))
    from_x, from_y = x[:, None] - mean_x[..., None, :], y[:, None] - mean_y[..., None, :]
    spread = (weights * from_x * from_x).sum(axis=-2)
    steep = there & (spread > 1e-12)
    least = (weights * from_x * from_y).sum(axis=-2) / np.where(steep, spread, 1.0)
    slope = np.where(steep, least, before[0])
    intercept = np.where(there, mean_y - slope * mean_x, before[1])
    residual = y[:, None] - x[:, None] * slope[..., None, :] - intercept[..., None, :]
    deviation = np.maximum(np.sqrt((weights * residual * residual).sum(axis=-2)), FLOOR)
    share = mass / mass.sum(axis=-1, keepdims=True)
    return np.stack([slope, intercept, np.where(there, deviation, before[2]), share])


def _climb(x: Floats, y: Floats, lines: Floats) -> tuple[Floats, float]:
    """Of the mixtures [4, R, K] the best after some steps climb on; the best of those, with its
    likelihood.

    A short run tells which start is worth a long one, and a long one may creep for hundreds of
    steps.
    """
    responsibilities, likelihood = expectation(x, y, lines)
    for step in range(1, _STEPS + 1):
        if step == _SHORT:
            some = np.argsort(-likelihood)[:_LONG]
            lines, responsibilities = lines[:, some], responsibilities[some]
            likelihood = likelihood[some]
        lines = maximisation(x, y, responsibilities, lines)
        responsibilities, reached = expectation(x, y, lines)
        gain, likelihood = float((reached - likelihood).max()), reached
        if gain < _GAIN * x.size:
            break
    best = int(likelihood.argmax())
    return lines[:, best], float(likelihood[best])


def _starts(x: Floats, y: Floats, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Lines through two random points each, as wide as the least-squares line, equal shares."""
    first = rng.integers(x.size, size=shape)
    second = np.array([[rng.choice(np.flatnonzero(x != x[at])) for at in row] for row in first])
    slope = (y[second] - y[first]) / (x[second] - x[first])
    shares = np.full(shape, 1 / shape[1])
    return np.stack([slope, y[first] - slope * x[first], np.ones(shape), shares])

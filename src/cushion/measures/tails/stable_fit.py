"""Maximum-likelihood fit of a stable law S0(α, β, c, δ) to the weights of a layer. A measure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from cushion.errors import BadInput
from cushion.measures.tails.records import StableFit
from cushion.measures.tails.stable_law import StableLaw

Floats = NDArray[np.float64]

_EXACT = 2**15  # up to so many numbers each one enters the likelihood; more are put into bins
_BINS = 1024  # per unit of asinh(z)
_CHUNK = 2**16
_WIDEST = 1e100  # of |z|: its square is a number
_LOWEST = 0.5  # α; below it nothing is fitted
# of α and β in derivatives: moves the maximum by half of it, far below any standard error
_DIFFERENCE = 1e-5
_ALPHAS, _LOG_SCALES = (
    (0.7, 1.2, 1.7),
    (-5.0, -3.0, -1.5, 0.0),
)  # of the laws that a climb may begin at
_HIGHEST = 2 - 1e-4  # α; from here on the law is normal or not, by their likelihoods
# A value with the share p of the numbers makes the likelihood grow without bound as c → 0 where α <
# p/(1-p).
_LARGEST_SHARE = _LOWEST / (1 + _LOWEST)


@dataclass(frozen=True)
class _Parameters:
    """Of a law of the standardised numbers z."""

    alpha: float
    beta: float
    log_scale: float
    location: float


def fit_stable(values: ArrayLike, *, symmetric: bool) -> StableFit:
    """The stable law under which the numbers are most likely; with `symmetric`, among those of β =
    0.

    values: signed, finite, of any shape, at least 50 and not all the same. They are centred at the
    median and divided by half the interquartile range, so that the fit follows any shift, scaling
    and change of sign. α lies in [0.5, 2]. The standard errors come from the second derivatives of
    the log-likelihood; they hold if the numbers are independent and of such a law, and are None for
    what was not estimated: β where it is held or ±1, α and β where α is 2.

    More than 2^15 numbers are put into bins of width 2^-10 in asinh(z), and each enters with its
    bin's mean. To second order this takes (ln f)''·w²/24 a number from the log-likelihood, about
    1e-7; the estimates move by less than a hundredth of the standard error of 10^6 numbers.
    `log_likelihood` and `ks_distance` are of the numbers themselves. Raises BadInput, with the
    reason, where the likelihood has no maximum inside.
    """
    z, middle, unit = _standardised(values)
    places, shares = _binned(z)
    found, reached = _maximum(places, shares, symmetric=True)
    if not symmetric:  # from there too, so that it is never the less likely of the two
        found, reached = _maximum(places, shares, symmetric=False, beside=found)
    normal = _normal(z)
    if reached <= _normal_likelihood(normal):
        scale = math.exp(normal.log_scale)
        found, errors = normal, _normal_errors(scale, z.size)
    else:
        if found.alpha <= _LOWEST:
            raise BadInput(
                f"the likelihood of a stable law still rises where alpha falls to {_LOWEST}: the "
                f"{z.size} numbers are spread over too many orders of magnitude, or heaped at one "
                "value; use the power law"
            )
        errors = _errors(found, places, shares, z.size, symmetric)
    scale, law = math.exp(found.log_scale), StableLaw(found.alpha, found.beta)
    likelihood, distance = _final(law, z, found.location, scale)
    return StableFit(
        alpha=found.alpha,
        beta=found.beta,
        scale=scale * unit,
        location=middle + found.location * unit,
        symmetric=symmetric,
        errors=errors | {name: _times(errors[name], unit) for name in ("scale", "location")},
        log_likelihood=likelihood - z.size * math.log(unit),
        ks_distance=distance,
    )


def _standardised(values: ArrayLike) -> tuple[Floats, float, float]:
    """The numbers sorted, minus the median, over half the interquartile range; and these two."""
    ordered = np.sort(np.asarray(values).reshape(-1)).astype(
        np.float64, copy=False
    )  # float32 sorts faster
    n = ordered.size
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    runs = np.diff(np.append(starts, n))
    most = int(runs.argmax())
    if runs[most] > _LARGEST_SHARE * n:
        raise BadInput(
            f"{runs[most]} of {n} numbers are exactly {ordered[starts[most]] + 0.0:.6g}: a stable "
            "law has a density, and its likelihood grows without bound on a value that is repeated "
            "so often"
        )
    low, middle, high = (float(q) for q in np.quantile(ordered, [0.25, 0.5, 0.75]))
    unit = (high - low) / 2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ordered -= middle
        ordered /= unit
    if not (math.isfinite(unit) and max(-ordered[0], ordered[-1]) < _WIDEST):
        raise BadInput(
            f"{n} numbers with the interquartile range {2 * unit:.6g} are too far apart for a "
            "stable law"
        )
    return ordered, middle, unit


def _binned(z: Floats) -> tuple[Floats, Floats]:
    """Places and their shares of the numbers, adding up to 1: the sorted z, or means of bins."""
    if z.size <= _EXACT:
        return z, np.full(z.size, 1 / z.size)
    ends = (
        np.arange(math.floor(math.asinh(z[0]) * _BINS), math.ceil(math.asinh(z[-1]) * _BINS) + 1)
        / _BINS
    )
    starts = np.unique(np.searchsorted(z, np.sinh(ends)))
    starts = np.union1d(0, starts[starts < z.size])
    counts = np.diff(np.append(starts, z.size))
    return np.add.reduceat(z, starts) / counts, counts / z.size


def _maximum(
    places: Floats, shares: Floats, *, symmetric: bool, beside: _Parameters | None = None
) -> tuple[_Parameters, float]:
    """The parameters of the largest mean log-likelihood per number that was found, and that mean.

    Mixtures have several maxima. The climb begins at the fit of the characteristic function, and at
    the best symmetric law, `beside`, or for that one at the two likeliest of a few laws of all
    widths.
    """
    grid = [_Parameters(alpha, 0.0, width, 0.0) for alpha in _ALPHAS for width in _LOG_SCALES]
    likeliest = (
        sorted(grid, key=lambda at: -_mean_log(at, places, shares))[:2]
        if beside is None
        else [beside]
    )
    starts = [_start(places, shares, symmetric), *likeliest]
    return max(
        (_climb(start, places, shares, symmetric) for start in starts), key=lambda found: found[1]
    )


def _mean_log(at: _Parameters, places: Floats, shares: Floats) -> float:
    y = (places - at.location) / math.exp(at.log_scale)
    return float(np.dot(shares, StableLaw(at.alpha, at.beta).log_density(y))) - at.log_scale


def _climb(
    first: _Parameters, places: Floats, shares: Floats, symmetric: bool
) -> tuple[_Parameters, float]:
    """The nearest maximum above a start, and the mean log-likelihood there."""
    kept = [0, 2, 3] if symmetric else [0, 1, 2, 3]
    bounds = np.array([(_LOWEST, _HIGHEST), (-1.0, 1.0), (-8.0, 4.0), (-50.0, 50.0)])[kept]

    def objective(free: Floats) -> tuple[float, Floats]:
        value, gradient = _likelihood(_unpack(free, symmetric), places, shares, symmetric)
        return -value, -gradient

    begin = np.clip(
        np.array([first.alpha, first.beta, first.log_scale, first.location])[kept], *bounds.T
    )
    found = minimize(
        objective,
        begin,
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 1e-11, "gtol": 1e-6},
    )
    return _unpack(found.x, symmetric), -float(found.fun)


def _unpack(free: Floats, symmetric: bool) -> _Parameters:
    alpha, *beta, log_scale, location = (float(value) for value in free)
    return _Parameters(alpha, 0.0 if symmetric else beta[0], log_scale, location)


def _start(places: Floats, shares: Floats, symmetric: bool) -> _Parameters:
    """From the characteristic function: ln(-ln|φ|) = α ln(cu), phase linear in δ and β."""
    u = np.linspace(0.1, 1.0, 10)
    phi = np.array([np.dot(shares, np.exp(1j * v * places)) for v in u])
    size = np.clip(np.abs(phi), 1e-3, 1 - 1e-6)
    slope, level = np.polyfit(np.log(u), np.log(-np.log(size)), 1)
    alpha = float(np.clip(slope, 0.6, 1.95))
    log_scale = float(np.clip(level / alpha, -2.0, 2.0))
    if symmetric:
        return _Parameters(alpha, 0.0, log_scale, 0.0)
    at = alpha if abs(alpha - 1) > 1e-3 else 1.001
    scaled = math.exp(log_scale) * u
    skew = -math.tan(math.pi * at / 2) * (scaled - scaled**at)
    (location, beta), *_ = np.linalg.lstsq(
        np.stack([u, skew], axis=1), np.unwrap(np.angle(phi)), rcond=None
    )
    return _Parameters(
        alpha, float(np.clip(beta, -0.9, 0.9)), log_scale, float(np.clip(location, -5.0, 5.0))
    )


def _likelihood(
    at: _Parameters, places: Floats, shares: Floats, symmetric: bool
) -> tuple[float, Floats]:
    """Mean log-likelihood per number and its gradient by α, (β,) ln c, δ: exact but for α and β, by
    differences.
    """
    scale = math.exp(at.log_scale)
    y = (places - at.location) / scale
    law = StableLaw(at.alpha, at.beta)
    logs = law.log_density(y)
    value = float(np.dot(shares, logs)) - at.log_scale
    slope = shares * law.slope(y)

    def backwards(alpha: float, beta: float, step: float) -> float:
        return float(np.dot(shares, logs - StableLaw(alpha, beta).log_density(y))) / step

    down = min(_DIFFERENCE, (2 - at.alpha) / 100)
    gradient = [backwards(at.alpha - down, at.beta, down)]
    if not symmetric:
        inwards = math.copysign(_DIFFERENCE, at.beta)
        gradient.append(backwards(at.alpha, at.beta - inwards, inwards))
    return value, np.array([*gradient, -1 - float(np.dot(slope, y)), -float(slope.sum()) / scale])


def _errors(
    at: _Parameters, places: Floats, shares: Floats, n: int, symmetric: bool
) -> dict[str, float | None]:
    """Standard errors in units of z: the inverse second derivatives, by differences."""
    names = (
        ["alpha", "log_scale", "location"]
        if symmetric
        else ["alpha", "beta", "log_scale", "location"]
    )
    on_edge = {"alpha"} if at.alpha >= _HIGHEST else set()
    on_edge |= {"beta"} if abs(at.beta) > 0.999 else set()
    kept = [index for index, name in enumerate(names) if name not in on_edge]
    centre = np.array([getattr(at, name) for name in names])
    steps = {
        "alpha": min(0.01, (2 - at.alpha) / 8),
        "beta": min(0.01, 1 - abs(at.beta)),
        "log_scale": 0.01,
    }
    rows = []
    for index in kept:
        step = np.zeros(len(names))
        step[index] = steps.get(names[index], 0.01 * math.exp(at.log_scale))
        ends = [
            _likelihood(_unpack(centre + sign * step, symmetric), places, shares, symmetric)[1][
                kept
            ]
            for sign in (1, -1)
        ]
        rows.append((ends[1] - ends[0]) / (2 * step[index]))
    information = n * (np.array(rows) + np.array(rows).T) / 2
    errors: dict[str, float | None] = dict.fromkeys(("alpha", "beta", "scale", "location"))
    if np.linalg.eigvalsh(information)[0] <= 0:
        return errors
    for index, variance in zip(kept, np.diag(np.linalg.inv(information)), strict=True):
        errors[names[index].removeprefix("log_")] = math.sqrt(variance)
    errors["scale"] = _times(errors["scale"], math.exp(at.log_scale))
    return errors


def _normal(z: Floats) -> _Parameters:
    """The most likely normal law, α = 2, whose variance is 2c²."""
    return _Parameters(2.0, 0.0, math.log(float(z.std())) - math.log(2) / 2, float(z.mean()))


def _normal_likelihood(at: _Parameters) -> float:
    return -0.5 * math.log(4 * math.pi) - at.log_scale - 0.5


def _normal_errors(scale: float, n: int) -> dict[str, float | None]:
    return {
        "alpha": None,
        "beta": None,
        "scale": scale / math.sqrt(2 * n),
        "location": scale * math.sqrt(2 / n),
    }


def _final(law: StableLaw, z: Floats, location: float, scale: float) -> tuple[float, float]:
    """Log-likelihood of all z, and sup |F_n - F|, which is next to a jump of F_n."""
    n, likelihood, distance = z.size, 0.0, 0.0
    for start in range(0, n, _CHUNK):
        y = (z[start : start + _CHUNK] - location) / scale
        likelihood += float(law.log_density(y).sum())
        steps = np.arange(start, start + y.size + 1) / n
        under = law.cdf(y)
        distance = max(
            distance, float((steps[1:] - under).max()), float((under - steps[:-1]).max())
        )
    return likelihood - n * math.log(scale), distance


def _times(error: float | None, factor: float) -> float | None:
    return None if error is None else error * factor

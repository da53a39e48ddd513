"""Maximum-likelihood fit of a stable law S0(α, β, c, δ) to the weights of a layer. A measure."""

from __future__ import annotations

import math

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
# of α and β in derivatives: moves the maximum by half of it, far below any standard error
_DIFFERENCE = 1e-5
# The parameters of a law of the standardised numbers z stand in one array, in this order.
_NAMES = ("alpha", "beta", "log_scale", "location")
_ALPHAS, _LOG_SCALES = (0.7, 1.2, 1.7), (-5.0, -3.0, -1.5, 0.0)  # where a climb may begin
_LOWEST = 0.5  # α; below it nothing is fitted
_HIGHEST = 2 - 1e-4  # α; from here on the law is normal or not, by their likelihoods
_BOUNDS = np.array([(_LOWEST, _HIGHEST), (-1.0, 1.0), (-8.0, 4.0), (-50.0, 50.0)])
# A value with the share p makes the likelihood grow without bound as c → 0 where α < p/(1-p).
_LARGEST_SHARE = _LOWEST / (1 + _LOWEST)


def fit_stable(values: ArrayLike, *, symmetric: bool) -> StableFit:
    """The stable law under which the numbers are most likely; with `symmetric`, of those of β = 0.

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
    n, (places, shares) = z.size, _binned(z)
    found, reached = _maximum(places, shares, symmetric=True)
    if not symmetric:  # from there too, so that it is never the less likely of the two
        found, reached = _maximum(places, shares, symmetric=False, beside=found)
    deviation = float(z.std())  # of the most likely normal law, α = 2, whose variance is 2c²
    log_scale = math.log(deviation) - math.log(2) / 2
    errors: dict[str, float | None] = dict.fromkeys(("alpha", "beta", "scale", "location"))
    if reached <= -0.5 * math.log(4 * math.pi) - log_scale - 0.5:
        found = np.array([2.0, 0.0, log_scale, z.mean()])
        scale = math.exp(log_scale)
        errors |= {"scale": scale / math.sqrt(2 * n), "location": scale * math.sqrt(2 / n)}
    else:
        if found[0] <= _LOWEST:
            rises = f"the likelihood of a stable law still rises where alpha falls to {_LOWEST}"
            why = f"the {n} numbers are spread over too many orders of magnitude, or heaped at one"
            raise BadInput(f"{rises}: {why} value; use the power law")
        errors |= _errors(found, places, shares, n, symmetric)
    alpha, beta, log_scale, location = found.tolist()
    scale = math.exp(log_scale)
    likelihood, distance = _final(StableLaw(alpha, beta), z, location, scale)
    for name in ("scale", "location"):
        error = errors[name]
        errors[name] = None if error is None else error * unit
    return StableFit(
        alpha=alpha,
        beta=beta,
        scale=scale * unit,
        location=middle + location * unit,
        symmetric=symmetric,
        errors=errors,
        log_likelihood=likelihood - n * math.log(unit),
        ks_distance=distance,
    )


def _standardised(values: ArrayLike) -> tuple[Floats, float, float]:
    """The numbers sorted, minus the median, over half the interquartile range; and these two."""
    ordered = np.sort(np.asarray(values).reshape(-1))  # float32 sorts faster
    ordered = ordered.astype(np.float64, copy=False)
    n = ordered.size
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    runs = np.diff(np.append(starts, n))
    most = int(runs.argmax())
    if runs[most] > _LARGEST_SHARE * n:
        heap = f"{runs[most]} of {n} numbers are exactly {ordered[starts[most]] + 0.0:.6g}"
        why = "its likelihood grows without bound on a value that is repeated so often"
        raise BadInput(f"{heap}: a stable law has a density, and {why}")
    low, middle, high = (float(q) for q in np.quantile(ordered, [0.25, 0.5, 0.75]))
    unit = (high - low) / 2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ordered -= middle
        ordered /= unit
    if not (math.isfinite(unit) and max(-ordered[0], ordered[-1]) < _WIDEST):
        wide = f"{n} numbers with the interquartile range {2 * unit:.6g}"
        raise BadInput(f"{wide} are too far apart for a stable law")
    return ordered, middle, unit


def _binned(z: Floats) -> tuple[Floats, Floats]:
    """Places and their shares of the numbers, adding up to 1: the sorted z, or means of bins."""
    if z.size <= _EXACT:
        return z, np.full(z.size, 1 / z.size)
    low, high = math.floor(math.asinh(z[0]) * _BINS), math.ceil(math.asinh(z[-1]) * _BINS)
    starts = np.unique(np.searchsorted(z, np.sinh(np.arange(low, high + 1) / _BINS)))
    starts = np.union1d(0, starts[starts < z.size])
    counts = np.diff(np.append(starts, z.size))
    return np.add.reduceat(z, starts) / counts, counts / z.size


def _maximum(
    places: Floats, shares: Floats, *, symmetric: bool, beside: Floats | None = None
) -> tuple[Floats, float]:
    """The parameters of the largest mean log-likelihood per number that was found, and that mean.

    Mixtures have several maxima. The climb begins at the fit of the characteristic function, and at
    the best symmetric law, `beside`, or for that one at the two likeliest of a few laws of all
    widths.
    """
    starts = [_start(places, shares, symmetric)]
    if beside is None:
        grid = [np.array([alpha, 0, width, 0]) for alpha in _ALPHAS for width in _LOG_SCALES]
        starts += sorted(grid, key=lambda at: -_mean_log(at, places, shares))[:2]
    else:
        starts.append(beside)
    climbs = [_climb(start, places, shares, symmetric) for start in starts]
    return max(climbs, key=lambda found: found[1])


def _mean_log(at: Floats, places: Floats, shares: Floats) -> float:
    alpha, beta, log_scale, location = at
    y = (places - location) / math.exp(log_scale)
    return float(np.dot(shares, StableLaw(alpha, beta).log_density(y))) - float(log_scale)


def _climb(first: Floats, places: Floats, shares: Floats, symmetric: bool) -> tuple[Floats, float]:
    """The nearest maximum above a start, and the mean log-likelihood there."""
    free = [0, 2, 3] if symmetric else [0, 1, 2, 3]

    def whole(chosen: Floats) -> Floats:
        at = np.zeros(len(_NAMES))
        at[free] = chosen
        return at

    def objective(chosen: Floats) -> tuple[float, Floats]:
        value, gradient = _likelihood(whole(chosen), places, shares, symmetric)
        return -value, -gradient[free]

    begin, options = np.clip(first, *_BOUNDS.T)[free], {"ftol": 1e-11, "gtol": 1e-6}
    found = minimize(
        objective, begin, jac=True, bounds=_BOUNDS[free], method="L-BFGS-B", options=options
    )
    return whole(found.x), -float(found.fun)


def _start(places: Floats, shares: Floats, symmetric: bool) -> Floats:
    """From the characteristic function: ln(-ln|φ|) = α ln(cu), phase linear in δ and β."""
    u = np.linspace(0.1, 1.0, 10)
    phi = np.array([np.dot(shares, np.exp(1j * v * places)) for v in u])
    size = np.clip(np.abs(phi), 1e-3, 1 - 1e-6)
    slope, level = np.polyfit(np.log(u), np.log(-np.log(size)), 1)
    alpha = float(np.clip(slope, 0.6, 1.95))
    log_scale = float(np.clip(level / alpha, -2.0, 2.0))
    if symmetric:
        return np.array([alpha, 0.0, log_scale, 0.0])
    at = alpha if abs(alpha - 1) > 1e-3 else 1.001
    scaled = math.exp(log_scale) * u
    skew = -math.tan(math.pi * at / 2) * (scaled - scaled**at)
    phase = np.unwrap(np.angle(phi))
    (location, beta), *_ = np.linalg.lstsq(np.stack([u, skew], axis=1), phase, rcond=None)
    return np.array([alpha, np.clip(beta, -0.9, 0.9), log_scale, np.clip(location, -5.0, 5.0)])


def _likelihood(
    at: Floats, places: Floats, shares: Floats, symmetric: bool
) -> tuple[float, Floats]:
    """Mean log-likelihood and its gradient: by differences for α and β, 0 where β is held."""
    alpha, beta, log_scale, location = at.tolist()
    scale = math.exp(log_scale)
    y = (places - location) / scale
    law = StableLaw(alpha, beta)
    logs = law.log_density(y)
    slope = shares * law.slope(y)

    def backwards(alpha: float, beta: float, step: float) -> float:
        return float(np.dot(shares, logs - StableLaw(alpha, beta).log_density(y))) / step

    down, inwards = min(_DIFFERENCE, (2 - alpha) / 100), math.copysign(_DIFFERENCE, beta)
    gradient = [
        backwards(alpha - down, beta, down),
        0.0 if symmetric else backwards(alpha, beta - inwards, inwards),
        -1 - float(np.dot(slope, y)),
        -float(slope.sum()) / scale,
    ]
    return float(np.dot(shares, logs)) - log_scale, np.array(gradient)


def _errors(
    at: Floats, places: Floats, shares: Floats, n: int, symmetric: bool
) -> dict[str, float]:
    """Standard errors in units of z: the inverse second derivatives, by differences; none for what
    is held or on its edge, or where they are no maximum's.
    """
    alpha, beta, log_scale, _ = at.tolist()
    scale = math.exp(log_scale)
    steps = [min(0.01, (2 - alpha) / 8), min(0.01, 1 - abs(beta)), 0.01, 0.01 * scale]
    moves = [alpha < _HIGHEST, not symmetric and abs(beta) <= 0.999, True, True]
    kept = np.flatnonzero(moves)
    rows = []
    for index in kept:
        step = np.zeros(len(_NAMES))
        step[index] = steps[index]
        ends = [_likelihood(at + sign * step, places, shares, symmetric)[1] for sign in (1, -1)]
        rows.append((ends[1] - ends[0])[kept] / (2 * steps[index]))
    information = n * (np.array(rows) + np.array(rows).T) / 2
    if np.linalg.eigvalsh(information)[0] <= 0:
        return {}
    roots = np.sqrt(np.diag(np.linalg.inv(information)))
    errors = {_NAMES[index]: float(root) for index, root in zip(kept, roots, strict=True)}
    return errors | {"scale": errors.pop("log_scale") * scale}


def _final(law: StableLaw, z: Floats, location: float, scale: float) -> tuple[float, float]:
    """Log-likelihood of all z, and sup |F_n - F|, which is next to a jump of F_n."""
    n, likelihood, distance = z.size, 0.0, 0.0
    for start in range(0, n, _CHUNK):
        y = (z[start : start + _CHUNK] - location) / scale
        likelihood += float(law.log_density(y).sum())
        steps = np.arange(start, start + y.size + 1) / n
        under = law.cdf(y)
        gaps = np.maximum(steps[1:] - under, under - steps[:-1])
        distance = max(distance, float(gaps.max()))
    return likelihood - n * math.log(scale), distance

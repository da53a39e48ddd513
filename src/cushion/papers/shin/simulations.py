"""Draws of the matrices that Shin 2021 assumes: Pareto weights, with signs or not; stable ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.measures.tails.stable_law import sample_stable
from cushion.papers.shin.resilience import brackets, brackets_printed
from cushion.progress import progress
from cushion.theorems import heavy_tails
from cushion.theorems.heavy_tails import epsilon_promised

Law: TypeAlias = Literal["positive", "signed"]
Shape: TypeAlias = Literal["spread", "spiky"]
Array: TypeAlias = NDArray[np.float64]
_AT_ONCE = 2**21  # numbers drawn at once


def pareto(rng: np.random.Generator, shape: tuple[int, ...], alpha: float, law: Law) -> Array:
    """Magnitudes with density α w^-(α+1) on [1, ∞); fair signs if the law is "signed"."""
    magnitudes = np.power(1.0 - rng.random(shape), -1.0 / alpha)
    return magnitudes * rng.choice((-1.0, 1.0), shape) if law == "signed" else magnitudes


def vector(kind: Shape, size: int) -> Array:
    """All ones, or halving from number to number."""
    return np.ones(size) if kind == "spread" else np.power(0.5, np.arange(size))


def proposition_1_1(
    *,
    law: Law,
    kind: Shape,
    t: float,
    eta: float,
    tau: float,
    alpha: float,
    side: int,
    draws: int,
    seed: int,
) -> dict[str, float]:
    """Shares of the draws in which |uᵀ(W - W(t))v| > ε‖u‖‖v‖, W [side, side], by where ε comes
    from.

    uᵀGv is drawn as what it is, normal with variance ‖u‖²‖v‖². "ours" has an ε of its own for each
    draw (`spread_seen`), and "ours, size" is its mean as a share of the corrected one; "mean
    square" is that of the error over ‖u‖‖v‖.
    """
    rng = np.random.default_rng(seed)
    u = v = vector(kind, side)
    length = float(np.linalg.norm(u) * np.linalg.norm(v))
    spread = tau * tau + t
    printed = partial(heavy_tails.epsilon_promised_printed, spread, eta)
    corrected = epsilon_promised(spread, eta)
    errors, own = [], []
    for weights in _paretos(rng, (side, side), draws, alpha, law):
        small = weights * (np.abs(weights) <= tau)
        noise = math.sqrt(t) * rng.standard_normal(len(small))
        errors.append(np.abs(np.einsum("i,bij,j->b", u, small, v) / length + noise))
        seen = (heavy_tails.spread_seen(np.abs(one), u, v, t) for one in small)
        own.append([epsilon_promised(one, eta) for one in seen])
    error, ours = np.concatenate(errors), np.concatenate(own)
    limits: dict[str, Any] = {place: printed(place) for place in heavy_tails.FACTORS}
    limits |= {"corrected": corrected, "ours": ours}
    return {
        **{place: float((error > limit).mean()) for place, limit in limits.items()},
        "ours, size": float(ours.mean() / corrected),
        "mean square": float(np.square(error).mean()),
    }


def dependent(
    *, eta: float, tau: float, alpha: float, rows: int, columns: int, draws: int, seed: int
) -> dict[str, float]:
    """The share of draws in which the corrected ε fails, t = 0, for a u that depends on W: a
    Jacobian's row.

    The net is 1ᵀ relu(Wx) with x of ones, so u marks the rows with Wx > 0.
    """
    failed = 0
    for weights in _paretos(seed, (rows, columns), draws, alpha, "signed"):
        active = weights.sum(axis=2) > 0
        small = (weights * (np.abs(weights) <= tau)).sum(axis=2)
        promised = epsilon_promised(tau * tau, eta) * np.sqrt(active.sum(axis=1) * columns)
        failed += int((np.abs((active * small).sum(axis=1)) > promised).sum())
    return {"failed": failed / draws}


def proposition_1_2(
    *, k: int, tau: float, alpha: float, n: int, draws: int, seed: int
) -> dict[str, float]:
    """The share of draws in which at least k of n weights exceed τ."""
    drawn = _paretos(seed, (n,), draws, alpha, "positive")
    kept = [(weights > tau).sum(axis=1) for weights in drawn]
    return {"seen": float((np.concatenate(kept) >= k).mean())}


def equation_10(
    *, law: Law, kind: Shape, length: int, tau: float, alpha: float, draws: int, seed: int
) -> dict[str, float]:
    """The mean of [Bx]_1² over the draws of B's first row, x a `vector` of that length."""
    x = vector(kind, length)
    drawn = _paretos(seed, (length,), draws, alpha, law)
    squares = [np.square((rows * (np.abs(rows) > tau)) @ x) for rows in drawn]
    return {"seen": float(np.concatenate(squares).mean())}


def equation_13(*, alpha: float, c: float, m: int, draws: int, seed: int) -> dict[str, Any]:
    """Shares of `draws` symmetric stable weights of scale c in the brackets of eq. 13."""
    weights = c * sample_stable(draws, alpha, 0.0, np.random.default_rng(seed))
    printed, ours = brackets_printed(weights, c, m), brackets(weights, c, m)
    return {
        "printed": [count / draws for count in printed.inside],
        "magnitudes": [count / draws for count in ours.inside],
        "lost as printed": printed.lost / draws,
        "below 1": ours.lost / draws,
    }


def replaced(
    *, alpha: float, epsilon: float, eta: float, side: int, draws: int, seed: int
) -> dict[str, float]:
    """The mean share of weights [side, side] that Proposition 1.1 corrected lets go, t = 0."""
    shares = []
    for weights in _paretos(seed, (side * side,), draws, alpha, "signed"):
        norms = np.linalg.norm(weights, axis=1).tolist()
        limits = np.sqrt([heavy_tails.spread_allowed(epsilon, eta, norm) for norm in norms])
        shares.append((np.abs(weights) <= limits[:, None]).mean(axis=1))
    return {"share": float(np.concatenate(shares).mean())}


def _paretos(
    seed: int | np.random.Generator, shape: tuple[int, ...], draws: int, alpha: float, law: Law
) -> Iterator[Array]:
    """`draws` arrays of this shape, some at once along a first axis."""
    rng = np.random.default_rng(seed)
    some = max(1, _AT_ONCE // math.prod(shape))
    for start in progress(range(0, draws, some), "draws"):
        yield pareto(rng, (min(some, draws - start), *shape), alpha, law)

"""Shin 2021, Figures 1 and 2: α-stable densities, and how likely a row reaches c^M from entries of
size c^i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid

from cushion.measures.tails.stable_law import SMALLEST_ALPHA, density
from cushion.papers.drawings import Contour, Picture, Series
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop
from cushion.papers.shin.resilience import (
    PathProbability,
    asymptotic_density,
    path_probability,
    tail_constant,
)
from cushion.theorems.sparsity import log_tail

ALPHAS = (0.5, 1.0, 1.5, 2.0)
C, M, N = 1.3, 5, 64  # Figure 2's
_PROBABLE = 0.5
_FAR = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_SHOWN = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)  # rows of Figure 2's table
_TRAPEZIA = 64  # of a bracket's integral: its relative error is below 1e-4
_POINTS: dict[Size, int] = {"quick": 101, "recorded": 401, "full": 1001}


@dataclass(frozen=True)
class Plane:
    """Figure 2's plane: so many α up to 2, and so many i from 0 to M, which need not be whole."""

    alphas: tuple[float, ...]
    powers: tuple[float, ...]


def _plane(steps: int, powers: int) -> Plane:
    return Plane(
        tuple(2.0 * k / steps for k in range(1, steps + 1)),
        tuple(M * k / powers for k in range(powers + 1)),
    )


PLANES: dict[Size, Plane] = {
    "quick": _plane(16, 10),
    "recorded": _plane(80, 50),
    "full": _plane(200, 100),
}


def figure_1(workshop: Workshop) -> Page:
    """The densities over x, and their tails beside eq. 12's power."""
    # dense at the peaks
    near = 6.0 * np.sinh(np.linspace(-4.0, 4.0, _POINTS[workshop.size])) / math.sinh(4.0)
    far = np.geomspace(1.0, 100.0, _POINTS[workshop.size])
    tails = {alpha: density(np.array(_FAR), alpha) for alpha in ALPHAS}
    known = density(near, 2.0) - np.exp(-near * near / 4.0) / math.sqrt(4.0 * math.pi)
    cauchy = density(near, 1.0) - 1.0 / (math.pi * (1.0 + near * near))
    claims = (
        heavier(tails),
        _same("α = 2 is the Gaussian distribution", known, "of N(0, 2)"),
        _same("α = 1 is the Cauchy distribution", cauchy, "of Cauchy's density"),
        power_law(tails),
    )
    powers = [
        Series(
            f"eq. 12, α = {alpha:g}",
            tuple(asymptotic_density(w, alpha) for w in far.tolist()),
            from_paper=True,
        )
        for alpha in ALPHAS
        if tail_constant(alpha) > 0
    ]
    return Page(
        tables=(
            Table(
                ("x", *(f"α = {alpha:g}" for alpha in ALPHAS)),
                tuple(zip(_FAR, *(tails[alpha].tolist() for alpha in ALPHAS), strict=True)),
                "Densities (β = 0, scale 1):",
            ),
        ),
        settings={"beta": 0, "scale": 1, "location": 0},
        claims=claims,
        notes=(
            "The paper's figure prints neither its α nor its numbers, so no column of its own "
            "stands beside ours.",
            "Footnote 2 writes Cauchy's density with (x - x₀)²/γ, which integrates to 1/√γ; it is "
            "((x - x₀)/γ)².",
            "eq. 12's constant c_α = sin(πα/2)Γ(α)/π is that of one side; both together have 2c_α. "
            "It is 0 at α = 2.",
        ),
        pictures=(
            Picture(
                "densities",
                "α-stable densities",
                tuple(near.tolist()),
                "x",
                "density",
                _densities(near),
            ),
            Picture(
                "tails",
                "Their right tails, and the power of eq. 12 (dashed)",
                tuple(far.tolist()),
                "x",
                "density",
                (*_densities(far, 1e-9), *powers),
                x_log=True,
                y_log=True,
            ),
        ),
    )


def _densities(x: NDArray[np.float64], least: float = 0.0) -> tuple[Series, ...]:
    """One line an α; what is below `least` is left out."""
    return tuple(
        Series(
            f"α = {alpha:g}",
            tuple(value if value >= least else None for value in density(x, alpha).tolist()),
        )
        for alpha in ALPHAS
    )


def heavier(tails: dict[float, NDArray[np.float64]]) -> Tried:
    """From some x on, every smaller α has the larger density."""
    ordered = np.all(np.diff([tails[alpha] for alpha in sorted(tails)], axis=0) < 0, axis=0)
    first = next((at for at in range(len(_FAR)) if ordered[at:].all()), None)
    text = "α controls the tail: the smaller it is, the heavier"
    if first is None:
        return Tried(
            text, False, f"not even at x = {_FAR[-1]:g} are the densities in the order of α"
        )
    return Tried(
        text, True, f"at each x tried from {_FAR[first]:g} on, the densities are in the order of α"
    )


def power_law(tails: dict[float, NDArray[np.float64]]) -> Tried:
    """Eq. 12 against the density at the farthest x, within a tenth."""
    ratios = {
        alpha: float(tails[alpha][-1]) / asymptotic_density(_FAR[-1], alpha)
        for alpha in tails
        if alpha < 2.0
    }
    words = ", ".join(f"{ratio:.3f} at α = {alpha:g}" for alpha, ratio in ratios.items())
    text = "for α < 2 the density tends to the power law of eq. 12"
    return Tried(
        text,
        all(0.9 <= one <= 1.1 for one in ratios.values()),
        f"density / eq. 12 at x = 100: {words}",
    )


def _same(text: str, difference: NDArray[np.float64], of_what: str) -> Tried:
    most = float(np.abs(difference).max())
    return Tried(text, most < 1e-6, f"the density is within {most:.1e} {of_what} on [-6, 6]")


def figure_2(workshop: Workshop) -> Page:
    """Eq. 16 over α and i: as printed, 1 where it does not apply, exactly, and for the law."""
    plane = PLANES[workshop.size]
    grid = [[_path(i, alpha) for alpha in plane.alphas] for i in plane.powers]
    known = Plane(tuple(alpha for alpha in plane.alphas if alpha >= SMALLEST_ALPHA), plane.powers)
    lawful = workshop.step(
        "shin-paths", {**asdict(known), "c": C, "M": M, "N": N}, lambda: _lawful(known)
    )
    claims = (is_a_bound(grid), probable(plane, grid), more_paths(plane, grid))
    titles = {
        "printed": "Eq. 16 as printed, also where it does not apply",
        "chernoff": "Eq. 16, and 1 where κ ≤ Np",
        "exact": "The binomial tail, exactly, with eq. 14's p",
    }
    surfaces = [(kind, title, plane, _values(grid, kind)) for kind, title in titles.items()]
    surfaces.append(("law", "The binomial tail with the stable law's own p", known, lawful))
    return Page(
        tables=(_by_alpha(), _exact_p()),
        settings={"c": C, "M": M, "N": N, "alphas": len(plane.alphas), "powers": len(plane.powers)},
        claims=claims,
        notes=(
            f"A region counts as probable where the exact binomial tail is at least {_PROBABLE:g}.",
            "The paper prints no numbers. It calls eq. 16 the probability; it is an upper bound, "
            "and only for κ > Np. Where κ < Np the expression bounds the other tail, P(X ≤ κ), and "
            "lies below P(X ≥ κ) in places.",
            "κ = c^(M-i) is no whole number; the exact tail is at the next one.",
            "Eq. 14 is for large c^i. Here c^i is 0.8 to 2.9 scales c, where the law's own p is "
            f"another: last picture, for α from {SMALLEST_ALPHA:g} on. With it "
            f"{_share(lawful, 0):.0%} of the i are probable at α = {known.alphas[0]:.3g} and "
            f"{_share(lawful, -1):.0%} at α = {known.alphas[-1]:.3g}.",
        ),
        pictures=tuple(
            Contour(
                f"paths-{kind}",
                title,
                over.alphas,
                over.powers,
                x_label="α",
                y_label="i",
                values=tuple(map(tuple, values)),
                value_label="P(X ≥ c^(M-i))",
            )
            for kind, title, over, values in surfaces
        ),
    )


def _values(grid: Sequence[Sequence[PathProbability]], field: str) -> list[list[float]]:
    return [[getattr(one, field) for one in row] for row in grid]


def law_probability(i: float, alpha: float) -> float:
    """P(c^i < W < c^(i+1)) of the stable law with scale c: its density's integral, by trapezia."""
    places = np.linspace(C ** (i - 1.0), C**i, _TRAPEZIA + 1)  # in scales
    return float(trapezoid(density(places, alpha), places))


def _lawful(plane: Plane) -> list[list[float]]:
    """The exact tail with `law_probability`; one call of the density an α."""
    edges = np.array([np.linspace(C ** (i - 1.0), C**i, _TRAPEZIA + 1) for i in plane.powers])
    columns = []
    for alpha in plane.alphas:
        chances = trapezoid(density(edges.ravel(), alpha).reshape(edges.shape), edges, axis=1)
        columns.append(
            [
                math.exp(log_tail(C ** (M - i), N, p))
                for i, p in zip(plane.powers, chances, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _by_alpha() -> Table:
    kinds = {"as printed": "printed", "1 where κ ≤ Np": "chernoff", "exact": "exact"}
    return Table.of(
        "Probability of enough entries of size c^i in a row to reach c^M:",
        [(alpha, what) for alpha in _SHOWN for what in kinds],
        {
            "α": lambda row: row[0],
            "P(X ≥ c^(M-i))": lambda row: row[1],
            **_over_powers(lambda row, i: float(getattr(_path(i, row[0]), kinds[row[1]]))),
        },
    )


def _exact_p() -> Table:
    laws: dict[str, Callable[[float, float], float]] = {
        "eq. 14": lambda i, alpha: _path(i, alpha).p,
        "the law itself": law_probability,
    }
    rows = [(alpha, law) for alpha in _SHOWN for law in laws]
    return Table.of(
        "Share of entries between c^i and c^(i+1):",
        [(alpha, law) for alpha, law in rows if law == "eq. 14" or alpha >= SMALLEST_ALPHA],
        {
            "α": lambda row: row[0],
            "p": lambda row: row[1],
            **_over_powers(lambda row, i: laws[row[1]](i, row[0])),
        },
    )


def _path(i: float, alpha: float) -> PathProbability:
    return path_probability(i, alpha, C, M, N)


def _over_powers(
    read: Callable[[tuple[float, str], float], float],
) -> dict[str, Callable[[tuple[float, str]], float]]:
    """One column for each whole i."""
    return {f"i = {i}": partial(lambda i, row: read(row, i), float(i)) for i in range(M + 1)}


def is_a_bound(grid: Sequence[Sequence[PathProbability]]) -> Tried:
    """What is plotted is at least the probability, everywhere on the plane."""
    ones = [one for row in grid for one in row]
    below = [one.exact - one.printed for one in ones if one.printed < one.exact * (1 - 1e-9)]
    outside = sum(not one.applies for one in ones)
    because = (
        f"κ ≤ Np on {outside / len(ones):.0%} of the plane; on {len(below) / len(ones):.0%} the "
        f"expression is below the exact probability, by up to {max(below, default=0.0):.2f}"
    )
    return Tried("eq. 16 bounds the probability that Figure 2 shows", not below, because)


def probable(plane: Plane, grid: Sequence[Sequence[PathProbability]]) -> Tried:
    """At most of the α half of the i or more are probable, exactly counted."""
    shares = _probable_shares(plane, grid)
    large = [alpha for alpha, share in shares.items() if share >= 0.5]
    text = "for a fixed value of α there are large regions of c^(M-i) that are probable"
    if not large:
        return Tried(text, False, "at no α are half of the i probable")
    words = f"half of the i or more are probable at α from {min(large):.3g} to {max(large):.3g}"
    return Tried(text, len(large) > len(shares) / 2, f"{words}, {len(large)} of {len(shares)} α")


def more_paths(plane: Plane, grid: Sequence[Sequence[PathProbability]]) -> Tried:
    """Down from the α with the most paths, half of the i or more stay probable."""
    shares = _probable_shares(plane, grid)
    best = max(shares, key=lambda alpha: shares[alpha])
    words = ", ".join(
        f"{shares[alpha]:.0%} at α = {alpha:.3g}" for alpha in (min(shares), best, max(shares))
    )
    return Tried(
        "as α grows smaller, many paths to c^M are left",
        all(share >= 0.5 for alpha, share in shares.items() if alpha <= best),
        f"probable i: {words}; eq. 14's p goes to 0 with α, since 1 - c^-α does",
    )


def _probable_shares(plane: Plane, grid: Sequence[Sequence[PathProbability]]) -> dict[float, float]:
    """The share of the i that are probable, by α."""
    exact = _values(grid, "exact")
    return {alpha: _share(exact, at) for at, alpha in enumerate(plane.alphas)}


def _share(values: Sequence[Sequence[float]], at: int) -> float:
    """Of one column, that of one α."""
    return sum(row[at] >= _PROBABLE for row in values) / len(values)

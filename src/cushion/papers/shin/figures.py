"""Shin 2021, Figures 1 and 2: α-stable densities; how likely a row reaches c^M from entries c^i."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid

from cushion.measures.tails.stable_law import SMALLEST_ALPHA, density
from cushion.papers.drawings import Contour, Picture, Series
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop
from cushion.papers.shin import resilience
from cushion.papers.shin.resilience import PathProbability, asymptotic_density
from cushion.theorems.sparsity import log_tail

Floats: TypeAlias = NDArray[np.float64]
Grid: TypeAlias = Sequence[Sequence[PathProbability]]  # one row an i, one column an α
ALPHAS = (0.5, 1.0, 1.5, 2.0)
C, M, N = 1.3, 5, 64  # Figure 2's
_path = partial(resilience.path_probability, c=C, m=M, n=N)
_PROBABLE = 0.5
_FAR = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_SHOWN = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)  # rows of Figure 2's table
_TRAPEZIA = 64  # of a bracket's integral: its relative error is below 1e-4
_POWERS = [f"i = {i}" for i in range(M + 1)]  # its columns
_POINTS: dict[Size, int] = {"quick": 101, "recorded": 401, "full": 1001}
# Figure 2's plane: so many α up to 2, and so many steps of i from 0 to M.
PLANES: dict[Size, tuple[int, int]] = {"quick": (16, 10), "recorded": (80, 50), "full": (200, 100)}


def figure_1(workshop: Workshop) -> Page:
    """The densities over x, and their tails beside eq. 12's power."""
    # dense at the peaks
    near = 6.0 * np.sinh(np.linspace(-4.0, 4.0, _POINTS[workshop.size])) / math.sinh(4.0)
    far = np.geomspace(1.0, 100.0, _POINTS[workshop.size])
    tails = {alpha: density(np.array(_FAR), alpha) for alpha in ALPHAS}
    normal = np.exp(-near * near / 4.0) / math.sqrt(4.0 * math.pi)
    cauchy = 1.0 / (math.pi * (1.0 + near * near))
    powers = [
        Series(f"eq. 12, α = {alpha:g}", [asymptotic_density(w, alpha) for w in far.tolist()], True)
        for alpha in ALPHAS
        if resilience.tail_constant(alpha) > 0
    ]
    header = ["x", *(f"α = {alpha:g}" for alpha in ALPHAS)]
    rows = list(zip(_FAR, *(tails[alpha].tolist() for alpha in ALPHAS), strict=True))
    title = "Their right tails, and the power of eq. 12 (dashed)"
    lines = [*_densities(far, 1e-9), *powers]
    axes = ("x", "density")
    return Page(
        tables=[Table(header, rows, "Densities (β = 0, scale 1):")],
        settings={"beta": 0, "scale": 1, "location": 0},
        claims=(
            heavier(tails),
            _same("α = 2 is the Gaussian", density(near, 2.0) - normal, "of N(0, 2)"),
            _same("α = 1 is the Cauchy", density(near, 1.0) - cauchy, "of Cauchy's density"),
            power_law(tails),
        ),
        notes=(
            "The paper's figure prints neither its α nor its numbers, so no column of its own "
            "stands beside ours.",
            "Footnote 2 writes Cauchy's density with (x - x₀)²/γ, which integrates to 1/√γ; it is "
            "((x - x₀)/γ)².",
            "eq. 12's constant c_α = sin(πα/2)Γ(α)/π is that of one side; both together have 2c_α. "
            "It is 0 at α = 2.",
        ),
        pictures=(
            Picture("densities", "α-stable densities", near.tolist(), *axes, _densities(near)),
            Picture("tails", title, far.tolist(), *axes, lines, x_log=True, y_log=True),
        ),
    )


def _densities(x: Floats, least: float = 0.0) -> list[Series]:
    """One line an α; what is below `least` is left out."""
    found = {alpha: density(x, alpha).tolist() for alpha in ALPHAS}
    return [
        Series(f"α = {alpha:g}", [value if value >= least else None for value in values])
        for alpha, values in found.items()
    ]


def heavier(tails: Mapping[float, Floats]) -> Tried:
    """From some x on, every smaller α has the larger density."""
    ordered = np.all(np.diff([tails[alpha] for alpha in sorted(tails)], axis=0) < 0, axis=0)
    first = next((x for at, x in enumerate(_FAR) if ordered[at:].all()), None)
    text = "α controls the tail: the smaller it is, the heavier"
    if first is None:
        words = f"not even at x = {_FAR[-1]:g} are the densities in the order of α"
    else:
        words = f"at each x tried from {first:g} on, the densities are in the order of α"
    return Tried(text, first is not None, words)


def power_law(tails: Mapping[float, Floats]) -> Tried:
    """Eq. 12 against the density at the farthest x, within a tenth."""
    text = "for α < 2 the density tends to the power law of eq. 12"
    known = {alpha: float(values[-1]) for alpha, values in tails.items() if alpha < 2.0}
    ratios = {alpha: one / asymptotic_density(_FAR[-1], alpha) for alpha, one in known.items()}
    words = ", ".join(f"{ratio:.3f} at α = {alpha:g}" for alpha, ratio in ratios.items())
    close = all(0.9 <= one <= 1.1 for one in ratios.values())
    return Tried(text, close, f"density / eq. 12 at x = 100: {words}")


def _same(text: str, difference: Floats, of_what: str) -> Tried:
    most = float(np.abs(difference).max())
    because = f"the density is within {most:.1e} {of_what} on [-6, 6]"
    return Tried(f"{text} distribution", most < 1e-6, because)


def figure_2(workshop: Workshop) -> Page:
    """Eq. 16 over α and i: as printed, 1 where it does not apply, exactly, and for the law."""
    steps, parts = PLANES[workshop.size]
    alphas = [2.0 * k / steps for k in range(1, steps + 1)]
    powers = [M * k / parts for k in range(parts + 1)]  # i, which need not be whole
    grid = [[_path(i, alpha) for alpha in alphas] for i in powers]
    known = [alpha for alpha in alphas if alpha >= SMALLEST_ALPHA]
    settings = {"alphas": known, "powers": powers, "c": C, "M": M, "N": N}
    lawful = workshop.step("shin-paths", settings, lambda: _lawful(known, powers))
    titles = {
        "printed": "Eq. 16 as printed, also where it does not apply",
        "chernoff": "Eq. 16, and 1 where κ ≤ Np",
        "exact": "The binomial tail, exactly, with eq. 14's p",
    }
    surfaces = [(kind, title, alphas, _values(grid, kind)) for kind, title in titles.items()]
    surfaces.append(("law", "The binomial tail with the stable law's own p", known, lawful))
    shares = _shares(known, lawful)
    return Page(
        tables=(_by_alpha(), _exact_p()),
        settings={"c": C, "M": M, "N": N, "alphas": len(alphas), "powers": len(powers)},
        claims=(is_a_bound(grid), probable(alphas, grid), more_paths(alphas, grid)),
        notes=(
            f"A region counts as probable where the exact binomial tail is at least {_PROBABLE:g}.",
            "The paper prints no numbers. It calls eq. 16 the probability; it is an upper bound, "
            "and only for κ > Np. Where κ < Np the expression bounds the other tail, P(X ≤ κ), and "
            "lies below P(X ≥ κ) in places.",
            "κ = c^(M-i) is no whole number; the exact tail is at the next one.",
            "Eq. 14 is for large c^i. Here c^i is 0.8 to 2.9 scales c, where the law's own p is "
            f"another: last picture, for α from {SMALLEST_ALPHA:g} on. With it "
            f"{shares[known[0]]:.0%} of the i are probable at α = {known[0]:.3g} and "
            f"{shares[known[-1]]:.0%} at α = {known[-1]:.3g}.",
        ),
        pictures=[
            Contour(f"paths-{kind}", title, over, powers, "α", "i", values, "P(X ≥ c^(M-i))")
            for kind, title, over, values in surfaces
        ],
    )


def _values(grid: Grid, field: str) -> list[list[float]]:
    return [[getattr(one, field) for one in row] for row in grid]


def law_probabilities(powers: Sequence[float], alpha: float) -> Floats:
    """P(c^i < W < c^(i+1)) of the stable law with scale c, for each i: its density by trapezia."""
    # in scales
    edges = np.array([np.linspace(C ** (i - 1.0), C**i, _TRAPEZIA + 1) for i in powers])
    heights = density(edges.ravel(), alpha).reshape(edges.shape)
    found: Floats = trapezoid(heights, edges, axis=1)
    return found


def _lawful(alphas: Sequence[float], powers: Sequence[float]) -> list[list[float]]:
    """The exact tail with the law's own p, one row an i."""
    columns = [zip(powers, law_probabilities(powers, alpha), strict=True) for alpha in alphas]
    tails = [[math.exp(log_tail(C ** (M - i), N, p)) for i, p in column] for column in columns]
    return [list(row) for row in zip(*tails, strict=True)]


def _by_alpha() -> Table:
    kinds = {"as printed": "printed", "1 where κ ≤ Np": "chernoff", "exact": "exact"}
    paths = {alpha: [_path(i, alpha) for i in range(M + 1)] for alpha in _SHOWN}
    rows = [
        (alpha, what, *(getattr(one, kind) for one in row))
        for alpha, row in paths.items()
        for what, kind in kinds.items()
    ]
    caption = "Probability of enough entries of size c^i in a row to reach c^M:"
    return Table(["α", "P(X ≥ c^(M-i))", *_POWERS], rows, caption)


def _exact_p() -> Table:
    rows: list[tuple[float | str, ...]] = []
    for alpha in _SHOWN:
        rows.append((alpha, "eq. 14", *(_path(i, alpha).p for i in range(M + 1))))
        if alpha >= SMALLEST_ALPHA:
            rows.append((alpha, "the law itself", *law_probabilities(range(M + 1), alpha).tolist()))
    return Table(["α", "p", *_POWERS], rows, "Share of entries between c^i and c^(i+1):")


def is_a_bound(grid: Grid) -> Tried:
    """What is plotted is at least the probability, everywhere on the plane."""
    ones = [one for row in grid for one in row]
    below = [one.exact - one.printed for one in ones if one.printed < one.exact * (1 - 1e-9)]
    outside = sum(not one.applies for one in ones)
    because = (
        f"κ ≤ Np on {outside / len(ones):.0%} of the plane; on {len(below) / len(ones):.0%} the "
        f"expression is below the exact probability, by up to {max(below, default=0.0):.2f}"
    )
    return Tried("eq. 16 bounds the probability that Figure 2 shows", not below, because)


def probable(alphas: Sequence[float], grid: Grid) -> Tried:
    """At most of the α half of the i or more are probable, exactly counted."""
    shares = _shares(alphas, _values(grid, "exact"))
    large = [alpha for alpha, share in shares.items() if share >= 0.5]
    text = "for a fixed value of α there are large regions of c^(M-i) that are probable"
    if not large:
        return Tried(text, False, "at no α are half of the i probable")
    words = f"half of the i or more are probable at α from {min(large):.3g} to {max(large):.3g}"
    return Tried(text, len(large) > len(shares) / 2, f"{words}, {len(large)} of {len(shares)} α")


def more_paths(alphas: Sequence[float], grid: Grid) -> Tried:
    """Down from the α with the most paths, half of the i or more stay probable."""
    shares = _shares(alphas, _values(grid, "exact"))
    best = max(shares, key=shares.__getitem__)
    ends = (min(shares), best, max(shares))
    words = ", ".join(f"{shares[alpha]:.0%} at α = {alpha:.3g}" for alpha in ends)
    return Tried(
        "as α grows smaller, many paths to c^M are left",
        all(share >= 0.5 for alpha, share in shares.items() if alpha <= best),
        f"probable i: {words}; eq. 14's p goes to 0 with α, since 1 - c^-α does",
    )


def _shares(alphas: Sequence[float], values: Sequence[Sequence[float]]) -> dict[float, float]:
    """The share of the i that are probable, by α."""
    found = (np.array(values) >= _PROBABLE).mean(axis=0).tolist()
    return dict(zip(alphas, found, strict=True))

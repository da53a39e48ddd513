"""Shin 2021, Figure 3: stable rank of the last dense layer over the exponent of its tail, on a
fleet trained here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from scipy import stats

from cushion.papers.drawings import Line, Points, Scatter
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop
from cushion.papers.shin.fleet import FLEET
from cushion.papers.shin.nets import ITERATIONS, NetTails, find_tails
from cushion.papers.shin.regression_mixture import RegressionMixture, fit_mixture, one_line_p

Read: TypeAlias = Callable[[NetTails], float]
_LEVEL = 0.05  # of the tests of rank correlation
_LINES = (1, 2, 3)  # components of the mixtures that are tried
_DRAWS: dict[Size, int] = {"quick": 39, "recorded": 199, "full": 999}  # of the test of one line


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's, of n pairs; p: how often independent numbers have one at least as far from 0."""

    n: int
    value: float
    p: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} (p = {self.p:.2g}, {self.n} nets)"


def correlate(x: Sequence[float], y: Sequence[float]) -> RankCorrelation | None:
    """None where there are fewer than four pairs, or where one side is constant."""
    if len(x) < 4 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    found = stats.spearmanr(x, y)
    return RankCorrelation(len(x), float(found.statistic), float(found.pvalue))


def figure_3(workshop: Workshop) -> Page:
    """Every net of the fleet, then the mixtures and the claims."""
    nets = [find_tails(workshop, plan) for plan in FLEET[workshop.size]]
    fitted = [net for net in nets if net.alpha is not None]
    mixtures = _mixtures(fitted, workshop.seed)
    claims = (
        clusters(fitted),
        _is_a_mixture(workshop, fitted, mixtures),
        power_iteration_suffices(nets),
        heavier_later(nets),
    )
    return Page(
        tables=(_fleet(nets), _lines(mixtures), _correlations(fitted)),
        settings={"nets": len(nets), "power iterations": ITERATIONS},
        claims=claims,
        notes=(
            "The paper plots 43 pretrained nets and prints no number of its figure; ours are "
            "trained here, so the figure is like for like in what is computed, not in the nets.",
            "α is the exponent of the density, as the package that the paper uses gives it; the α "
            "of its own Pareto law is one less.",
            "BIC takes two or three lines of samples of one true line too often where there are so "
            "few points (27 % of them at 30): the verdict goes by the bootstrap. A line with the "
            "smallest deviation in the table, a twentieth of that of one line, stands on the floor "
            "that keeps it from passing through two points.",
            "An α fitted to a few hundred weights is uncertain by the error beside it, more so "
            "after xmin was searched for; differences below that mean nothing.",
            "gap: test error minus error on the sample, whose labels are random in part where the "
            "noise is above 0.",
        ),
        pictures=_pictures(fitted, mixtures),
    )


def _mixtures(nets: Sequence[NetTails], seed: int) -> list[RegressionMixture]:
    x, y = _pairs(nets)
    return [fit_mixture(x, y, lines, seed=seed) for lines in _LINES if len(nets) > 4 * lines + 2]


def _pairs(nets: Sequence[NetTails]) -> tuple[list[float], list[float]]:
    return [net.alpha for net in nets if net.alpha is not None], [net.stable_rank for net in nets]


def clusters(nets: Sequence[NetTails]) -> Tried:
    """A positive rank correlation of α and stable rank that chance does not explain."""
    text = "smaller values of α go with a smaller stable rank"
    found = correlate(*_pairs(nets))
    if found is None:
        return Tried(text, None, "too few nets have a fit")
    return Tried(text, found.value > 0 and found.p < _LEVEL, f"rank correlation {found}")


def _is_a_mixture(
    workshop: Workshop, nets: Sequence[NetTails], mixtures: Sequence[RegressionMixture]
) -> Tried:
    """By a test that holds its level: BIC takes two lines too often among so few points."""
    text = "a mixture of two linear regressions describes the nets better than one line"
    if len(mixtures) < 2:
        return Tried(text, None, "too few nets for two lines")
    x, y = _pairs(nets)
    draws, seed = _DRAWS[workshop.size], workshop.seed
    settings = {"x": x, "y": y, "draws": draws, "seed": seed}
    p = workshop.step(
        "shin-one-line", settings, lambda: one_line_p(x, y, 2, draws=draws, seed=seed)
    )
    because = (
        f"samples of one line gain as much by a second one with p = {p:.2g} (parametric bootstrap, "
        f"{draws} draws); BIC {mixtures[0].bic:.1f} for one line, {mixtures[1].bic:.1f} for two"
    )
    return Tried(text, p < _LEVEL, because)


def power_iteration_suffices(nets: Sequence[NetTails]) -> Tried:
    worst = max(1 - net.last["power_iteration"] / net.last["spectral"] for net in nets)
    text = f"{ITERATIONS} power iterations give the spectral norm"
    return Tried(text, worst <= 1e-6, f"at most a relative {max(0.0, worst):.1g} below the SVD's")


def heavier_later(nets: Sequence[NetTails]) -> Tried:
    """The last layer's tail is heavier than the first's in more nets than chance explains."""
    text = "later layers have heavier tails (smaller α) than early ones"
    pairs = []
    for net in nets:
        first, last = net.layers[0]["power_law"], net.layers[-1]["power_law"]
        if len(net.layers) > 1 and first is not None and last is not None:
            pairs.append((float(first["alpha"]), float(last["alpha"])))
    if not pairs:
        return Tried(text, None, "no net has a fit of both its first and its last layer")
    heavier = sum(last < first for first, last in pairs)
    p = float(stats.binomtest(heavier, len(pairs), alternative="greater").pvalue)
    because = (
        f"the last layer's α is below the first's in {heavier} of {len(pairs)} nets (sign test p = "
        f"{p:.2g})"
    )
    return Tried(text, p < _LEVEL, because)


def _fleet(nets: Sequence[NetTails]) -> Table:
    def power(key: str) -> Callable[[NetTails], Any]:
        return lambda net: (net.layers[-1]["power_law"] or {}).get(key)

    return Table.of(
        "The last dense layer of every net:",
        nets,
        {
            "net": lambda net: net.plan.name,
            "varies": lambda net: net.plan.varies,
            "epochs": lambda net: net.plan.epochs,
            "label noise": lambda net: net.plan.noise,
            "error on the sample": lambda net: net.record["errors"] / net.record["m"],
            "test error": lambda net: net.test_error,
            "weights": lambda net: net.layers[-1]["weights"],
            "α": power("alpha"),
            "± s.e.": power("alpha_error"),
            "tail": power("tail"),
            "KS": power("ks_distance"),
            "α of a stable law": lambda net: (net.layers[-1]["stable"] or {}).get("alpha"),
            "stable rank": lambda net: net.stable_rank,
            "‖W‖₂": lambda net: net.last["spectral"],
        },
    )


def _lines(mixtures: Sequence[RegressionMixture]) -> Table:
    return Table.of(
        "Stable rank over α as a mixture of linear regressions, by EM:",
        [(found, *one) for found in mixtures for one in enumerate(found.lines, 1)],
        {
            "lines": lambda row: len(row[0].lines),
            "BIC": lambda row: row[0].bic,
            "line": lambda row: row[1],
            "share of the nets": lambda row: row[2].share,
            "slope": lambda row: row[2].slope,
            "intercept": lambda row: row[2].intercept,
            "standard deviation": lambda row: row[2].deviation,
        },
    )


def _correlations(nets: Sequence[NetTails]) -> Table:
    """What α and the stable rank say of the gap: over all nets, by data set, without noise."""
    groups = {"all": list(nets), "labels as they are": [net for net in nets if net.plan.noise == 0]}
    for data in dict.fromkeys(net.plan.data for net in nets):
        groups[data] = [net for net in nets if net.plan.data == data]

    def cell(x: Read, y: Read) -> Callable[[tuple[str, list[NetTails]]], str | None]:
        def read(group: tuple[str, list[NetTails]]) -> str | None:
            found = correlate([x(net) for net in group[1]], [y(net) for net in group[1]])
            return None if found is None else f"{found.value:+.2f} (p {found.p:.1g})"

        return read

    names = ("alpha", "stable_rank", "gap", "test_error")
    alpha, rank, gap, error = (attrgetter(name) for name in names)
    return Table.of(
        "Rank correlations (Spearman), and how often chance alone is as far from 0:",
        groups.items(),
        {
            "nets": lambda group: group[0],
            "count": lambda group: len(group[1]),
            "α, stable rank": cell(alpha, rank),
            "α, gap": cell(alpha, gap),
            "α, test error": cell(alpha, error),
            "rank, gap": cell(rank, gap),
            "rank, test error": cell(rank, error),
        },
    )


def _pictures(
    nets: Sequence[NetTails], mixtures: Sequence[RegressionMixture]
) -> tuple[Scatter, ...]:
    """The nets by data set and labels, with the errors of α; one line, and the mixture of two."""
    if not nets:
        return ()
    kinds = dict.fromkeys((net.plan.data, net.plan.noise > 0) for net in nets)
    groups = tuple(
        Points(
            f"{data}, random labels" if noisy else data,
            tuple((net.alpha or 0.0, net.stable_rank) for net in some),
            tuple(float(net.layers[-1]["power_law"]["alpha_error"]) for net in some),
        )
        for data, noisy in kinds
        if (some := [net for net in nets if (net.plan.data, net.plan.noise > 0) == (data, noisy)])
    )
    drawn = [
        Line(
            "one line" if len(found.lines) == 1 else f"of two: {100 * line.share:.0f} %",
            line.slope,
            line.intercept,
        )
        for found in mixtures[:2]
        for line in found.lines
    ]
    title = "Stable rank of the last dense layer, one line, and a mixture of two"
    return (
        Scatter(
            "figure3", title, "α of the power law", "stable rank ‖W‖_F²/‖W‖₂²", groups, tuple(drawn)
        ),
    )

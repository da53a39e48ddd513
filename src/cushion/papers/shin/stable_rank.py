"""Shin 2021, Figure 3: stable rank of the last dense layer over its tail's exponent, on a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from scipy import stats

from cushion.papers.drawings import Line, Points, Scatter
from cushion.papers.pages import Columns, Page, Size, Table, Tried
from cushion.papers.runner import Workshop
from cushion.papers.shin.fleet import FLEET, ITERATIONS, NetTails, find_tails
from cushion.papers.shin.regression_mixture import RegressionMixture, fit_mixture, one_line_p

_LEVEL = 0.05  # of the tests of rank correlation
_LINES = (1, 2, 3)  # components of the mixtures that are tried
_DRAWS: dict[Size, int] = {"quick": 39, "recorded": 199, "full": 999}  # of the test of one line


def correlate(x: Sequence[float], y: Sequence[float]) -> tuple[float, float] | None:
    """Spearman's, and how often independent numbers have one at least as far from 0; None where
    there are fewer than four pairs, or where one side is constant.
    """
    if len(x) < 4 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    found = stats.spearmanr(x, y)
    return float(found.statistic), float(found.pvalue)


def rises(
    x: Sequence[float], y: Sequence[float], what: str, lacking: str
) -> tuple[bool | None, str]:
    """Whether y rises with x by a rank correlation that chance does not explain."""
    found = correlate(x, y)
    if found is None:
        return None, lacking
    value, p = found
    words = f"rank correlation{what} {value:+.2f} (p = {p:.2g}, {len(x)} nets)"
    return value > 0 and p < _LEVEL, words


def figure_3(workshop: Workshop) -> Page:
    """Every net of the fleet, then the mixtures and the claims."""
    nets = [find_tails(workshop, plan) for plan in FLEET[workshop.size]]
    fitted = [net for net in nets if net.fit is not None]
    points = [net.alpha for net in fitted], [net.stable_rank for net in fitted]
    some = [lines for lines in _LINES if len(fitted) > 4 * lines + 2]
    mixtures = [fit_mixture(*points, lines, seed=workshop.seed) for lines in some]
    return Page(
        tables=(_fleet(nets), _lines(mixtures), _correlations(fitted)),
        settings={"nets": len(nets), "power iterations": ITERATIONS},
        claims=(
            clusters(fitted),
            _is_a_mixture(workshop, points, [found.bic for found in mixtures]),
            power_iteration_suffices(nets),
            heavier_later(nets),
        ),
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


def clusters(nets: Sequence[NetTails]) -> Tried:
    """A positive rank correlation of α and stable rank that chance does not explain."""
    x, y = [net.alpha for net in nets], [net.stable_rank for net in nets]
    text = "smaller values of α go with a smaller stable rank"
    return Tried(text, *rises(x, y, "", "too few nets have a fit"))


def _is_a_mixture(workshop: Workshop, points: Sequence[list[float]], bics: list[float]) -> Tried:
    """By a test that holds its level: BIC takes two lines too often among so few points."""
    text = "a mixture of two linear regressions describes the nets better than one line"
    if len(bics) < 2:
        return Tried(text, None, "too few nets for two lines")
    draws, seed = _DRAWS[workshop.size], workshop.seed
    x, y = points
    settings = {"x": x, "y": y, "draws": draws, "seed": seed}
    test = partial(one_line_p, x, y, 2, draws=draws, seed=seed)
    p = workshop.step("shin-one-line", settings, test)
    because = (
        f"samples of one line gain as much by a second one with p = {p:.2g} (parametric bootstrap, "
        f"{draws} draws); BIC {bics[0]:.1f} for one line, {bics[1]:.1f} for two"
    )
    return Tried(text, p < _LEVEL, because)


def power_iteration_suffices(nets: Sequence[NetTails]) -> Tried:
    worst = max(1 - net.last["power_iteration"] / net.last["spectral"] for net in nets)
    text = f"{ITERATIONS} power iterations give the spectral norm"
    return Tried(text, worst <= 1e-6, f"at most a relative {max(0.0, worst):.1g} below the SVD's")


def heavier_later(nets: Sequence[NetTails]) -> Tried:
    """The last layer's tail is heavier than the first's in more nets than chance explains."""
    text = "later layers have heavier tails (smaller α) than early ones"
    ends = [(net.layers[0]["power_law"], net.fit) for net in nets if len(net.layers) > 1]
    both = [last["alpha"] < first["alpha"] for first, last in ends if first and last]
    if not both:
        return Tried(text, None, "no net has a fit of both its first and its last layer")
    p = float(stats.binomtest(sum(both), len(both), alternative="greater").pvalue)
    seen = f"{sum(both)} of {len(both)} nets (sign test p = {p:.2g})"
    return Tried(text, p < _LEVEL, f"the last layer's α is below the first's in {seen}")


def _fleet(nets: Sequence[NetTails]) -> Table:
    columns: Columns = {
        "net": "plan.name",
        "varies": "plan.varies",
        "epochs": "plan.epochs",
        "label noise": "plan.noise",
        "error on the sample": lambda net: net.errors / net.m,
        "test error": "test_error",
        "weights": "layers.-1.weights",
        "α": "fit.alpha",
        "± s.e.": "fit.alpha_error",
        "tail": "fit.tail",
        "KS": "fit.ks_distance",
        "α of a stable law": "layers.-1.stable.alpha",
        "stable rank": "stable_rank",
        "‖W‖₂": "last.spectral",
    }
    return Table.of("The last dense layer of every net:", nets, columns)


def _lines(mixtures: Sequence[RegressionMixture]) -> Table:
    columns: Columns = {
        "lines": lambda row: len(row[0].lines),
        "BIC": "0.bic",
        "line": "1",
        "share of the nets": "2.share",
        "slope": "2.slope",
        "intercept": "2.intercept",
        "standard deviation": "2.deviation",
    }
    rows = [(found, *one) for found in mixtures for one in enumerate(found.lines, 1)]
    caption = "Stable rank over α as a mixture of linear regressions, by EM:"
    return Table.of(caption, rows, columns)


def _correlations(nets: Sequence[NetTails]) -> Table:
    """What α and the stable rank say of the gap: over all nets, by data set, without noise."""
    groups = {"all": list(nets), "labels as they are": [net for net in nets if net.plan.noise == 0]}
    for net in nets:
        groups.setdefault(net.plan.data, []).append(net)
    pairs = {
        "α, stable rank": "alpha stable_rank",
        "α, gap": "alpha gap",
        "α, test error": "alpha test_error",
        "rank, gap": "stable_rank gap",
        "rank, test error": "stable_rank test_error",
    }

    def cell(group: Sequence[NetTails], names: str) -> str | None:
        found = correlate(*(list(map(attrgetter(name), group)) for name in names.split()))
        return found and f"{found[0]:+.2f} (p {found[1]:.1g})"

    rows = [
        (name, len(group), *(cell(group, names) for names in pairs.values()))
        for name, group in groups.items()
    ]
    caption = "Rank correlations (Spearman), and how often chance alone is as far from 0:"
    return Table(("nets", "count", *pairs), rows, caption)


def _pictures(nets: Sequence[NetTails], mixtures: Sequence[RegressionMixture]) -> list[Scatter]:
    """The nets by data set and labels, with the errors of α; one line, and the mixture of two."""
    if not nets:
        return []
    kinds: dict[str, list[NetTails]] = {}
    for net in nets:
        kind = f"{net.plan.data}, random labels" if net.plan.noise > 0 else net.plan.data
        kinds.setdefault(kind, []).append(net)
    groups = [
        Points(
            kind,
            [(net.alpha, net.stable_rank) for net in some],
            [float(net.layers[-1]["power_law"]["alpha_error"]) for net in some],
        )
        for kind, some in kinds.items()
    ]
    drawn = []
    for found in mixtures[:2]:
        for line in found.lines:
            share = "one line" if len(found.lines) == 1 else f"of two: {100 * line.share:.0f} %"
            drawn.append(Line(share, line.slope, line.intercept))
    title = "Stable rank of the last dense layer, one line, and a mixture of two"
    axes = ("α of the power law", "stable rank ‖W‖_F²/‖W‖₂²")
    return [Scatter("figure3", title, *axes, groups, drawn)]

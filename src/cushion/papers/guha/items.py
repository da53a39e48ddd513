"""Guha 2023 §7: Tables 1 and 2, bounds on MNIST by width and on CIFAR-10, and Figures 1a to 2, the
same as bars, over the width, and over the epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cushion.papers.drawings import Drawing, Picture, Series
from cushion.papers.guha import claims, nets, paper, tables
from cushion.papers.guha.nets import CERTIFICATE, DELTA, NetFound, find_net
from cushion.papers.guha.paper import BARTLETT_2017, METHODS, OURS, TRUE_ERROR, Column
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_LOG = "ln of the bound"
_BARS = (*METHODS, "naive count, corrected", CERTIFICATE)


def _page(
    found: Sequence[NetFound],
    papers: Sequence[Column | None],
    caption: str,
    tried: Sequence[Tried],
    *,
    more: Sequence[Table] = (),
    first: Sequence[str] = (),
    notes: Sequence[str] = (),
    pictures: Sequence[Drawing] = (),
) -> Page:
    """What all items show of their nets; `more` tables and `notes` come after, `first` before."""
    shown = tables.beside_paper(found, papers, caption), tables.counts(found), tables.trained(found)
    refusals = []
    for net in found:
        which = " with the d of the fewest errors" if net.smallest_bound else ""
        if net.refused:
            refusals.append(f"{net.title}: not pruned{which}, because {net.refused}.")
    return Page(
        tables=[*shown, *more],
        settings=_settings([net.plan for net in found]),
        claims=tried,
        notes=[*first, *tables.ROW_NOTES, *notes, *refusals],
        pictures=pictures,
    )


def _settings(plans: Sequence[nets.NetPlan]) -> dict[str, Any]:
    """What was chosen here: the paper trains for 300 epochs at a constant rate."""
    halves = dict.fromkeys(str(plan.halve) if plan.halve else "never" for plan in plans)
    return {
        "nets": " ".join(plan.stem or plan.recipe for plan in plans),
        "epochs (the paper's are 300)": " ".join(str(plan.epochs) for plan in plans),
        "learning rate halved every": " ".join(halves),
        "margin level": " ".join(dict.fromkeys(f"{plan.level:g}" for plan in plans)),
        "delta": DELTA,
    }


def _by_width(workshop: Workshop) -> list[NetFound]:
    """The nets of Table 1."""
    return [find_net(workshop, one, str(one.width)) for one in nets.TABLE_1[workshop.size]]


def _on_cifar10(workshop: Workshop) -> list[NetFound]:
    """The two nets of Table 2."""
    first, second = nets.TABLE_2[workshop.size]
    titled = {"the paper's recipe": first, "a net that learns": second}
    return [find_net(workshop, plan, title) for title, plan in titled.items()]


def _learned(found: Sequence[NetFound]) -> list[str]:
    """Whether each net is better than guessing, from its training error."""
    notes = []
    for net in found:
        error, chance = net.errors / net.m, 1.0 - 1.0 / net.shapes[-1][1]
        guessing = f"did not learn: guessing errs on {chance:.0%}"
        words = "learned" if error < chance - 0.05 else guessing
        errs = f"it errs on {error:.1%} of the training set; it {words}."
        notes.append(f"{net.title}: after {net.plan.epochs} epochs {errs}")
    return notes


def table_1(workshop: Workshop) -> Page:
    """Every width beside the paper's, and the constant that explains the paper's Ours."""
    found = _by_width(workshop)
    widths, here = [net.plan.width for net in found], [net.bounded for net in found]
    columns = list(paper.TABLE_1.values())
    constants, explains = tables.implied(found)
    return _page(
        found,
        [paper.TABLE_1[width] for width in widths],
        "MNIST, five layers, by width",
        (
            claims.smaller_by(3, columns, here, "MNIST"),
            claims.closest_is_bartlett(columns, here),
            claims.grows_slower(here, widths),
            claims.costs_little(here),
            claims.applies(found),
        ),
        more=(tables.by_strength(found), constants, tables.other_forms(found)),
        notes=[explains],
    )


def table_2(workshop: Workshop) -> Page:
    """CIFAR-10: the net trained as the paper says, and one that learns, beside the paper's."""
    found = _on_cifar10(workshop)
    here, shapes = [net.bounded for net in found], paper.mlp_shapes(3072, 784)
    printed = paper.implied_constant(paper.TABLE_2[OURS], shapes, paper.CIFAR10_EXAMPLES)
    constants = Table(
        ("net", "implied λχ·ln(1/ρ), smallest bound", "fewest errors"),
        [("paper", printed, None), *((net.title, *tables.constants(net)) for net in found)],
        "What λχ·ln(1/ρ) would have to be:",
    )
    return _page(
        found,
        (paper.TABLE_2, None),
        f"CIFAR-10, five layers of {found[0].plan.width}",
        (  # on the net that learned; what the paper's recipe gives stands beside it
            claims.smaller_by(7, [paper.TABLE_2], here[1:], "CIFAR-10"),
            claims.closest_is_bartlett([paper.TABLE_2], here[1:]),
            claims.orders_between(),
            claims.reaches_error([*here, *(net.gentle for net in found)]),
            claims.costs_little(here[1:]),
            claims.applies(found[1:]),
        ),
        more=(tables.by_strength(found), constants, tables.other_forms(found)),
        notes=_learned(found),
    )


def figure_1a(workshop: Workshop) -> Page:
    """MNIST, width 784: one group of bars a method, the paper's beside ours."""
    plans = [plan for plan in nets.TABLE_1[workshop.size] if plan.width == 784]
    found = [find_net(workshop, plan, "784") for plan in plans]
    return _bars("figure-1a", "MNIST", 3, found, paper.TABLE_1[784])


def figure_1b(workshop: Workshop) -> Page:
    """CIFAR-10: the same; two of our nets, of which the claims are tried on the one that learns."""
    return _bars("figure-1b", "CIFAR-10", 7, _on_cifar10(workshop), paper.TABLE_2)


def _bars(name: str, data: str, orders: int, found: list[NetFound], printed: Column) -> Page:
    series = [Series("paper", [printed.get(row) for row in _BARS], from_paper=True)]
    for net in found:
        for way, column in (("smallest bound", net.bounded), ("fewest errors", net.gentle)):
            series.append(Series(f"{net.title}: {way}", [column[row] for row in _BARS]))
    title, here = f"Bounds on {data} (measures, but for the certificate)", [found[-1].bounded]
    return _page(
        found,
        [printed, *(None for _ in found[1:])],
        "The bars",
        (
            claims.smaller_by(orders, [printed], here, data),
            claims.closest_is_bartlett([printed], here),
            claims.costs_little(here),
            claims.applies(found[-1:]),
        ),
        notes=_learned(found),
        pictures=[Picture(name, title, _BARS, "", _LOG, series)],
    )


def figure_1c(workshop: Workshop) -> Page:
    """Ours and Bartlett 2017 over the width."""
    found = _by_width(workshop)
    here, fewest = [net.bounded for net in found], [net.gentle for net in found]
    widths = [net.plan.width for net in found]
    papers = [paper.TABLE_1[width] for width in widths]
    series = [
        Series(f"{name}, paper", [one[name] for one in papers], from_paper=True)
        for name in (BARTLETT_2017, OURS, TRUE_ERROR)
    ]
    series += [
        Series(BARTLETT_2017, [one[BARTLETT_2017] for one in here]),
        Series(f"{OURS}, smallest bound", [one[OURS] for one in here]),
        Series(f"{OURS}, fewest errors", [one[OURS] for one in fewest]),
        Series(f"{TRUE_ERROR}, fewest errors", [one[TRUE_ERROR] for one in fewest]),
    ]
    return _page(
        found,
        papers,
        "The curves",
        (
            claims.grows_slower(here, widths),
            claims.below_bartlett(here, papers),
            claims.costs_little(here),
            claims.applies(found),
        ),
        pictures=[Picture("figure-1c", "Bounds on MNIST by width", widths, "width", _LOG, series)],
    )


def figure_2(workshop: Workshop) -> Page:
    """Width 784 after more and more epochs at the constant rate; each net is its own run."""
    plans = nets.FIGURE_2[workshop.size]
    found = [find_net(workshop, plan, f"{plan.epochs} epochs") for plan in plans]
    epochs = [plan.epochs for plan in plans]
    here, fewest = [net.bounded for net in found], [net.gentle for net in found]
    true = [one[TRUE_ERROR] for one in fewest]
    gentlest, smallest = (scaled([one[OURS] for one in ones], true) for ones in (fewest, here))
    series = (
        Series("Ours, fewest errors; moved to the true error's mean", gentlest),
        Series("Ours, smallest bound; moved likewise", smallest),
        Series("True error, fewest errors", true),
        Series(CERTIFICATE, [one[CERTIFICATE] for one in here]),
    )
    title = "Bound and true error over the epochs (MNIST, width 784)"
    axes = ("epochs", "natural logarithm")
    return _page(
        found,
        [None for _ in found],
        "By epochs",
        claims.over_epochs(fewest, epochs),
        first=(
            "The paper prints this figure without numbers, so no column of its own stands beside "
            "ours. It scales its bound to the range of the true error; the picture moves the "
            "logarithms of ours.",
            "The claims are tried with the d of the fewest errors, so that bound and error are "
            "those of one net.",
        ),
        pictures=[Picture("figure-2", title, epochs, *axes, series, x_log=True)],
    )


def scaled(values: Sequence[float | None], to: Sequence[float | None]) -> list[float | None]:
    """The logarithms moved to the mean of `to`, over the places where both are known."""
    both = [b - a for a, b in zip(values, to, strict=True) if a is not None and b is not None]
    shift = sum(both) / len(both) if both else 0.0
    return [None if value is None else value + shift for value in values]

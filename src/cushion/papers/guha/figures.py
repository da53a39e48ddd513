"""Guha 2023, Figures 1a, 1b, 1c and 2: the bounds as bars, over the width, and over the epochs."""

from __future__ import annotations

from collections.abc import Sequence

from cushion.papers.drawings import Picture, Series
from cushion.papers.guha import claims, columns, plans
from cushion.papers.guha.columns import CERTIFICATE, Column, Titled, chosen, gentle
from cushion.papers.guha.nets import find_net
from cushion.papers.guha.paper import BARTLETT_2017, METHODS, OURS, TABLE_2, TRUE_ERROR
from cushion.papers.guha.table import (
    by_width,
    learned,
    on_cifar10,
    paper_column,
    refusals,
    settings_of,
)
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_LOG = "ln of the bound"
_BARS = (*METHODS, "naive count, corrected", CERTIFICATE)


def figure_1a(workshop: Workshop) -> Page:
    """MNIST, width 784: one group of bars a method, the paper's beside ours."""
    found = [
        ("784", find_net(workshop, plan))
        for plan in plans.TABLE_1[workshop.size]
        if plan.width == 784
    ]
    return _bars("figure-1a", "MNIST", 3, found, paper_column(784))


def figure_1b(workshop: Workshop) -> Page:
    """CIFAR-10: the same; two of our nets, of which the claims are tried on the one that learns."""
    return _bars("figure-1b", "CIFAR-10", 7, on_cifar10(workshop), TABLE_2)


def _tables(
    found: Titled, papers: Sequence[Column | None], caption: str
) -> tuple[Table, Table, Table]:
    return (
        columns.beside_paper(found, papers, f"{caption} (natural logarithms):"),
        columns.counts(found),
        columns.nets(found),
    )


def _bars(name: str, data: str, orders: int, found: Titled, paper: Column | None) -> Page:
    assert paper is not None
    last = [net for _, net in found[-1:]]
    here = chosen(last)
    series = [Series("paper", tuple(paper.get(row) for row in _BARS), from_paper=True)]
    for title, net in found:
        (bounded,), (fewest,) = chosen([net]), gentle([net])
        series.append(Series(f"{title}: smallest bound", tuple(bounded[row] for row in _BARS)))
        series.append(Series(f"{title}: fewest errors", tuple(fewest[row] for row in _BARS)))
    title = f"Bounds on {data} (measures, but for the certificate)"
    return Page(
        tables=_tables(found, [paper, *(None for _ in found[1:])], "The bars"),
        settings=settings_of([net.plan for _, net in found]),
        claims=(
            claims.smaller_by(orders, [paper], here, data),
            claims.closest_is_bartlett([paper], here),
            claims.costs_little(here),
            claims.applies(last),
        ),
        notes=(*columns.ROW_NOTES, *learned(found), *refusals(found)),
        pictures=(Picture(name, title, _BARS, "", _LOG, tuple(series)),),
    )


def figure_1c(workshop: Workshop) -> Page:
    """Ours and Bartlett 2017 over the width."""
    titled = by_width(workshop)
    found = [net for _, net in titled]
    here, fewest = chosen(found), gentle(found)
    widths = [net.plan.width for net in found]
    papers = [paper_column(width) for width in widths]
    series = [
        Series(
            f"{name}, paper",
            tuple(None if one is None else one[name] for one in papers),
            from_paper=True,
        )
        for name in (BARTLETT_2017, OURS, TRUE_ERROR)
    ]
    series += [
        Series(BARTLETT_2017, tuple(one[BARTLETT_2017] for one in here)),
        Series(f"{OURS}, smallest bound", tuple(one[OURS] for one in here)),
        Series(f"{OURS}, fewest errors", tuple(one[OURS] for one in fewest)),
        Series(f"{TRUE_ERROR}, fewest errors", tuple(one[TRUE_ERROR] for one in fewest)),
    ]
    title = "Bounds on MNIST by width"
    return Page(
        tables=_tables(titled, papers, "The curves"),
        settings=settings_of([net.plan for net in found]),
        claims=(
            claims.grows_slower(here, widths),
            claims.below_bartlett(here, [paper for paper in papers if paper is not None]),
            claims.costs_little(here),
            claims.applies(found),
        ),
        notes=(*columns.ROW_NOTES, *refusals(titled)),
        pictures=(Picture("figure-1c", title, tuple(widths), "width", _LOG, tuple(series)),),
    )


def figure_2(workshop: Workshop) -> Page:
    """Width 784 after more and more epochs at the constant rate; each net is its own run."""
    found = [find_net(workshop, plan) for plan in plans.FIGURE_2[workshop.size]]
    epochs = [net.plan.epochs for net in found]
    here, fewest = chosen(found), gentle(found)
    titled = [(f"{count} epochs", net) for count, net in zip(epochs, found, strict=True)]
    true = tuple(one[TRUE_ERROR] for one in fewest)
    gentlest, smallest = (scaled([one[OURS] for one in ones], true) for ones in (fewest, here))
    picture = Picture(
        "figure-2",
        "Bound and true error over the epochs (MNIST, width 784)",
        tuple(epochs),
        "epochs",
        "natural logarithm",
        (
            Series("Ours, fewest errors; moved to the true error's mean", gentlest),
            Series("Ours, smallest bound; moved likewise", smallest),
            Series("True error, fewest errors", true),
            Series(CERTIFICATE, tuple(one[CERTIFICATE] for one in here)),
        ),
        x_log=True,
    )
    return Page(
        tables=_tables(titled, [None for _ in titled], "By epochs"),
        settings=settings_of([net.plan for net in found]),
        claims=over_epochs(fewest, epochs),
        notes=(
            "The paper prints this figure without numbers, so no column of its own stands beside "
            "ours. It scales its bound to the range of the true error; the picture moves the "
            "logarithms of ours.",
            "The claims are tried with the d of the fewest errors, so that bound and error are "
            "those of one net.",
            *columns.ROW_NOTES,
            *refusals(titled),
        ),
        pictures=(picture,),
    )


def over_epochs(here: Sequence[Column], epochs: Sequence[int]) -> tuple[Tried, Tried]:
    """The bound falls from the first net to the last; the true error is smallest earlier."""
    falls, later = (
        "our bound decreases over the epochs",
        "the true error reaches its minimum before our bound does",
    )
    ours = [value for one in here if (value := one[OURS]) is not None]
    true = [value for one in here if (value := one[TRUE_ERROR]) is not None]
    if len(ours) < len(here) or len(true) < len(here) or len(here) < 2:
        missing = "a net has no number for Ours or for the true error"
        return Tried(falls, None, missing), Tried(later, None, missing)
    change = ours[-1] - ours[0]
    least_ours, least_true = (epochs[values.index(min(values))] for values in (ours, true))
    return (
        Tried(
            falls,
            change < 0,
            f"from {epochs[0]} to {epochs[-1]} epochs it changes by a factor e^{change:.3f}",
        ),
        Tried(
            later,
            least_true < least_ours,
            f"true error after {least_true} epochs, bound after {least_ours}",
        ),
    )


def scaled(values: Sequence[float | None], to: Sequence[float | None]) -> tuple[float | None, ...]:
    """The logarithms moved to the mean of `to`, over the places where both are known."""
    both = [(a, b) for a, b in zip(values, to, strict=True) if a is not None and b is not None]
    shift = sum(b - a for a, b in both) / len(both) if both else 0.0
    return tuple(None if value is None else value + shift for value in values)

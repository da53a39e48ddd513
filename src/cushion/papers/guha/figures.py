"""Guha 2023, Figures 1a, 1b, 1c and 2: the bounds as bars, over the width, and over the epochs."""

from __future__ import annotations

from collections.abc import Sequence

from cushion.papers.drawings import Picture, Series
from cushion.papers.guha import plans as guha_plans
from cushion.papers.guha.claims import (
    applies,
    below_bartlett,
    closest_is_bartlett,
    costs_little,
    grows_slower,
    smaller_by,
)
from cushion.papers.guha.columns import (
    CERTIFICATE,
    ROW_NOTES,
    Column,
    Titled,
    beside_paper,
    chosen,
    counts,
    gentle,
    nets,
)
from cushion.papers.guha.nets import find_net
from cushion.papers.guha.paper import BARTLETT_2017, METHODS, OURS, TABLE_2, TRUE_ERROR
from cushion.papers.guha.table import (
    CIFAR10_TITLES,
    learned,
    paper_column,
    refusals,
    settings_of,
)
from cushion.papers.pages import Page, Tried
from cushion.papers.runner import Workshop

_LOG = "ln of the bound"
_BARS = (*METHODS, "naive count, corrected", CERTIFICATE)


def figure_1a(workshop: Workshop) -> Page:
    """MNIST, width 784: one group of bars a method, the paper's beside ours."""
    plans = [plan for plan in guha_plans.TABLE_1[workshop.size] if plan.width == 784]
    return _bars(
        "figure-1a",
        "MNIST",
        3,
        [("784", find_net(workshop, plan)) for plan in plans],
        paper_column(784),
    )


def figure_1b(workshop: Workshop) -> Page:
    """CIFAR-10: the same; two of our nets, of which the claims are tried on the one that learns."""
    found = [find_net(workshop, plan) for plan in guha_plans.TABLE_2[workshop.size]]
    return _bars("figure-1b", "CIFAR-10", 7, list(zip(CIFAR10_TITLES, found, strict=True)), TABLE_2)


def _bars(name: str, data: str, orders: int, found: Titled, paper: Column | None) -> Page:
    assert paper is not None
    last = [net for _, net in found[-1:]]
    here = chosen(last)
    claims = (
        smaller_by(orders, [paper], here, data),
        closest_is_bartlett([paper], here),
        costs_little(here),
        applies(last),
    )
    series = [Series("paper", tuple(paper.get(row) for row in _BARS), from_paper=True)]
    for title, net in found:
        (bounded,), (fewest,) = chosen([net]), gentle([net])
        series.append(Series(f"{title}: smallest bound", tuple(bounded[row] for row in _BARS)))
        series.append(Series(f"{title}: fewest errors", tuple(fewest[row] for row in _BARS)))
    title = f"Bounds on {data} (measures, but for the certificate)"
    papers = [paper, *(None for _ in found[1:])]
    return Page(
        tables=(
            beside_paper(found, papers, "The bars (natural logarithms):"),
            counts(found),
            nets(found),
        ),
        settings=settings_of([net.plan for _, net in found]),
        claims=claims,
        notes=(*ROW_NOTES, *learned(found), *refusals(found)),
        pictures=(Picture(name, title, _BARS, "", _LOG, tuple(series)),),
    )


def figure_1c(workshop: Workshop) -> Page:
    """Ours and Bartlett 2017 over the width."""
    found = [find_net(workshop, plan) for plan in guha_plans.TABLE_1[workshop.size]]
    here, fewest = chosen(found), gentle(found)
    widths = [net.plan.width for net in found]
    papers = [paper_column(width) for width in widths]
    known = [paper for paper in papers if paper is not None]
    claims = (
        grows_slower(here, widths),
        below_bartlett(here, known),
        costs_little(here),
        applies(found),
    )
    titled = [(str(width), net) for width, net in zip(widths, found, strict=True)]
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
    return Page(
        tables=(
            beside_paper(titled, papers, "The curves (natural logarithms):"),
            counts(titled),
            nets(titled),
        ),
        settings=settings_of([net.plan for net in found]),
        claims=claims,
        notes=(*ROW_NOTES, *refusals(titled)),
        pictures=(
            Picture(
                "figure-1c", "Bounds on MNIST by width", tuple(widths), "width", _LOG, tuple(series)
            ),
        ),
    )


def figure_2(workshop: Workshop) -> Page:
    """Width 784 after growing numbers of epochs at the constant rate; each net is a run of its
    own.
    """
    plans = guha_plans.FIGURE_2[workshop.size]
    found = [find_net(workshop, plan) for plan in plans]
    epochs = [plan.epochs for plan in plans]
    here, fewest = chosen(found), gentle(found)
    claims = over_epochs(fewest, epochs)
    titled = [(f"{count} epochs", net) for count, net in zip(epochs, found, strict=True)]
    true = tuple(one[TRUE_ERROR] for one in fewest)
    picture = Picture(
        "figure-2",
        "Bound and true error over the epochs (MNIST, width 784)",
        tuple(epochs),
        "epochs",
        "natural logarithm",
        (
            Series(
                "Ours, fewest errors; moved to the true error's mean",
                scaled([one[OURS] for one in fewest], true),
            ),
            Series(
                "Ours, smallest bound; moved likewise", scaled([one[OURS] for one in here], true)
            ),
            Series("True error, fewest errors", true),
            Series(CERTIFICATE, tuple(one[CERTIFICATE] for one in here)),
        ),
        x_log=True,
    )
    return Page(
        tables=(
            beside_paper(titled, [None for _ in titled], "By epochs (natural logarithms):"),
            counts(titled),
            nets(titled),
        ),
        settings=settings_of(plans),
        claims=claims,
        notes=(
            "The paper prints this figure without numbers, so no column of its own stands beside "
            "ours. It scales its bound to the range of the true error; the picture moves the "
            "logarithms of ours.",
            "The claims are tried with the d of the fewest errors, so that bound and error are "
            "those of one net.",
            *ROW_NOTES,
            *refusals(titled),
        ),
        pictures=(picture,),
    )


def over_epochs(here: Sequence[Column], epochs: Sequence[int]) -> tuple[Tried, Tried]:
    """The bound falls from the first net to the last; the true error is smallest earlier than the
    bound is.
    """
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
    """The bound's logarithms moved so that their mean is that of `to`, over the places where both
    are known.
    """
    both = [(a, b) for a, b in zip(values, to, strict=True) if a is not None and b is not None]
    shift = sum(b - a for a, b in both) / len(both) if both else 0.0
    return tuple(None if value is None else value + shift for value in values)

"""Neyshabur 2017, Figure 3: global minima that generalise differently, found with a confusion set
of random labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cushion.papers.drawings import Panels, Picture, Series
from cushion.papers.neyshabur.bicriteria import curve, panel
from cushion.papers.neyshabur.claims import all_zero, predicts
from cushion.papers.neyshabur.nets import (
    ERRORS,
    GAMMA,
    KL,
    NORM_COLUMNS,
    NORMS,
    SHARPNESS,
    NetFound,
    SizedNet,
    columns,
    find_net,
)
from cushion.papers.neyshabur.plans import CONFUSED, EPSILON, LEVEL, VGG_ALPHAS
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop


def figure_3(workshop: Workshop) -> Page:
    """Errors, measures and bi-criteria curves by the size of the confusion set."""
    nets = [
        SizedNet(one.size, find_net(workshop, one.plan, VGG_ALPHAS))
        for one in CONFUSED[workshop.size]
    ]
    claims = minima_claims(nets)
    label = "random labels in the confusion set"
    return Page(
        tables=(_table(nets, label), _union_table(nets, label)),
        settings={
            "true labels": nets[0].net.norms["m"],
            "margin level": EPSILON,
            **nets[0].net.measured,
        },
        claims=claims,
        notes=(
            "Measures, not bounds. S is the part with true labels, which the paper calls the "
            "training set: training error, γ and sharpness are those on it. The second table has "
            "the margin over the union that the net was trained on.",
            "Changed from the paper, with the largest confusion set: "
            f"{nets[-1].net.plan.changes()}.",
            "The paper prints no number of this figure. Every point is one net, not an average "
            "over seeds.",
        ),
        pictures=(
            Panels(
                "minima",
                "Global minima with poor generalisation",
                3,
                (
                    errors_picture(nets, label),
                    measures_picture(nets, label),
                    panel(
                        "expected sharpness and KL",
                        [curve(f"{one.size} random labels", one.net.points) for one in nets],
                    ),
                ),
            ),
        ),
    )


def minima_claims(nets: Sequence[SizedNet]) -> tuple[Tried, ...]:
    """What grows with the confusion set and with the test error, by rank correlation."""
    errors = [one.net.test_error for one in nets]
    return (
        all_zero(
            {str(one.size): one.net.errors for one in nets},
            "every net fits the training set with true labels",
        ),
        predicts(
            "the test error increases with the confusion set",
            [float(one.size) for one in nets],
            errors,
            what="of size and test error",
        ),
        *(
            predicts(
                f"{name} over the margin predicts the test error",
                [one.net.log10(key) for one in nets],
                errors,
            )
            for key, name in NORMS.items()
        ),
        predicts(
            "sharpness alone does not predict it",
            [one.net.sharpness for one in nets],
            errors,
            wanted=False,
        ),
        predicts(
            f"at an expected sharpness of {LEVEL:g}, nets of higher test error have a higher KL",
            [one.net.kl for one in nets],
            errors,
        ),
    )


def errors_picture(nets: Sequence[SizedNet], label: str, *, x_log: bool = False) -> Picture:
    """Training (on S) and test error by size."""
    series = (
        Series("training", tuple(one.net.train_error for one in nets)),
        Series("test", tuple(one.net.test_error for one in nets)),
    )
    return Picture(
        "",
        "errors",
        tuple(one.size for one in nets),
        label,
        "error (fraction of examples)",
        series,
        x_log=x_log,
    )


def measures_picture(nets: Sequence[SizedNet], label: str, *, logs: bool = False) -> Picture:
    """The norms over γ² and the largest sharpness, each over its largest; `logs`: both axes."""
    series = [
        Series(name, shares([one.net.log10(key) for one in nets])) for key, name in NORMS.items()
    ]
    top = max(one.net.sharpness for one in nets)
    series.append(
        Series("sharpness", tuple(one.net.sharpness / top if top > 0 else None for one in nets))
    )
    x = tuple(one.size for one in nets)
    return Picture(
        "", "measures", x, label, "share of the largest", tuple(series), x_log=logs, y_log=logs
    )


def shares(logs: Sequence[float | None]) -> tuple[float | None, ...]:
    """10^log over the largest of them."""
    top = max((value for value in logs if value is not None), default=0.0)
    return tuple(None if value is None else float(10.0 ** (value - top)) for value in logs)


def _table(nets: Sequence[SizedNet], label: str) -> Table:
    caption = "On the rows with true labels; norms are log10 of norm / γ²:"
    sharp = SHARPNESS | KL
    return Table.of(caption, nets, {label: _size, **ERRORS, **GAMMA, **NORM_COLUMNS, **sharp})


def _union_table(nets: Sequence[SizedNet], label: str) -> Table:
    of_the_union: dict[str, Callable[[NetFound], Any]] = {
        "error": lambda net: net.union_error,
        "γ": lambda net: net.norms["union_margin"],
    }
    for key, name in NORMS.items():
        of_the_union[name] = partial(lambda key, net: net.union_log10(key), key)
    caption = "With the margin over true and random labels together:"
    return Table.of(caption, nets, {label: _size, **columns(**of_the_union)})


def _size(one: SizedNet) -> int:
    return one.size

"""Neyshabur 2017, Figure 4: two-layer perceptrons of growing width on MNIST."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import methodcaller

from cushion.papers.drawings import Panels
from cushion.papers.neyshabur.bicriteria import curve, panel
from cushion.papers.neyshabur.claims import RANKED, Numbers, moves, rank_correlation
from cushion.papers.neyshabur.minima import errors_picture, measures_picture
from cushion.papers.neyshabur.nets import (
    ERRORS,
    GAMMA,
    KL,
    LOSS,
    NORM_COLUMNS,
    NORMS,
    SHARPNESS,
    NetFound,
    SizedNet,
    columns,
    find_net,
)
from cushion.papers.neyshabur.plans import EPSILON, LEVEL, MLP_ALPHAS, WIDTHS
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

FITS, TURNS, SPECTRAL_TURNS = 32, 128, 512  # hidden units at which the text sees a change
FITTED = 0.01  # a training error at most this counts as fitting


def figure_4(workshop: Workshop) -> Page:
    """Errors, measures and bi-criteria curves by the number of hidden units."""
    nets = [
        SizedNet(one.size, find_net(workshop, one.plan, MLP_ALPHAS))
        for one in WIDTHS[workshop.size]
    ]
    claims = width_claims(nets)
    return Page(
        tables=(_table(nets),),
        settings={
            "margin level": EPSILON,
            **nets[0].net.measured,
        },
        claims=claims,
        notes=(
            "Measures, not bounds. Norms are log10 of norm / γ²; the two columns with a product of "
            "h have the factors that depend on the widths, as §2.2 prints them.",
            f"Changed from the paper, at the largest width: {nets[-1].net.plan.changes()}.",
            "The paper trains until the cross-entropy is below 1e-4 wherever zero training error "
            "is possible; a net that stopped earlier has a smaller margin.",
            "The paper prints no number of this figure. Every point is one net, not an average "
            "over seeds.",
        ),
        pictures=(
            Panels(
                "widths",
                "Two-layer perceptrons on MNIST",
                3,
                (
                    errors_picture(nets, "hidden units", x_log=True),
                    measures_picture(nets, "hidden units", logs=True),
                    panel(
                        "expected sharpness and KL",
                        [curve(f"{one.size} units", one.net.points) for one in nets],
                    ),
                ),
            ),
        ),
    )


def width_claims(nets: Sequence[SizedNet]) -> tuple[Tried, ...]:
    """The text's sentences about 32, 128 and 512 hidden units."""

    def norms(
        names: Sequence[str], low: int, high: float, form: str = "as plotted"
    ) -> dict[str, Numbers]:
        return {
            NORMS[name]: _between(nets, low, high, methodcaller("log10", name, form))
            for name in names
        }

    beyond = f"log10 from {TURNS} units to the widest net"
    return (
        fits(nets),
        wider_is_better(nets),
        moves(
            f"all four measures decrease up to {TURNS} hidden units",
            norms(tuple(NORMS), FITS, TURNS),
            up=False,
            every=True,
            where=f"log10 from {FITS} units to {TURNS}",
        ),
        moves(
            f"beyond {TURNS}, ℓ2 norm and ℓ1-path norm increase",
            norms(("l2-norm", "l1-path"), TURNS, math.inf),
            up=True,
            where=beyond,
        ),
        moves(
            f"beyond {TURNS}, the ℓ2-path norm as plotted still decreases",
            norms(("l2-path",), TURNS, math.inf),
            up=False,
            where=beyond,
        ),
        moves(
            f"beyond {TURNS}, with the factors of width ℓ2-path norm and spectral norm increase",
            norms(("l2-path", "spectral"), TURNS, math.inf, "as printed"),
            up=True,
            where=beyond,
        ),
        moves(
            f"beyond {SPECTRAL_TURNS}, the spectral norm increases",
            norms(("spectral",), SPECTRAL_TURNS, math.inf),
            up=True,
            where=f"log10 from {SPECTRAL_TURNS} units to the widest net",
        ),
        moves(
            f"the joint measure (ln KL at an expected sharpness of {LEVEL:g}) decreases up to "
            f"{TURNS}",
            {"ln KL": _between(nets, FITS, TURNS, _log_kl)},
            up=False,
            where=f"from {FITS} units to {TURNS}",
        ),
        moves(
            f"beyond {TURNS} it increases",
            {"ln KL": _between(nets, TURNS, math.inf, _log_kl)},
            up=True,
            where=f"from {TURNS} units to the widest net",
        ),
    )


def _log_kl(net: NetFound) -> float | None:
    return None if net.kl is None else math.log(net.kl)


def _between(
    nets: Sequence[SizedNet], low: int, high: float, read: Callable[[NetFound], float | None]
) -> list[float | None]:
    """The numbers of the nets from `low` to `high` units; none without a net of `low` units."""
    inside = [one for one in nets if low <= one.size <= high]
    return [read(one.net) for one in inside] if inside and inside[0].size == low else []


def fits(nets: Sequence[SizedNet]) -> Tried:
    """The training error of the net with 32 units is at most 1 %."""
    text = f"{FITS} hidden units are enough to fit the training data"
    for one in nets:
        if one.size == FITS:
            because = (
                f"its training error is {one.net.train_error:.3%}; at most {FITTED:.0%} counts as "
                "fitting"
            )
            return Tried(text, one.net.train_error <= FITTED, because)
    return Tried(text, None, "no net of that width was trained")


def wider_is_better(nets: Sequence[SizedNet]) -> Tried:
    """From 32 units on: rank correlation below -0.5, and the widest errs less than 32 units."""
    text = f"beyond {FITS} hidden units the test error decreases with the width"
    wide = [one for one in nets if one.size >= FITS]
    errors = [one.net.test_error for one in wide]
    found = rank_correlation([one.size for one in wide], errors)
    if found is None:
        return Tried(text, None, "fewer than three such nets, or all alike")
    because = (
        f"rank correlation {found:+.2f} (below -{RANKED} is needed), test error {errors[0]:.3%} to "
        f"{errors[-1]:.3%}"
    )
    return Tried(text, found < -RANKED and errors[-1] < errors[0], because)


def _table(nets: Sequence[SizedNet]) -> Table:
    printed = columns(
        **{
            "ℓ2-path norm, ∏ 4h": lambda net: net.log10("l2-path", "as printed"),
            "spectral norm, ∏ h": lambda net: net.log10("spectral", "as printed"),
        }
    )
    return Table.of(
        "Norms are log10 of norm / γ²:",
        nets,
        {
            "hidden units": lambda one: one.size,
            **columns(parameters=lambda net: net.norms["parameters"]),
            **ERRORS,
            **LOSS,
            **GAMMA,
            **NORM_COLUMNS,
            **printed,
            **SHARPNESS,
            **KL,
        },
    )

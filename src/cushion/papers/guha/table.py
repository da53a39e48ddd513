"""Guha 2023, Tables 1 and 2: bounds on MNIST by width, and on CIFAR-10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cushion.papers.guha import plans as guha_plans
from cushion.papers.guha.claims import (
    PAPER_WIDTHS,
    applies,
    closest_is_bartlett,
    costs_little,
    grows_slower,
    orders_between,
    reaches_error,
    smaller_by,
)
from cushion.papers.guha.columns import (
    ROW_NOTES,
    Column,
    Titled,
    beside_paper,
    by_strength,
    chosen,
    counts,
    gentle,
    nets,
    other_forms,
)
from cushion.papers.guha.nets import DELTA, NetFound, NetPlan, find_net
from cushion.papers.guha.paper import (
    CIFAR10_EXAMPLES,
    EXPLAINS,
    METHODS,
    MNIST_EXAMPLES,
    OURS,
    TABLE_1,
    TABLE_2,
    WIDTHS,
    explained,
    implied_constant,
    mlp_shapes,
)
from cushion.papers.pages import Page, Table
from cushion.papers.runner import Workshop

CIFAR10_TITLES = ("the paper's recipe", "a net that learns")


def paper_column(width: int) -> Column | None:
    """The paper's column of Table 1 for that width; None where it has none."""
    return {method: TABLE_1[method][width] for method in METHODS} if width in WIDTHS else None


def settings_of(plans: Sequence[NetPlan]) -> dict[str, Any]:
    """What was chosen here, said on the page: the paper trains for 300 epochs at a constant
    rate.
    """
    halves = dict.fromkeys(str(plan.halve) if plan.halve else "never" for plan in plans)
    return {
        "nets": " ".join(plan.stem or plan.recipe for plan in plans),
        "epochs (the paper's are 300)": " ".join(str(plan.epochs) for plan in plans),
        "learning rate halved every": " ".join(halves),
        "margin level": " ".join(dict.fromkeys(f"{plan.level:g}" for plan in plans)),
        "delta": DELTA,
    }


def table_1(workshop: Workshop) -> Page:
    """Every width: rivals, Ours and the true error beside the paper's, and the constant that
    explains the paper's.
    """
    plans = guha_plans.TABLE_1[workshop.size]
    found = [find_net(workshop, plan) for plan in plans]
    widths = [plan.width for plan in plans]
    titled = [(str(width), net) for width, net in zip(widths, found, strict=True)]
    here = chosen(found)
    claims = (
        smaller_by(3, PAPER_WIDTHS, here, "MNIST"),
        closest_is_bartlett(PAPER_WIDTHS, here),
        grows_slower(here, widths),
        costs_little(here),
        applies(found),
    )
    return Page(
        tables=(
            beside_paper(
                titled,
                list(map(paper_column, widths)),
                "MNIST, five layers, by width (natural logarithms):",
            ),
            counts(titled),
            nets(titled),
            by_strength(titled),
            _implied(found, here, gentle(found)),
            other_forms(titled),
        ),
        settings=settings_of(plans),
        claims=claims,
        notes=(*ROW_NOTES, explains(), *refusals(titled)),
    )


def explains() -> str:
    """How well the sizes of the nets alone explain the paper's column, as a sentence."""
    off = [
        math.expm1(explained(mlp_shapes(784, w), MNIST_EXAMPLES) - TABLE_1[OURS][w]) for w in WIDTHS
    ]
    return (
        f"The paper's Ours column is √({EXPLAINS:g}·Σ 3 d₁d₂ ln²(p) / n) to within "
        f"{max(map(abs, off)):.1%} at all six widths, though the nets differ: λχ·ln(1/ρ) hardly "
        "varies, so that the column shows the sizes of the nets and little else."
    )


def _implied(
    found: Sequence[NetFound], bounded: Sequence[Column], gentle_ones: Sequence[Column]
) -> Table:
    """λχ·ln(1/ρ) from the paper's numbers and from ours, at all widths of the paper."""
    ours = {
        net.plan.width: (_constant(net, one), _constant(net, two))
        for net, one, two in zip(found, bounded, gentle_ones, strict=True)
    }
    rows = []
    for width in WIDTHS:
        shapes = mlp_shapes(784, width)
        printed = TABLE_1[OURS][width]
        fit = explained(shapes, MNIST_EXAMPLES)
        constant = implied_constant(printed, shapes, MNIST_EXAMPLES)
        off = round(100 * math.expm1(fit - printed), 1)
        rows.append((width, printed, constant, round(fit, 2), off, *ours.get(width, (None, None))))
    header = ("width", "paper's Ours", "implied λχ·ln(1/ρ)", f"ln √({EXPLAINS:g}·Σ/n)", "off by %")
    last = ("implied here, smallest bound", "implied here, fewest errors")
    caption = "What explains the paper's Ours: λχ·ln(1/ρ), given Σ = Σ 3 d₁d₂ ln²(p):"
    return Table((*header, *last), tuple(rows), caption)


def _constant(net: NetFound, here: Column) -> float | None:
    value = here[OURS]
    return None if value is None else implied_constant(value, net.shapes, net.m)


def table_2(workshop: Workshop) -> Page:
    """CIFAR-10: the net trained as the paper says, and one that learns, beside the paper's."""
    plans = guha_plans.TABLE_2[workshop.size]
    found = [find_net(workshop, plan) for plan in plans]
    titled = list(zip(CIFAR10_TITLES, found, strict=True))
    here, gentle_ones = chosen(found), gentle(found)
    claims = (  # on the net that learned; what the paper's recipe gives stands beside it
        smaller_by(7, [TABLE_2], here[1:], "CIFAR-10"),
        closest_is_bartlett([TABLE_2], here[1:]),
        orders_between(),
        reaches_error([*here, *gentle_ones]),
        costs_little(here[1:]),
        applies(found[1:]),
    )
    constants = [
        (name, *(_constant(net, one) for one in ways))
        for name, net, *ways in zip(CIFAR10_TITLES, found, here, gentle_ones, strict=True)
    ]
    printed = implied_constant(TABLE_2[OURS], mlp_shapes(3072, 784), CIFAR10_EXAMPLES)
    return Page(
        tables=(
            beside_paper(
                titled,
                (TABLE_2, None),
                f"CIFAR-10, five layers of {plans[0].width} (natural logarithms):",
            ),
            counts(titled),
            nets(titled),
            by_strength(titled),
            Table(
                ("net", "implied λχ·ln(1/ρ), smallest bound", "fewest errors"),
                (("paper", printed, None), *constants),
                "What λχ·ln(1/ρ) would have to be:",
            ),
            other_forms(titled),
        ),
        settings=settings_of(plans),
        claims=claims,
        notes=(*ROW_NOTES, *learned(titled), *refusals(titled)),
    )


def learned(found: Titled) -> tuple[str, ...]:
    """Whether each net is better than guessing, from its training error."""
    notes = []
    for title, net in found:
        error = net.errors / net.m
        chance = 1.0 - 1.0 / net.shapes[-1][1]
        words = (
            "learned" if error < chance - 0.05 else f"did not learn: guessing errs on {chance:.0%}"
        )
        notes.append(
            f"{title}: after {net.plan.epochs} epochs it errs on {error:.1%} of the training set; "
            f"it {words}."
        )
    return tuple(notes)


def refusals(found: Titled) -> tuple[str, ...]:
    """Why a net has no pruned column, or not both, where that is so."""
    return tuple(
        f"{title}: not "
        f"pruned{'' if net.smallest_bound is None else ' with the d of the fewest errors'}, "
        f"because {net.refused}."
        for title, net in found
        if net.refused
    )

"""Guha 2023, Tables 1 and 2: bounds on MNIST by width, and on CIFAR-10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cushion.papers.guha import claims, columns, paper, plans
from cushion.papers.guha.columns import Column, Titled
from cushion.papers.guha.nets import DELTA, NetFound, NetPlan, find_net
from cushion.papers.guha.paper import OURS, explained, implied_constant, mlp_shapes
from cushion.papers.pages import Page, Table
from cushion.papers.runner import Workshop

CIFAR10_TITLES = ("the paper's recipe", "a net that learns")


def paper_column(width: int) -> Column | None:
    """The paper's column of Table 1 for that width; None where it has none."""
    known = width in paper.WIDTHS
    return {method: paper.TABLE_1[method][width] for method in paper.METHODS} if known else None


def settings_of(planned: Sequence[NetPlan]) -> dict[str, Any]:
    """What was chosen here: the paper trains for 300 epochs at a constant rate."""
    halves = dict.fromkeys(str(plan.halve) if plan.halve else "never" for plan in planned)
    return {
        "nets": " ".join(plan.stem or plan.recipe for plan in planned),
        "epochs (the paper's are 300)": " ".join(str(plan.epochs) for plan in planned),
        "learning rate halved every": " ".join(halves),
        "margin level": " ".join(dict.fromkeys(f"{plan.level:g}" for plan in planned)),
        "delta": DELTA,
    }


def by_width(workshop: Workshop) -> list[tuple[str, NetFound]]:
    """The nets of Table 1, by their width."""
    return [(str(one.width), find_net(workshop, one)) for one in plans.TABLE_1[workshop.size]]


def on_cifar10(workshop: Workshop) -> list[tuple[str, NetFound]]:
    """The two nets of Table 2."""
    found = [find_net(workshop, plan) for plan in plans.TABLE_2[workshop.size]]
    return list(zip(CIFAR10_TITLES, found, strict=True))


def table_1(workshop: Workshop) -> Page:
    """Every width beside the paper's, and the constant that explains the paper's Ours."""
    titled = by_width(workshop)
    found = [net for _, net in titled]
    widths = [net.plan.width for net in found]
    here = columns.chosen(found)
    caption = "MNIST, five layers, by width (natural logarithms):"
    return Page(
        tables=(
            columns.beside_paper(titled, list(map(paper_column, widths)), caption),
            columns.counts(titled),
            columns.nets(titled),
            columns.by_strength(titled),
            _implied(found),
            columns.other_forms(titled),
        ),
        settings=settings_of([net.plan for net in found]),
        claims=(
            claims.smaller_by(3, claims.PAPER_WIDTHS, here, "MNIST"),
            claims.closest_is_bartlett(claims.PAPER_WIDTHS, here),
            claims.grows_slower(here, widths),
            claims.costs_little(here),
            claims.applies(found),
        ),
        notes=(*columns.ROW_NOTES, explains(), *refusals(titled)),
    )


def explains() -> str:
    """How well the sizes of the nets alone explain the paper's column, as a sentence."""
    off = [
        math.expm1(explained(mlp_shapes(784, w), paper.MNIST_EXAMPLES) - paper.TABLE_1[OURS][w])
        for w in paper.WIDTHS
    ]
    return (
        f"The paper's Ours column is √({paper.EXPLAINS:g}·Σ 3 d₁d₂ ln²(p) / n) to within "
        f"{max(map(abs, off)):.1%} at all six widths, though the nets differ: λχ·ln(1/ρ) hardly "
        "varies, so that the column shows the sizes of the nets and little else."
    )


def _implied(found: Sequence[NetFound]) -> Table:
    """λχ·ln(1/ρ) from the paper's numbers and from ours, at all widths of the paper."""
    ours = {net.plan.width: _constants(net) for net in found}

    def fit(width: int) -> float:
        return explained(mlp_shapes(784, width), paper.MNIST_EXAMPLES)

    def implied(width: int) -> float:
        shapes = mlp_shapes(784, width)
        return implied_constant(paper.TABLE_1[OURS][width], shapes, paper.MNIST_EXAMPLES)

    def off(width: int) -> float:
        return round(100 * math.expm1(fit(width) - paper.TABLE_1[OURS][width]), 1)

    return Table.of(
        "What explains the paper's Ours: λχ·ln(1/ρ), given Σ = Σ 3 d₁d₂ ln²(p):",
        paper.WIDTHS,
        {
            "width": int,
            "paper's Ours": paper.TABLE_1[OURS].__getitem__,
            "implied λχ·ln(1/ρ)": implied,
            f"ln √({paper.EXPLAINS:g}·Σ/n)": lambda width: round(fit(width), 2),
            "off by %": off,
            "implied here, smallest bound": lambda width: ours.get(width, (None, None))[0],
            "implied here, fewest errors": lambda width: ours.get(width, (None, None))[1],
        },
    )


def _constants(net: NetFound) -> tuple[float | None, float | None]:
    """λχ·ln(1/ρ) that Ours implies, with the d of the smallest bound and of the fewest errors."""
    (one,), (two,) = columns.chosen([net]), columns.gentle([net])
    first, second = (
        None if value is None else implied_constant(value, net.shapes, net.m)
        for value in (one[OURS], two[OURS])
    )
    return first, second


def table_2(workshop: Workshop) -> Page:
    """CIFAR-10: the net trained as the paper says, and one that learns, beside the paper's."""
    titled = on_cifar10(workshop)
    found = [net for _, net in titled]
    here = columns.chosen(found)
    printed = implied_constant(paper.TABLE_2[OURS], mlp_shapes(3072, 784), paper.CIFAR10_EXAMPLES)
    caption = f"CIFAR-10, five layers of {found[0].plan.width} (natural logarithms):"
    return Page(
        tables=(
            columns.beside_paper(titled, (paper.TABLE_2, None), caption),
            columns.counts(titled),
            columns.nets(titled),
            columns.by_strength(titled),
            Table(
                ("net", "implied λχ·ln(1/ρ), smallest bound", "fewest errors"),
                (("paper", printed, None), *((title, *_constants(net)) for title, net in titled)),
                "What λχ·ln(1/ρ) would have to be:",
            ),
            columns.other_forms(titled),
        ),
        settings=settings_of([net.plan for net in found]),
        claims=(  # on the net that learned; what the paper's recipe gives stands beside it
            claims.smaller_by(7, [paper.TABLE_2], here[1:], "CIFAR-10"),
            claims.closest_is_bartlett([paper.TABLE_2], here[1:]),
            claims.orders_between(),
            claims.reaches_error([*here, *columns.gentle(found)]),
            claims.costs_little(here[1:]),
            claims.applies(found[1:]),
        ),
        notes=(*columns.ROW_NOTES, *learned(titled), *refusals(titled)),
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

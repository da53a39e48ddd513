"""Guha 2023, Theorem 6.1 tried: how far the best ticket of a construction is from its target, over
the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import linear_regression
from typing import Any

from cushion.papers.drawings import Picture, Series
from cushion.papers.guha.lottery import ticket_error
from cushion.papers.guha.lottery_theorem import (
    TicketFacts,
    mask_bits,
    sufficient_width,
    theorem_6_2,
)
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop

FAILURE = 0.05
_EXAMPLES, _STEP = 60_000, 2.0**-8  # m and ρ with which the gap of Theorem 6.2 is written out


@dataclass(frozen=True)
class TicketPlan:
    """A target of these dimensions, searched for in random nets of these widths and that many
    seeds.

    Widths leave each input tens of neurons: with a few, one of the two signs may be missing, and
    there is no ticket. epsilons: errors for which the width that suffices is computed and tried as
    well.
    """

    dims: tuple[int, ...]
    widths: tuple[int, ...]
    seeds: int
    epsilons: tuple[float, ...]


PLANS: dict[Size, TicketPlan] = {
    "quick": TicketPlan((8, 8, 8, 4), tuple(4**k for k in range(4, 9)), 2, (0.5,)),
    "recorded": TicketPlan((16, 32, 32, 10), tuple(2**k for k in range(10, 18)), 5, (0.5, 0.2)),
    "full": TicketPlan((16, 32, 32, 10), tuple(2**k for k in range(10, 21)), 20, (0.5, 0.2, 0.1)),
}


def tickets(workshop: Workshop) -> Page:
    """One step a width and seed; errors are the worst over the seeds."""
    plan = PLANS[workshop.size]
    by_width = {width: _tickets(workshop, plan, width) for width in plan.widths}
    enough = {epsilon: sufficient_width(plan.dims, epsilon, FAILURE) for epsilon in plan.epsilons}
    tried = {epsilon: _tickets(workshop, plan, width) for epsilon, width in enough.items()}
    widths = list(plan.widths)
    found = [max(one["found"] for one in by_width[width]) for width in widths]
    at_most = [max(one["at_most"] for one in by_width[width]) for width in widths]
    claims = (
        _suffices(tried),
        _slope(widths, found, at_most),
        _small([one for ones in by_width.values() for one in ones]),
    )
    picture = Picture(
        "tickets",
        "Error of a ticket on the unit ball, worst of the seeds",
        tuple(widths),
        "width of the random net",
        "‖G̃(x) - M(x)‖₂",
        (
            Series("no input has more", tuple(at_most)),
            Series("found by a search", tuple(found)),
            Series(
                "1/width, through the last",
                tuple(at_most[-1] * widths[-1] / width for width in widths),
            ),
        ),
        x_log=True,
        y_log=True,
    )
    return Page(
        tables=(_by_width(by_width), _by_epsilon(enough, tried), _by_theorem_6_2(plan, by_width)),
        settings={"target": "-".join(map(str, plan.dims)), "seeds": plan.seeds, "failure": FAILURE},
        claims=claims,
        notes=(
            "The paper makes no such experiment and prints no numbers, so no column of its own "
            "stands beside ours.",
            "The tickets come from a construction that knows the target weight by weight, so they "
            "show that a subnet exists. Nothing here says that iterative magnitude pruning finds "
            "it, as Theorem 6.2 would need.",
            "'no input has more' is a bound from spectral norms, 'found' what a search on the "
            "sphere reached.",
            "The count of active weights that Theorem 6.1 prints, d₀D + D²L, is of the order of "
            "all weights of the random net; those that stay are at most four for each weight of "
            "the target, whatever the width.",
        ),
        pictures=(picture,),
    )


def _tickets(workshop: Workshop, plan: TicketPlan, width: int) -> list[dict[str, Any]]:
    """The record of one ticket a seed."""

    def made(seed: int) -> dict[str, Any]:
        return ticket_error(plan.dims, width, seed).to_json()

    return [
        workshop.step(
            "guha-ticket", {"dims": plan.dims, "width": width, "seed": seed}, partial(made, seed)
        )
        for seed in range(workshop.seed, workshop.seed + plan.seeds)
    ]


def _by_width(by_width: dict[int, list[dict[str, Any]]]) -> Table:
    def most(key: str) -> Callable[[list[dict[str, Any]]], Any]:
        return lambda ones: max(one[key] for one in ones)

    def mask(ones: list[dict[str, Any]]) -> int:
        return mask_bits(ones[0]["all_weights"], most("active")(ones))

    return Table.of(
        "Worst of the seeds, by the width of the random net:",
        by_width.values(),
        {
            "width": most("width"),
            "largest error found": most("found"),
            "no input has more": most("at_most"),
            "worst weight off by": most("worst_weight"),
            "active weights": most("active"),
            "target's weights": most("target_weights"),
            "printed d₀D + D²L": most("printed"),
            "weights of G": most("all_weights"),
            "bits of the mask": mask,
        },
    )


def _by_epsilon(enough: dict[float, int], tried: dict[float, list[dict[str, Any]]]) -> Table:
    return Table.of(
        f"At the width that Theorem 6.1 with its constants asks for (failure {FAILURE}):",
        tried,
        {
            "ε": float,
            "width that suffices": enough.__getitem__,
            "seeds": lambda epsilon: len(tried[epsilon]),
            "within ε": lambda epsilon: sum(one["at_most"] <= epsilon for one in tried[epsilon]),
            "no input has more": lambda epsilon: max(one["at_most"] for one in tried[epsilon]),
        },
    )


def _by_theorem_6_2(plan: TicketPlan, by_width: dict[int, list[dict[str, Any]]]) -> Table:
    """What Theorem 6.2 adds to a ticket's errors, as printed and by what its mask takes."""
    rows = []
    for width, ones in by_width.items():
        facts = TicketFacts(
            m=_EXAMPLES,
            delta=FAILURE,
            errors=0,
            unsure=0,
            weights=ones[0]["all_weights"],
            kept=max(one["active"] for one in ones),
            inputs=plan.dims[0],
            target_width=max(plan.dims[1:]),
            depth=len(plan.dims) - 1,
            width=width,
            rho=_STEP,
        )
        rows.append((width, *(row.value for row in theorem_6_2(facts)[:3])))
    header = ("width", "as printed, 1 for O(.)", "mask alone, Hoeffding", "mask alone, exact tail")
    caption = (
        f"Theorem 6.2 for a ticket without an error on m = {_EXAMPLES} examples (ρ = 2⁻⁸, δ = "
        f"{FAILURE}): as printed a measure; by its mask what a seeded net could be certified for:"
    )
    return Table(header, tuple(rows), caption)


def _suffices(tried: dict[float, list[dict[str, Any]]]) -> Tried:
    """At the sufficient width a ticket within ε is there, but for the failure allowed."""
    text = "a net that is wide enough holds a subnet within ε of the target on the whole unit ball"
    missed = sum(one["at_most"] > epsilon for epsilon, ones in tried.items() for one in ones)
    count = sum(map(len, tried.values()))
    return Tried(
        text,
        missed <= FAILURE * count,
        f"{count - missed} of {count} random nets do, of the width computed",
    )


def _slope(widths: Sequence[int], found: Sequence[float], at_most: Sequence[float]) -> Tried:
    """A polynomial in 1/ε is enough: errors fall like a power of the width, near -1."""
    logs = [math.log(width) for width in widths]
    slopes = [
        linear_regression(logs, [math.log(error) for error in errors]).slope
        for errors in (found, at_most)
    ]
    text = "a width that is polynomial in 1/ε is enough: the error falls like a power of the width"
    because = (
        f"slope of ln(error) over ln(width): {slopes[1]:.2f}, and {slopes[0]:.2f} for the error "
        "found"
    )
    return Tried(text, max(slopes) <= -0.5, because)


def _small(ones: Sequence[dict[str, Any]]) -> Tried:
    text = "the subnet has approximately as many weights as the target"
    most = max(one["active"] / one["target_weights"] for one in ones)
    return Tried(text, most <= 4.0, f"up to {most:.2g} times as many, at every width")

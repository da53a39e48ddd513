"""What Guha 2023 §7 says of its numbers, each sentence tried on the paper's columns and on ours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cushion.papers.guha.columns import BEFORE, Column
from cushion.papers.guha.nets import NetFound
from cushion.papers.guha.paper import (
    BARTLETT_2017,
    METHODS,
    OURS,
    RIVALS,
    TABLE_1,
    TABLE_2,
    TRUE_ERROR,
    WIDTHS,
)
from cushion.papers.pages import Tried

PAPER_WIDTHS: tuple[Column, ...] = tuple(
    {method: TABLE_1[method][width] for method in METHODS} for width in WIDTHS
)


def excess(here: Column) -> float | None:
    """ln of the smallest rival over Ours; None where a number is missing."""
    ours = here[OURS]
    rivals = [value for method in RIVALS if (value := here[method]) is not None]
    return min(rivals) - ours if ours is not None and len(rivals) == len(RIVALS) else None


def smaller_by(orders: int, paper: Sequence[Column], here: Sequence[Column], where: str) -> Tried:
    """Ours is smaller than the closest rival by a factor of at least 10^orders, on every net."""

    def tried(columns: Sequence[Column]) -> tuple[bool | None, str]:
        found = [excess(one) for one in columns]
        known = [value for value in found if value is not None]
        if len(known) < len(found) or not known:
            return (
                None,
                f"{len(found) - len(known)} of {len(found)} nets have no number for Ours or for a "
                "rival",
            )
        least = min(known) / math.log(10.0)
        return least >= orders, f"the closest rival is 10^{least:.1f} times Ours at its closest"

    text = f"Ours is at least 10^{orders} times smaller than the closest rival on {where}"
    holds, because = tried(here)
    return Tried(text, holds, because, *tried(paper))


def closest_is_bartlett(paper: Sequence[Column], here: Sequence[Column]) -> Tried:
    """Of the rivals Bartlett 2017 is the closest, on every net."""

    def tried(columns: Sequence[Column]) -> tuple[bool | None, str]:
        closest = []
        for one in columns:
            known = {method: value for method in RIVALS if (value := one[method]) is not None}
            if len(known) < len(RIVALS):
                return None, "a rival has no number"
            closest.append(min(known, key=known.__getitem__))
        names = ", ".join(dict.fromkeys(closest))
        return set(closest) == {BARTLETT_2017}, f"the closest is {names}"

    holds, because = tried(here)
    return Tried("the rival closest to Ours is Bartlett 2017", holds, because, *tried(paper))


def grows_slower(here: Sequence[Column], widths: Sequence[int]) -> Tried:
    """From the narrowest net to the widest, Ours grows by less than Bartlett 2017's bound."""

    def tried(columns: Sequence[Column], sizes: Sequence[int]) -> tuple[bool | None, str]:
        first, last = columns[sizes.index(min(sizes))], columns[sizes.index(max(sizes))]
        ends = [(last[name], first[name]) for name in (OURS, BARTLETT_2017)]
        growths = [b - a for b, a in ends if a is not None and b is not None]
        if len(growths) < 2:
            return None, "the narrowest or the widest net has no number"
        ours, theirs = growths
        text = (
            f"from {min(sizes)} to {max(sizes)} Ours grows by a factor e^{ours:.2f}, Bartlett 2017 "
            f"by e^{theirs:.2f}"
        )
        return ours < theirs, text

    holds, because = tried(here, widths)
    text = "Ours grows more slowly with the width than Bartlett 2017"
    return Tried(text, holds, because, *tried(PAPER_WIDTHS, WIDTHS))


def below_bartlett(here: Sequence[Column], paper: Sequence[Column]) -> Tried:
    """At every width Ours is below Bartlett 2017."""

    def tried(columns: Sequence[Column]) -> tuple[bool | None, str]:
        pairs = [(one[OURS], one[BARTLETT_2017]) for one in columns]
        gaps = [theirs - ours for ours, theirs in pairs if ours is not None and theirs is not None]
        if len(gaps) < len(pairs) or not gaps:
            return None, f"{len(pairs) - len(gaps)} of {len(pairs)} nets lack a number"
        return min(gaps) > 0, f"by a factor e^{min(gaps):.2f} at least"

    holds, because = tried(here)
    return Tried("Ours is below Bartlett 2017 at every width", holds, because, *tried(paper))


def costs_little(here: Sequence[Column]) -> Tried:
    """The net that Ours bounds errs about as often as before; the paper gives no such pair."""
    text = (
        "pruning costs little: the net that Ours bounds errs on at most 5 % more of the test set "
        "than before"
    )
    pairs = [(one[TRUE_ERROR], one[BEFORE]) for one in here]
    rises = [
        math.exp(after) - math.exp(before)
        for after, before in pairs
        if after is not None and before is not None
    ]
    if len(rises) < len(pairs) or not rises:
        return Tried(text, None, f"{len(pairs) - len(rises)} of {len(pairs)} nets have no number")
    return Tried(
        text, max(rises) <= 0.05, f"with the d of the smallest bound on up to {max(rises):.1%} more"
    )


def applies(found: Sequence[NetFound]) -> Tried:
    """Theorem 5.2 says something of these nets: no layer moves further than Lemma 4.3 allows."""
    text = "Theorem 5.2 applies: every layer's ‖Δ_l‖₂ is at most ‖A_l‖₂/L, which Lemma 4.3 needs"
    reaches = [net.smallest_bound.reach for net in found if net.smallest_bound is not None]
    gentlest = [net.fewest_errors.reach for net in found if net.fewest_errors is not None]
    if not reaches:
        return Tried(text, None, "no net was pruned")
    words = f"‖Δ_l‖₂ is up to {max(reaches):.3g} times that"
    words += f", and with the d of the fewest errors {max(gentlest):.3g} times" if gentlest else ""
    return Tried(text, max(reaches) <= 1.0, words)


def orders_between() -> Tried:
    """A sentence about the paper's own two tables, tried on them: nothing of ours enters."""
    jumps = {
        method: (TABLE_2[method] - TABLE_1[method][784]) / math.log(10.0) for method in METHODS
    }
    least = min(jumps[method] for method in RIVALS)
    text = (
        "between MNIST and CIFAR-10 Ours and the true error differ by one order of magnitude, the "
        "rivals by at least 7"
    )
    holds = least >= 7.0 and all(0.5 <= jumps[method] < 1.5 for method in (OURS, TRUE_ERROR))
    because = (
        f"in the paper's tables Ours differs by 10^{jumps[OURS]:.2f}, the true error by "
        f"10^{jumps[TRUE_ERROR]:.2f}, the rivals by 10^{least:.1f} at least"
    )
    return Tried(text, holds, because, holds, because)


def reaches_error(here: Sequence[Column]) -> Tried:
    """The paper's error on CIFAR-10 is reached by an MLP, pruned or not; a tenth more passes."""
    printed = TABLE_2[TRUE_ERROR]
    errors = [
        value for one in here for name in (TRUE_ERROR, BEFORE) if (value := one[name]) is not None
    ]
    text = f"the MLP errs on e^{printed:.2f} = {math.exp(printed):.1%} of the test set"
    if not errors:
        return Tried(text, None, "no error was counted")
    best = min(errors)
    return Tried(
        text,
        best <= printed + math.log(1.1),
        f"ours errs on {math.exp(best):.1%} at best, pruned or not",
    )

"""What Guha 2023 §7 says of its numbers, each sentence tried on the paper's columns and on ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cushion.papers.guha import paper
from cushion.papers.guha.nets import BEFORE, NetFound
from cushion.papers.guha.paper import BARTLETT_2017, METHODS, OURS, RIVALS, TRUE_ERROR, Column
from cushion.papers.pages import Tried

Columns: TypeAlias = Sequence[Column]
Known: TypeAlias = list[dict[str, float]]
Judged: TypeAlias = tuple[bool | None, str]


def _try(
    text: str, rows: Sequence[str], lacking: str, judge: Callable[[Known], Judged], *sets: Columns
) -> Tried:
    """`judge` of these rows of our columns, then of the paper's; undecided where a number lacks."""

    def tried(columns: Columns) -> Judged:
        found = ({row: value for row in rows if (value := one[row]) is not None} for one in columns)
        known = [one for one in found if len(one) == len(rows)]
        if known and len(known) == len(columns):
            return judge(known)
        return None, lacking.format(f"{len(columns) - len(known)} of {len(columns)}")

    parts: list[Any] = [part for columns in sets for part in tried(columns)]
    return Tried(text, *parts)


def smaller_by(orders: int, printed: Columns, here: Columns, where: str) -> Tried:
    """Ours is smaller than the closest rival by a factor of at least 10^orders, on every net."""
    text = f"Ours is at least 10^{orders} times smaller than the closest rival on {where}"

    def judge(known: Known) -> Judged:
        excess = (min(one[rival] for rival in RIVALS) - one[OURS] for one in known)
        least = min(excess) / math.log(10.0)
        return least >= orders, f"the closest rival is 10^{least:.1f} times Ours at its closest"

    lacking = "{} nets have no number for Ours or for a rival"
    return _try(text, (OURS, *RIVALS), lacking, judge, here, printed)


def closest_is_bartlett(printed: Columns, here: Columns) -> Tried:
    """Of the rivals Bartlett 2017 is the closest, on every net."""

    def judge(known: Known) -> Judged:
        closest = dict.fromkeys(min(RIVALS, key=one.__getitem__) for one in known)
        return list(closest) == [BARTLETT_2017], f"the closest is {', '.join(closest)}"

    text = "the rival closest to Ours is Bartlett 2017"
    return _try(text, RIVALS, "a rival has no number", judge, here, printed)


def grows_slower(here: Columns, widths: Sequence[int]) -> Tried:
    """From the narrowest net to the widest, Ours grows by less than Bartlett 2017's bound."""

    def ends(columns: Columns, sizes: Sequence[int]) -> Columns:
        found = [{**column, "width": size} for column, size in zip(columns, sizes, strict=True)]
        found.sort(key=lambda one: one["width"] or 0)
        return [found[0], found[-1]]

    def judge(known: Known) -> Judged:
        first, last = known
        ours, theirs = (last[name] - first[name] for name in (OURS, BARTLETT_2017))
        grows = f"Ours grows by a factor e^{ours:.2f}, Bartlett 2017 by e^{theirs:.2f}"
        return ours < theirs, f"from {first['width']} to {last['width']} {grows}"

    text = "Ours grows more slowly with the width than Bartlett 2017"
    lacking = "the narrowest or the widest net has no number"
    both = ends(here, widths), ends(list(paper.TABLE_1.values()), list(paper.TABLE_1))
    return _try(text, (OURS, BARTLETT_2017, "width"), lacking, judge, *both)


def below_bartlett(here: Columns, printed: Columns) -> Tried:
    """At every width Ours is below Bartlett 2017."""

    def judge(known: Known) -> Judged:
        gap = min(one[BARTLETT_2017] - one[OURS] for one in known)
        return gap > 0, f"by a factor e^{gap:.2f} at least"

    text = "Ours is below Bartlett 2017 at every width"
    return _try(text, (OURS, BARTLETT_2017), "{} nets lack a number", judge, here, printed)


def costs_little(here: Columns) -> Tried:
    """The net that Ours bounds errs about as often as before; the paper gives no such pair."""
    text = (
        "pruning costs little: the net that Ours bounds errs on at most 5 % more of the test set "
        "than before"
    )

    def judge(known: Known) -> Judged:
        rise = max(math.exp(one[TRUE_ERROR]) - math.exp(one[BEFORE]) for one in known)
        return rise <= 0.05, f"with the d of the smallest bound on up to {rise:.1%} more"

    return _try(text, (TRUE_ERROR, BEFORE), "{} nets have no number", judge, here)


def applies(found: Sequence[NetFound]) -> Tried:
    """Theorem 5.2 says something of these nets: no layer moves further than Lemma 4.3 allows."""
    text = "Theorem 5.2 applies: every layer's ‖Δ_l‖₂ is at most ‖A_l‖₂/L, which Lemma 4.3 needs"
    reaches = [net.smallest_bound["reach"] for net in found if net.smallest_bound]
    gentlest = [net.fewest_errors["reach"] for net in found if net.fewest_errors]
    if not reaches:
        return Tried(text, None, "no net was pruned")
    words = f"‖Δ_l‖₂ is up to {max(reaches):.3g} times that"
    words += f", and with the d of the fewest errors {max(gentlest):.3g} times" if gentlest else ""
    return Tried(text, max(reaches) <= 1.0, words)


def orders_between() -> Tried:
    """A sentence about the paper's own two tables, tried on them: nothing of ours enters."""
    mnist, cifar10 = paper.TABLE_1[784], paper.TABLE_2
    jumps = {method: (cifar10[method] - mnist[method]) / math.log(10.0) for method in METHODS}
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


def reaches_error(here: Columns) -> Tried:
    """The paper's error on CIFAR-10 is reached by an MLP, pruned or not; a tenth more passes."""
    printed = paper.TABLE_2[TRUE_ERROR]
    text = f"the MLP errs on e^{printed:.2f} = {math.exp(printed):.1%} of the test set"
    shown = (one[name] for one in here for name in (TRUE_ERROR, BEFORE))
    best = min((value for value in shown if value is not None), default=None)
    if best is None:
        return Tried(text, None, "no error was counted")
    because = f"ours errs on {math.exp(best):.1%} at best, pruned or not"
    return Tried(text, best <= printed + math.log(1.1), because)


def over_epochs(here: Columns, epochs: Sequence[int]) -> tuple[Tried, Tried]:
    """The bound falls from the first net to the last; the true error is smallest earlier."""
    rows, lacking = (OURS, TRUE_ERROR), "a net has no number for Ours or for the true error"

    def falls(known: Known) -> Judged:
        change = known[-1][OURS] - known[0][OURS]
        words = f"from {epochs[0]} to {epochs[-1]} epochs it changes by a factor e^{change:.3f}"
        return change < 0, words

    def later(known: Known) -> Judged:
        values = ([one[row] for one in known] for row in rows)
        ours, true = (epochs[one.index(min(one))] for one in values)
        return true < ours, f"true error after {true} epochs, bound after {ours}"

    second = "the true error reaches its minimum before our bound does"
    return (
        _try("our bound decreases over the epochs", rows, lacking, falls, here),
        _try(second, rows, lacking, later, here),
    )

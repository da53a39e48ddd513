"""The best of the frozen list on a sample: every recipe that reads its rows, and every stop.

All of them share δ (`configurations`), so the best may be stated, however it was looked for. A
recipe's stops are places in one run, so that all of them cost little more than the last; the last
ones cost most, and a run ends where it is unlikely to become the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.picks.certificate import Trained
from cushion.certificates.picks.configurations import (
    AFTER,
    MOST_TRAINED,
    RECIPES,
    SIZES,
    STOPS,
    learner_for,
    numbers_for,
)
from cushion.certificates.picks.rounds import Picked, Rounds, hash_order
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.numerics import counted
from cushion.progress import working

_EARLY = 5  # stops, up to some 250 picks
_PICKED = tuple(accumulate(SIZES))  # rows after each round, as long as there are wrong ones


@dataclass(frozen=True, eq=False)
class Run:
    """A recipe's run: its best learner, and picks and errors at each stop that it came to."""

    number: int
    trained: Trained
    counts: tuple[int, ...]

    @property
    def fewest(self) -> int:
        return min(self.counts)


def best_of_list(
    sample: Dataset, read: Dataset, *, features: bool, recipe: int | None = None
) -> tuple[int, Trained]:
    """The number of the learner with the fewest picks and errors, and what it made.

    sample: whose rows are hashed; read: what the learners read of them (features, or the same).
    recipe: only this one of the list.
    """
    numbers = numbers_for(read, features=features)
    if recipe is not None:
        numbers = (_of_recipe(recipe, numbers, read.name),)
    order = hash_order(sample.x, sample.y)
    best: Run | None = None
    with working("recipes", len(numbers), "recipes") as bar:
        for number in numbers:
            run = _run(read, number, order, features, best)
            if best is None or run.fewest < best.fewest:
                best = run
            bar.say(f"{counted(best.fewest, 'pick')} and errors at best")
            bar.advance()
    assert best is not None
    return best.number, best.trained


def _of_recipe(recipe: int, numbers: tuple[int, ...], name: str) -> int:
    """That of the numbers that is of this recipe; BadInput where none is."""
    found = {number // STOPS: number for number in numbers}
    if recipe not in found:
        others = ", ".join(f"{one} ({RECIPES[one].name})" for one in found)
        raise BadInput(
            f"`recipe` = {recipe} ({RECIPES[recipe].name}) does not read the rows of {name}; these "
            f"do: {others}"
        )
    return found[recipe]


def _run(
    read: Dataset, number: int, order: NDArray[np.int64], features: bool, leader: Run | None
) -> Run:
    """A recipe, stop by stop, until it is unlikely to get better than it or the leader was."""
    learner = learner_for(read, number, features=features)
    bound = learner.bind(read.x, read.y)
    rounds = Rounds(bound, read.y, order)
    counts: list[int] = []
    missed: list[int] = []  # errors, at each stop
    best: tuple[int, Trained] | None = None
    with working("picking", len(AFTER), "stops") as bar:
        for place, size in enumerate(learner.groups, 1):
            if (len(rounds.picks) + size) * learner.copies >= MOST_TRAINED:
                break
            rounds.add(size)
            if place not in AFTER:
                continue
            errors = rounds.errors()
            missed.append(len(errors))
            counts.append(len(rounds.picks) + len(errors))
            if counts[-1] == min(counts) and counts.count(counts[-1]) == 1:
                picked = Picked(rounds.picks, errors, tuple(rounds.ends))
                stop = number // STOPS * STOPS + AFTER.index(place)
                best = (stop, Trained(bound.frozen(), picked))
            bar.say(f"{len(rounds.picks)} picked, {len(errors)} of the others wrong")
            bar.advance()
            if is_hopeless(counts, missed, () if leader is None else leader.counts):
                break
    assert best is not None
    return Run(*best, tuple(counts))


def is_hopeless(counts: list[int], missed: list[int], leader: tuple[int, ...]) -> bool:
    """Whether all later stops are unlikely to have fewer picks and errors than the best so far.

    Picks only grow, and errors fall by about the same factor from stop to stop: one smaller by a
    quarter is allowed for. A recipe that was behind the leader at two later stops in a row is given
    up too: early on, what the smoother ones miss says little.
    """
    at, errors = len(counts), missed[-1]
    if at == len(AFTER) or not errors:
        return True
    picks, best = counts[-1] - errors, min([*counts, *leader])
    planned = [_PICKED[after - 1] for after in AFTER[at:]]
    if errors <= planned[0] - picks:  # the round may run out of wrong rows
        return picks + errors > best
    falling = 0.75 * errors / missed[-2] if at > 1 else 0
    hoped = (more + errors * falling**far for far, more in enumerate(planned, 1))
    behind = [ours > theirs for ours, theirs in zip(counts, leader, strict=False)]
    return min(hoped) >= best or behind[_EARLY:][-2:] == [True, True]

"""The best of the frozen list on a sample: every recipe that reads its rows, and every stop.

All of them share δ (`configurations`), so the best may be stated. A recipe's stops are places in
one run, so that all of them cost little more than the last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.picks.certificate import Trained
from cushion.certificates.picks.configurations import AFTER, STOPS, learner_for, numbers_for
from cushion.certificates.picks.rounds import Picked, Rounds, hash_order
from cushion.data.dataset import Dataset
from cushion.numerics import counted
from cushion.progress import working


def best_of_list(
    sample: Dataset, read: Dataset, *, features: bool, recipe: int | None = None
) -> tuple[int, Trained]:
    """The number of the learner with the fewest picks and errors, and what it made.

    sample: whose rows are hashed; read: what the learners read of them (features, or the same).
    recipe: only this one of the list.
    """
    numbers = numbers_for(read, features=features)
    if recipe is not None:
        numbers = tuple(number for number in numbers if number // STOPS == recipe)
    order = hash_order(sample.x, sample.y)
    best: tuple[int, int, Trained] | None = None
    with working("recipes", len(numbers), "recipes") as bar:
        for number in numbers:
            fewest, stop, trained = _run(read, number, order, features, best[0] if best else None)
            if best is None or fewest < best[0]:
                best = (fewest, number // STOPS * STOPS + stop, trained)
            bar.say(f"{counted(best[0], 'pick')} and errors at best")
            bar.advance()
    assert best is not None
    return best[1], best[2]


def _run(
    read: Dataset,
    number: int,
    order: NDArray[np.int64],
    features: bool,
    to_beat: int | None,
) -> tuple[int, int, Trained]:
    """Fewest picks and errors, the stop they are at, and what was trained until there."""
    learner = learner_for(read, number, features=features)
    bound = learner.bind(read.x, read.y)
    rounds = Rounds(bound, read.y, order)
    best: tuple[int, int, Trained] | None = None
    with working("picking", len(AFTER), "stops") as bar:
        for place, size in enumerate(learner.groups, 1):
            rounds.add(size)
            if place not in AFTER:
                continue
            errors = rounds.errors()
            count = len(rounds.picks) + len(errors)
            if best is None or count < best[0]:
                picked = Picked(rounds.picks, errors, tuple(rounds.ends))
                best = (count, AFTER.index(place), Trained(bound.frozen(), picked))
            bar.say(f"{len(rounds.picks)} picked, {len(errors)} of the others wrong")
            bar.advance()
            # picks only grow: once they alone are as many, nothing later is better
            if len(rounds.picks) >= min(best[0], to_beat or best[0]) or not len(errors):
                break
    assert best is not None
    return best

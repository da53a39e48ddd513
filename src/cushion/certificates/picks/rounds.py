"""Which rows a learner needs: rounds of training on the picks so far and picking what is wrong.

The rule is preferent, whatever the learner does with its picks: without a row that was never picked
every round picks the same, and so does the sample in any other order (docs/derivations.md, section
6). For that, rows stand in the order of a hash of their own bytes, and round sizes are constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.data.streaming import pieces
from cushion.progress import working

Tell: TypeAlias = Callable[[NDArray[np.int64]], None]  # of each training: [m] classes
TIE = -1  # no class: never right
_STRETCH, _LONGEST = 128, 4096  # rows that a round looks at together


class Bound(Protocol):
    """A learner that a sample was handed to once, so that it can keep what it computes of rows.

    What it learns is a function of the picked rows in their order alone; whether a row is wrong one
    of that and the row.
    """

    def train(self, picks: NDArray[np.int64]) -> None:
        """Learn from these rows of the sample, in the order picked: those of the training before,
        and more behind them.
        """
        ...

    def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] classes of rows of the sample, by the last training; `TIE` where there is none."""
        ...

    def classify(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """[n] classes of other rows, by the last training; `TIE` where there is none."""
        ...

    def digest(self) -> str | None:
        """sha256, in hexadecimal, of what the last training gave; None where there is none."""
        ...


class Learner(Protocol):
    """A way to learn, fixed before the sample. groups: rows added in each round, at most."""

    @property
    def groups(self) -> tuple[int, ...]: ...

    def bind(self, x: NDArray[Any], y: NDArray[np.int64]) -> Bound: ...


@dataclass(frozen=True, eq=False)
class Picked:
    """Rows of the sample: `picks` in the order picked, `errors` of the last training, ascending;
    `ends`: how many were picked after each round.
    """

    picks: NDArray[np.int64]
    errors: NDArray[np.int64]
    ends: tuple[int, ...] = ()

    @property
    def message(self) -> bytes:
        """Both as little-endian 32-bit words."""
        return np.concatenate([self.picks, self.errors]).astype("<u4").tobytes()


def hash_order(x: NDArray[Any], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """[m] row numbers, by the sha256 of the row's x (C order, little-endian) and of its label (a
    little-endian int64). Equal hashes are equal rows, and interchangeable: they keep their order.
    """
    little = x.dtype.newbyteorder("<")
    words = np.empty((len(x), 4), np.uint64)
    for start, rows in pieces(x):
        labels = y[start : start + len(rows)].astype("<i8")
        for at, (row, label) in enumerate(zip(rows, labels, strict=True), start):
            whole = np.ascontiguousarray(row, dtype=little).tobytes() + label.tobytes()
            words[at] = np.frombuffer(hashlib.sha256(whole).digest(), ">u8")
    return np.lexsort(words.T[::-1])


def pick(
    bound: Bound,
    x: NDArray[Any],
    y: NDArray[np.int64],
    groups: Sequence[int],
    tell: Tell | None = None,
) -> Picked:
    """Run the rounds: train on the picks so far, add the first misclassified rows in hash order, as
    many as the round takes; after the last round train once more, and the rest that is wrong are
    the errors. With no picks every row is wrong.

    tell: is handed the classes [m] of each training, the empty one before the first round included:
    len(groups) + 1 times. Without it a round looks only at as many rows as it needs.
    """
    rounds = Rounds(bound, y, hash_order(x, y))
    with working("picking", len(groups), "rounds") as bar:
        for size in groups:
            if tell is not None:
                tell(rounds.everywhere())
            rounds.add(size)
            bar.say(f"{len(rounds.picks)} picked")
            bar.advance()
    if tell is not None:
        tell(rounds.everywhere())
    return Picked(rounds.picks, rounds.errors(), tuple(rounds.ends))


class Rounds:
    """The rounds of a learner under way."""

    def __init__(self, bound: Bound, y: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        self._bound, self._y, self._order = bound, y, order
        self._left = np.ones(len(y), bool)
        self.picks = np.empty(0, np.int64)
        self.ends: list[int] = []

    def add(self, size: int) -> None:
        """One round: pick the first wrong rows, and train."""
        added = self._first_wrong(size)
        if len(added):  # else the same picks give the same answers again
            self._left[added] = False
            self.picks = np.concatenate([self.picks, added])
            self._bound.train(self.picks)
        self.ends.append(len(self.picks))

    def errors(self) -> NDArray[np.int64]:
        """Rows that are not picked and wrong now, ascending."""
        return self._wrong(np.flatnonzero(self._left))

    def everywhere(self) -> NDArray[np.int64]:
        """[m] the classes of all rows now."""
        rows = np.arange(len(self._y))
        return self._bound.classes(rows) if len(self.picks) else np.full(len(rows), TIE)

    def _first_wrong(self, size: int) -> NDArray[np.int64]:
        """Row numbers, in hash order; rows are looked at in growing stretches until enough are."""
        rows = self._order[self._left[self._order]]
        found, start, stretch = np.empty(0, np.int64), 0, _STRETCH
        while start < len(rows) and len(found) < size:
            found = np.concatenate([found, self._wrong(rows[start : start + stretch])])
            start, stretch = start + stretch, min(2 * stretch, _LONGEST)
        return found[:size]

    def _wrong(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(self.picks):
            return rows
        wrong: NDArray[np.int64] = rows[self._bound.classes(rows) != self._y[rows]]
        return wrong

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


def tell_nobody(classes: NDArray[np.int64]) -> None:
    """Leaves the classes of a round to the rounds."""


class Bound(Protocol):
    """A learner that a sample was handed to once, so that it can keep what it computes of rows.

    What it learns is a function of the picked rows in their order alone; whether a row is wrong one
    of that and the row.
    """

    def train(self, picks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Learn from these rows of the sample, in the order picked: [m] classes of all its rows,
        `TIE` where there is none. Those of the picked rows do not matter.
        """
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
    tell: Tell = tell_nobody,
) -> Picked:
    """Run the rounds: train on the picks so far, add the first misclassified rows in hash order, as
    many as the round takes; after the last round train once more, and the rest that is wrong are
    the errors. With no picks every row is wrong.

    tell: is handed the classes [m] of each training, the empty one before the first round included:
    len(groups) + 1 times.
    """
    order = hash_order(x, y)
    left = np.ones(len(y), bool)
    picks = np.empty(0, np.int64)
    classes = np.full(len(y), TIE, np.int64)
    ends: list[int] = []
    tell(classes)
    with working("picking", len(groups), "rounds") as bar:
        for size in groups:
            wrong = order[(left & (classes != y))[order]]
            added = wrong[:size]
            if len(added):  # else the same picks give the same answers again
                left[added] = False
                picks = np.concatenate([picks, added])
                classes = bound.train(picks)
            tell(classes)
            ends.append(len(picks))
            bar.say(f"{len(picks)} picked, {len(wrong)} were wrong")
            bar.advance()
    return Picked(picks, np.flatnonzero(left & (classes != y)), tuple(ends))

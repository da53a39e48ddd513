"""The frozen list: eight learners, each with sixteen places to stop (FORMAT.md, section 11).

Everything in it was fixed before any sample of a certificate was looked at. All 128 share δ, so a
person may run as many of them on a sample as they like and state the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.picks import front_end, moves
from cushion.certificates.picks.kernel_machine import KernelMachine, classes_of
from cushion.data.dataset import Dataset
from cushion.errors import BadInput

STOPS = 16
_FEWEST, _PART = 8, 24  # rows that a round adds: 8, and later a 24th of those before
_FIRST_STOP = 64  # picks; then √2 times as many each
_AT_ONCE = 256  # rows whose vectors are made together
MOST_WIDTH = 2**14  # numbers of a row that is no picture
MOST_SIDE = 2**12  # of a picture
MOST_TRAINED = 2**15  # picks and their copies; so many and more would leave the exact range
Rows: TypeAlias = NDArray[Any]
Vectors: TypeAlias = NDArray[np.float32]


def _sizes() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows that each round adds, and after how many rounds a learner may stop."""
    sizes: list[int] = []
    stops: list[int] = []
    picked = 0
    while len(stops) < STOPS:
        sizes.append(max(_FEWEST, picked // _PART))
        picked += sizes[-1]
        if picked**2 >= _FIRST_STOP**2 * 2 ** len(stops):
            stops.append(len(sizes))
    return tuple(sizes), tuple(stops)


SIZES, AFTER = _sizes()


@dataclass(frozen=True)
class Recipe:
    """How rows become vectors, which copies of a pick are trained on, and the machine's constants.

    decay and ridge: `kernel_machine`; steps: of conjugate residuals in each round.
    """

    name: str
    form: str  # grey, colour, table or features
    copies: tuple[moves.Move | str, ...]
    decay: int
    ridge: int
    steps: int = 16


def decay_of(gamma: int) -> int:
    """⌊2^48 exp(-2γ / 2^16)⌋ for γ = 1 to 4, as FORMAT.md lists them."""
    return (281466386907134, 281457797365749, 281449208086492, 281440619069354)[gamma - 1]


RECIPES = (
    Recipe("grey pictures", "grey", (), decay_of(2), 655),
    Recipe("grey pictures and their mirror images", "grey", ("mirror",), decay_of(2), 6554),
    Recipe("grey pictures, moved a little", "grey", moves.ALL, decay_of(2), 655),
    Recipe("colour pictures and their mirror images", "colour", ("mirror",), decay_of(3), 6554),
    Recipe("colour pictures", "colour", (), decay_of(3), 6554),
    Recipe("tables", "table", (), decay_of(4), 655),
    Recipe("tables, smoother", "table", (), decay_of(1), 6554),
    Recipe("features", "features", (), decay_of(2), 6554),
)
LENGTH = len(RECIPES) * STOPS


@dataclass(frozen=True)
class ListedLearner:
    """Learner `number` of the list: a recipe, stopped after the rounds of its place."""

    number: int
    classes: int
    shape: tuple[int, ...]  # of one row, as the data have it

    @property
    def recipe(self) -> Recipe:
        return RECIPES[self.number // STOPS]

    @property
    def groups(self) -> tuple[int, ...]:
        return SIZES[: AFTER[self.number % STOPS]]

    @property
    def copies(self) -> int:
        """Training rows that each pick makes."""
        return 1 + len(self.recipe.copies)

    def bind(self, x: Rows, y: NDArray[np.int64]) -> BoundMachine:
        return BoundMachine(self, x, y)


@dataclass
class BoundMachine:
    """A listed learner and its sample; vectors of rows are made when they are first asked for."""

    learner: ListedLearner
    x: Rows
    y: NDArray[np.int64]
    machine: KernelMachine = field(init=False)
    _known: NDArray[np.bool_] = field(init=False)
    _vectors: Vectors | None = None
    _columns: list[Rows] = field(default_factory=list)
    _trained: int = 0

    def __post_init__(self) -> None:
        recipe = self.learner.recipe
        self.machine = KernelMachine(self.learner.classes, recipe.decay, recipe.ridge, recipe.steps)
        self._known = np.zeros(len(self.x), bool)

    def train(self, picks: NDArray[np.int64]) -> None:
        """Learn from these rows of the sample: those of the last training, and more behind them."""
        added = picks[self._trained :]
        if len(picks) * self.learner.copies >= MOST_TRAINED:
            said = f"`configuration` = {self.learner.number} trains on {MOST_TRAINED} rows and more"
            raise BadInput(f"{said} here, which is not exact; leave it out for the best that does")
        if not self._trained:  # what a table's or a float's scale is taken from
            self._columns = _scale(self.learner, self.x[added])
        self._trained = len(picks)
        copies = [self._vectors_of(added), *self._copies(self.x[added])]
        self.machine.add(np.concatenate(copies), np.tile(self.y[added], len(copies)))
        self.machine.train()

    def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] of rows of the sample, by the last training; -1 for a tie."""
        return classes_of(self.machine.scores(self._vectors_of(rows)))

    def as_read(self, x: Rows) -> Rows:
        """[n, ...] the levels that it tells apart, after the first training."""
        return _levels(self.learner, x, self._columns).astype(np.uint8)

    def classify(self, x: Rows) -> NDArray[np.int64]:
        """[n] of other rows, by the last training; -1 for a tie."""
        parts = [
            classes_of(self.machine.scores(self._made(x[i : i + _AT_ONCE])))
            for i in range(0, len(x), _AT_ONCE)
        ]
        return np.concatenate(parts)

    def frozen(self) -> BoundMachine:
        """What it answers now, whatever it learns later."""
        found = copy(self)
        found.machine = self.machine.frozen()
        return found

    def digest(self) -> str | None:
        return self.machine.digest() if self._trained else None

    def _vectors_of(self, rows: NDArray[np.int64]) -> Vectors:
        missing = rows[~self._known[rows]]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            made = self._made(self.x[some])
            if self._vectors is None:
                self._vectors = np.zeros((len(self.x), made.shape[1]), np.float32)
            self._vectors[some] = made
        self._known[missing] = True
        assert self._vectors is not None
        found: Vectors = self._vectors[rows]
        return found

    def _made(self, x: Rows) -> Vectors:
        return _FORMS[self.learner.recipe.form](_levels(self.learner, x, self._columns))

    def _copies(self, x: Rows) -> Iterator[Vectors]:
        levels = _levels(self.learner, x, self._columns)
        for how in self.learner.recipe.copies:
            changed = moves.moved(levels, how) if isinstance(how, moves.Move) else levels
            yield _FORMS[self.learner.recipe.form](
                moves.mirrored(changed) if how == "mirror" else changed
            )


_FORMS: dict[str, Callable[[Any], Vectors]] = {
    "grey": front_end.grey,
    "colour": front_end.colour,
    "table": front_end.pairs,
    "features": front_end.features,
}


def _scale(learner: ListedLearner, first: Rows) -> list[Rows]:
    """From the first round's rows: of a table, each column's values sorted; of pictures of floats
    the smallest and the largest value; of bytes nothing.
    """
    if learner.recipe.form == "table":
        return list(np.sort(first.reshape(len(first), -1), axis=0).T)
    if first.dtype == np.uint8:
        return []
    return [np.array([first.min(), first.max()], np.float64)]


def _levels(learner: ListedLearner, x: Rows, columns: list[Rows]) -> Rows:
    """Whole numbers 0..255 in the shape that the front end reads."""
    form = learner.recipe.form
    if form == "table":
        return _ranks(x.reshape(len(x), -1), columns)
    if form == "features":
        return x.reshape(len(x), -1)
    if columns:
        low, high = columns[0]
        width = max(high - low, 2.0**-100)
        with np.errstate(invalid="ignore", over="ignore"):
            x = np.clip(np.floor((x.astype(np.float64) - low) * (255.0 / width)), 0, 255)
        x = np.nan_to_num(x).astype(np.int64)
    sides = x.shape[-2:]
    return x.reshape(len(x), *((3,) if form == "colour" else ()), *sides)


def _ranks(x: Rows, columns: list[Rows]) -> NDArray[np.int64]:
    """⌊255 (a + b) / 2n⌋ of each value: a of the n sorted values are below it, b not above it."""
    found = np.empty(x.shape, np.int64)
    for j, values in enumerate(columns):
        both = np.searchsorted(values, x[:, j], "left") + np.searchsorted(values, x[:, j], "right")
        found[:, j] = 255 * both // (2 * len(values))
    return found


def form_of(data: Dataset, *, features: bool = False) -> str:
    """Of what kind these rows are: pictures, grey or colour, from 8 x 8 to 4096 x 4096; features; a
    table.
    """
    if features:
        return "features"
    shape = data.shape
    if len(shape) == 2:
        shape = (1, *shape)
    sized = len(shape) == 3 and min(shape[1:]) >= 8 and max(shape[1:]) <= MOST_SIDE
    if sized and shape[0] in (1, 3):
        return "grey" if shape[0] == 1 else "colour"
    return "table"


def numbers_for(data: Dataset, *, features: bool = False) -> tuple[int, ...]:
    """The recipes of the list that read such rows, each at its last stop."""
    form = form_of(data, features=features)
    return tuple(i * STOPS + STOPS - 1 for i, recipe in enumerate(RECIPES) if recipe.form == form)


def learner_for(data: Dataset, number: int, *, features: bool = False) -> ListedLearner:
    """Learner `number` for such rows; BadInput where it does not read them."""
    if not 0 <= number < LENGTH:
        raise BadInput(f"`configuration` = {number} must be 0 to {LENGTH - 1}")
    if data.x.dtype.names is not None or data.x.dtype == np.int64:
        raise BadInput(f"{data.name}: listed learners read bytes and floats, not tokens or parts")
    wanted, found = RECIPES[number // STOPS].form, form_of(data, features=features)
    if wanted != found:
        one = f"`configuration` = {number} reads rows of the form {wanted}"
        raise BadInput(f"{one}, and {data.name} is {found}; leave it out for the best that does")
    if found == "table" and int(np.prod(data.shape)) > MOST_WIDTH:
        raise BadInput(f"{data.name}: rows of more than {MOST_WIDTH} numbers are no table")
    return ListedLearner(number, data.classes, data.shape)

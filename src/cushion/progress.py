"""How far the work is: one line on a terminal's stderr for the whole command, nothing elsewhere.

Loops may lie inside each other; an inner one fills the step of the outer one in which it runs. Work
that knows its stages says so with `plan`, and the time left is then that of all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import zip_longest
from typing import Any, TypeVar

from cushion.records.text import one_line

T = TypeVar("T")
_QUIET = 2.0  # seconds before a line is shown: short work shows none
_EVERY = 0.2  # seconds between two looks


class Bar:
    """One loop under way: `done` of `total` steps, and a word on how it goes.

    A plan is a loop over its `stages`: each loop directly inside it is the stage of that name.
    """

    def __init__(
        self, what: str, total: float | None, unit: str = "", stages: dict[str, float] | None = None
    ) -> None:
        self.what, self.total, self.unit, self.stages = what, total, unit, stages
        self.done, self.note = 0.0, ""

    def advance(self, steps: float = 1.0) -> None:
        """So many steps more are done."""
        self.done += steps
        if self in _SHOWN.bars:
            _SHOWN.look()

    def reach(self, done: float) -> None:
        """So many steps are done in all."""
        self.advance(done - self.done)

    def say(self, note: str) -> None:
        """What to print behind the line."""
        self.note = note

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0

    def share(self, inner: str) -> float:
        """How much of this loop the loop of that name, directly inside it, is."""
        part = 1.0 if self.stages is None else self.stages.get(inner, 0.0)
        return part / self.total if self.total else 0.0


class _Shown:
    """The line on the terminal, and the loops under way, outermost first."""

    def __init__(self) -> None:
        self.bars: list[Bar] = []
        self.began = self.looked = self.reached = 0.0
        self.line: Any = None

    def fraction(self) -> float:
        """Of all the work that is known of."""
        part, share = 0.0, 1.0
        for bar, inner in zip_longest(self.bars, self.bars[1:]):
            part += share * bar.fraction
            share *= bar.share(inner.what) if inner else 1.0
        self.reached = max(self.reached, part)  # a stage of several loops never goes back
        return self.reached

    def look(self) -> None:
        """Draw the line again, if it is time for it and somebody sees it."""
        now = time.monotonic()
        if now - self.looked < _EVERY or not sys.stderr.isatty():
            return
        self.looked = now
        if now - self.began < _QUIET:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        if self.line is None:
            # markup=False: a name in brackets is a name
            words = TextColumn("{task.description}", markup=False)
            left = TextColumn("{task.fields[left]}", markup=False)
            console = Console(stderr=True)
            self.line = Progress(words, BarColumn(), left, console=console, transient=True)
            self.line.add_task("", total=1.0, left="")
            self.line.start()
        loops = [f"{bar.what} {_steps(bar)} {bar.note}".strip() for bar in self.bars if bar.what]
        fraction = self.fraction()
        rest = _time((now - self.began) * (1 - fraction) / fraction) if fraction > 0.01 else ""
        task = self.line.task_ids[0]
        shown = one_line(": ".join(loops))
        self.line.update(task, completed=fraction, description=shown, left=rest)


_SHOWN = _Shown()


def _steps(bar: Bar) -> str:
    return f"{bar.done:g}/{bar.total:g} {bar.unit}".strip() if bar.unit and bar.total else ""


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} left" if minutes < 60 else f"{minutes / 60:.1f} h left"


@contextmanager
def _under_way(bar: Bar) -> Iterator[Bar]:
    outer = _SHOWN.bars[-1] if _SHOWN.bars else None
    if outer is None:
        _SHOWN.began, _SHOWN.reached = time.monotonic(), 0.0
    _SHOWN.bars.append(bar)
    try:
        yield bar
    finally:
        _SHOWN.bars.remove(bar)
        if outer is not None and outer.stages is not None:
            outer.advance(outer.stages.pop(bar.what, 0.0))
        if not _SHOWN.bars and _SHOWN.line is not None:
            _SHOWN.line.stop()
            _SHOWN.line = None


def plan(stages: Mapping[str, float]) -> AbstractContextManager[Bar]:
    """The stages of a piece of work with about how long each takes beside the others, by `what`."""
    return _under_way(Bar("", sum(stages.values()), stages=dict(stages)))


def working(
    what: str, total: float | None = None, unit: str = "", *, hidden: bool = False
) -> AbstractContextManager[Bar]:
    """A piece of work that says itself how far it is; a hidden one is shown to nobody."""
    bar = Bar(what, total, unit)
    return nullcontext(bar) if hidden else _under_way(bar)


def progress(
    items: Iterable[T], what: str, unit: str = "", *, total: float | None = None
) -> Iterator[T]:
    """The items, while a line says how many of them are done."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with working(what, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()

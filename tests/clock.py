"""A clock for budgets: the same steps fit into the same seconds on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Clock:
    """Stands for `time.monotonic`: each reading takes `tick` seconds, a sleep what it says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tick = 0.01

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def own_clock() -> Iterator[Clock]:
    """Everything in this block that reads `time.monotonic` reads a `Clock`."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr("time.monotonic", clock)
        yield clock

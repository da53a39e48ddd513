"""A clock for budgets: the same steps fit into the same seconds on every machine."""

from __future__ import annotations


class Clock:
    """Stands for `time.monotonic`: each reading takes `tick` seconds, a sleep as long as it says."""

    def __init__(self, tick: float = 0.01) -> None:
        self.now = 0.0
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

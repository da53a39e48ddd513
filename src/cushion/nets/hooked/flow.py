"""What reads what in one pass of a module, from the autograd graph of its scores.

Only results that depend on the data count: those that lead back to the input or to a table of
embeddings. Weights and constants are not part of the flow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from torch import Tensor

Fn: TypeAlias = Any  # a node of the autograd graph; equal only to itself


class Flow:
    """The results between the data and `scores`, in an order in which data may pass them."""

    def __init__(self, scores: Tensor, inputs: Collection[Tensor]) -> None:
        leaves = {id(tensor) for tensor in inputs}
        order: list[Fn] = []
        alive: dict[Fn, bool] = {}  # whether the result depends on the data
        pending = [(scores.grad_fn, False)]
        while pending:
            fn, seen = pending.pop()
            if fn is None or (fn in alive and not seen):
                continue
            if not seen:
                alive[fn] = False
                pending.append((fn, True))
                pending += [(before, False) for before, _ in fn.next_functions]
                continue
            own = id(getattr(fn, "variable", None)) in leaves or "Embedding" in fn.name()
            alive[fn] = own or any(alive.get(before, False) for before, _ in fn.next_functions)
            if alive[fn]:
                order.append(fn)
        self.order = order
        self.place: Mapping[Fn, int] = {fn: at for at, fn in enumerate(order)}
        self.users: list[list[int]] = [[] for _ in order]
        self.inputs: list[list[int]] = [[] for _ in order]
        for at, fn in enumerate(order):
            before = {self.place[one] for one, _ in fn.next_functions if one in self.place}
            self.inputs[at] = sorted(before)
            for source in before:
                self.users[source].append(at)

    @cached_property
    def cuts(self) -> frozenset[int]:
        """Places whose result alone carries everything from the data to the scores."""
        found, reach, last = (
            set(),
            -1,
            max((i for i, b in enumerate(self.inputs) if not b), default=0),
        )
        for at in range(len(self.order)):
            # an edge from before to behind, or data that enter later, pass it by
            if reach <= at and at >= last:
                found.add(at)
            reach = max([reach, *self.users[at]])
        return frozenset(found)

    def next_of(self, at: int, ends: Collection[int]) -> int | None:
        """The first of `ends` that reads place `at` through results which nothing else reads."""
        while len(self.users[at]) == 1:
            at = self.users[at][0]
            if len(self.inputs[at]) != 1:
                return None
            if at in ends:
                return at
        return None

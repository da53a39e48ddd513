"""Pairs of nets of Figures 1 and 2: one sample with its true labels, and with random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cushion.papers.drawings import Picture, Series
from cushion.papers.neyshabur.nets import NetFound, SizedNet, find_net
from cushion.papers.neyshabur.plans import PAIRS
from cushion.papers.runner import Workshop


@dataclass(frozen=True)
class PairFound:
    """The two nets of one sample size."""

    size: int
    true: NetFound
    random: NetFound


def find_pairs(workshop: Workshop, alphas: tuple[float, ...] = ()) -> list[PairFound]:
    """Every pair, the smallest sample first."""
    return [
        PairFound(
            pair.size,
            find_net(workshop, pair.true, alphas),
            find_net(workshop, pair.random, alphas),
        )
        for pair in PAIRS[workshop.size]
    ]


def nets_of(pairs: Sequence[PairFound]) -> list[SizedNet]:
    """Both nets of every pair."""
    return [
        SizedNet(pair.size, net, labels)
        for pair in pairs
        for labels, net in (("true", pair.true), ("random", pair.random))
    ]


PAIR_COLUMNS: dict[str, Callable[[SizedNet], Any]] = {
    "examples": lambda one: one.size,
    "labels": lambda one: one.labels,
}


def lines(
    title: str, label: str, pairs: Sequence[PairFound], read: Callable[[NetFound], float | None]
) -> Picture:
    """One number of every net over the sample size, a line for each kind of labels."""
    series = (
        Series("true labels", tuple(read(pair.true) for pair in pairs)),
        Series("random labels", tuple(read(pair.random) for pair in pairs)),
    )
    return Picture(
        "", title, tuple(pair.size for pair in pairs), "size of the training set", label, series
    )

"""Accumulators merge to the single-pass answer exactly, in any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cushion.errors import BadInput
from cushion.nets.engine import Samples, Total, map_shards

VALUES = np.random.default_rng(0).standard_normal(23)


def shards_of(size: int) -> list[tuple[int, np.ndarray]]:
    return [(start, VALUES[start : start + size]) for start in range(0, len(VALUES), size)]


@pytest.mark.parametrize("size", [5, 8, 23, 100])
def test_samples_merge_in_any_order(size: int) -> None:
    for order in itertools.islice(itertools.permutations(shards_of(size)), 40):
        total = Samples()
        for start, values in order:
            total.merge(Samples.of(start, values))
        assert np.array_equal(total.values(), VALUES)


def test_missing_and_repeated_rows_are_noticed() -> None:
    total = Samples.of(0, VALUES[:5])
    with pytest.raises(ValueError, match="already"):
        total.merge(total)
    total.merge(Samples.of(10, VALUES[10:]))
    with pytest.raises(ValueError, match="5 to 9"):
        total.values()
    overlapping = Samples({0: VALUES[:5], 3: VALUES[3:]})
    with pytest.raises(ValueError, match="repeated"):
        overlapping.values()


@pytest.mark.parametrize("size", [1, 7, 23, 50])
def test_map_shards_covers_every_row_once(size: int) -> None:
    def work(rows: slice) -> dict[str, Samples | Total]:
        positive = Total(np.array((VALUES[rows] > 0).sum()))
        return {"values": Samples.of(rows.start, VALUES[rows]), "positive": positive}

    merged = map_shards(len(VALUES), size, work)
    assert np.array_equal(merged["values"].values(), VALUES)
    assert merged["positive"].sum == (VALUES > 0).sum()


def test_nothing_to_work_on_is_refused() -> None:
    for rows, size in ((0, 5), (5, 0)):
        with pytest.raises(BadInput):
            map_shards(rows, size, lambda rows: {})

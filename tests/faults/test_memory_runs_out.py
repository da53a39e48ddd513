"""Memory that runs out halves the batch, which changes no number; long work is announced."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from cushion.errors import BadInput, Remark
from cushion.nets import engine
from cushion.nets.engine import Samples, Total, is_out_of_memory, map_shards

ROWS = 103
VALUES = np.random.default_rng(0).standard_normal((ROWS, 5)).astype(np.float32)
PROBLEMS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


class Work:
    """One number a row, and a count; memory for `most` rows at once, from call `after` on."""

    def __init__(self, most: int, problem: BaseException | None = None, after: int = 0) -> None:
        self.most, self.problem, self.after = most, problem or MemoryError(), after
        self.sizes: list[int] = []

    def __call__(self, rows: slice) -> dict[str, Samples | Total]:
        size = rows.stop - rows.start
        self.sizes.append(size)
        if size > self.most and len(self.sizes) > self.after:
            raise self.problem
        # depends on the size of the batch, as rounding does
        values = VALUES[rows].sum(axis=1) + size
        return {"values": Samples.of(rows.start, values), "rows": Total(np.array(size))}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: str(one)[:20] or "MemoryError")
def test_every_way_to_run_out_of_memory_halves_the_batch(problem: BaseException) -> None:
    work = Work(20, problem)
    with pytest.warns(Remark, match="batches of 12 rows were taken instead of 103"):
        found = map_shards(ROWS, 1000, work)
    assert found["rows"].sum == ROWS
    assert work.sizes[:4] == [103, 51, 25, 12]


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("most", [1, 7, 16])
def test_the_answer_is_that_of_the_smaller_batch_from_the_start(most: int, after: int) -> None:
    with pytest.warns(Remark) as told:
        found = map_shards(ROWS, 32, Work(most, after=after))
    assert len(told) == 1
    size = int(str(told[0].message).split("batches of ")[1].split()[0])
    assert size <= most
    alone = map_shards(ROWS, size, Work(ROWS))
    assert np.array_equal(found["values"].values(), alone["values"].values())
    assert found["rows"].sum == alone["rows"].sum


def test_memory_for_less_than_a_row_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="margins: memory ran out on a single row; use a smaller"):
        map_shards(ROWS, 32, Work(0), describe="margins")


@pytest.mark.parametrize("problem", [RuntimeError("shapes differ"), KeyError("out of memory")])
def test_other_problems_are_what_they_are(problem: Exception) -> None:
    assert not is_out_of_memory(problem)
    with pytest.raises(type(problem)):
        map_shards(ROWS, 32, Work(0, problem))


def test_enough_memory_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        map_shards(ROWS, 32, Work(32))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the work moves."""
    now = [0.0]
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])
    return now


def taking(clock: list[float], first: float, later: float) -> object:
    def work(rows: slice) -> dict[str, Total]:
        clock[0] += later if rows.start else first
        return {"rows": Total(np.array(rows.stop - rows.start))}

    return work


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        (6.0, 6.0, "scores: about 9.9 minutes and "),  # 99 shards are left after the first
        (4.0, 2.0, "scores: about 3.3 minutes and "),  # warming up took half of the first
        (60.0, 90.0, "scores: about 1.6 hours and "),  # 99 of 60 seconds, from the first alone
    ],
)
def test_a_long_stage_is_announced_with_its_time_and_memory(
    clock: list[float], first: float, later: float, said: str
) -> None:
    with pytest.warns(Remark) as told:
        map_shards(100, 1, taking(clock, first, later), describe="scores")  # type: ignore[arg-type]
    assert len(told) == 1
    text = str(told[0].message)
    assert text.startswith(said)
    assert text.endswith(" GiB of memory; fewer examples take less")
    assert 0.01 < float(text.split(" and ")[1].split()[0]) < 100


@pytest.mark.parametrize(("first", "later"), [(0.6, 0.6), (4.9, 0.5), (50.0, 0.0)])
def test_short_stages_and_slow_starts_are_not_announced(
    clock: list[float], first: float, later: float
) -> None:
    rows = 2 if first == 50.0 else 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        map_shards(rows, 1, taking(clock, first, later))  # type: ignore[arg-type]

"""Limits in seconds that hold on a slow machine, too: start-up, searches that end when their time
is over, hostile files that are refused before they cost anything.

The gate reads no clock (its searches run on one of their own, tests/clock.py); this benchmark does.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch

from cushion.certificates.certify import certify
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import encode
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.integer.last_layer import polish
from cushion.certificates.search.integer.search import search
from cushion.certificates.search.options import SearchOptions
from cushion.certificates.search.seeded import search_seeded
from cushion.certificates.search.seeded_weights import seeded_plans
from cushion.certificates.search.task import Task
from cushion.data.dataset import Dataset

ROOT = Path(__file__).parent.parent
# Tests whose work must be quick: the slowest of their cases.
TESTS = {
    "tests/certificates/test_certificate_corpus.py::test_the_written_verdict_is_given": 10.0,
    "tests/certificates/test_limits.py::"
    "test_hostile_messages_are_refused_before_they_cost_anything": 1.0,
    "tests/certificates/test_limits.py::"
    "test_the_signs_of_sign_projections_share_a_limit_of_their_own": 1.0,
    "tests/certificates/test_limits.py::"
    "test_the_most_work_that_a_product_can_ask_for_is_below_its_bound": 2.0,
    "tests/certificates/test_pac_bayes_posterior.py::test_hostile_sizes_are_refused": 2.0,
    "tests/nets/test_models.py::test_a_million_empty_branches_are_refused": 10.0,
}


def run() -> dict[str, object]:
    """Each limit with what was taken; `held` is whether all were kept."""
    bare = _process("-c", "pass")
    search(Task(_stripes(50), _bits, SearchOptions(0.1 / 60)))  # loads what torch loads late
    taken: dict[str, tuple[float, float]] = {
        "import cushion": (_process("-c", "import cushion") - bare, 0.3),
        "cushion --help": (_process("-m", "cushion", "--help"), 0.5),
        "a search of 3 s": (_seconds(lambda: _search(0.0)), 9.0),
        "a search of 3 s with judgements of 0.3 s": (_seconds(lambda: _search(0.3)), 5.0),
        "a search of 1.5 s in a subspace": (_seconds(_subspace), 8.0),
        "half a second of polishing 200 classes": (_seconds(_polish), 5.0),
        "6 s of training a posterior, and its certificate": (_seconds(_posterior), 240.0),
    }
    slowest = _durations(list(TESTS))
    taken |= {name: (slowest[name], limit) for name, limit in TESTS.items()}
    found: dict[str, object] = {
        name.rpartition("::")[2]: {"seconds": seconds, "limit": limit}
        for name, (seconds, limit) in taken.items()
    }
    return {**found, "held": all(seconds < limit for seconds, limit in taken.values())}


def _process(*arguments: str) -> float:
    """The best of five."""
    command = [sys.executable, *arguments]
    return min(
        _seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)
    )


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _stripes(m: int) -> Dataset:
    """Three classes, told apart by which rows of the image are bright."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 120
    return Dataset("stripes", x, y, 3)


def _bits(net: IntegerNet) -> Decimal:
    return Decimal(encode(net).bits) / 10**4


def _search(judgement: float) -> None:
    def judge(net: IntegerNet) -> Decimal:
        time.sleep(judgement)
        return _bits(net)

    search(Task(_stripes(200), judge, SearchOptions(3 / 60)))


def _subspace() -> None:
    task = Task(_stripes(200), _bits, SearchOptions(1.5 / 60, method="subspace"))
    search_seeded(seeded_plans(task), task)


def _polish() -> None:
    """Trying all bias steps of so many classes would take minutes."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (4000, 1, 1, 8), dtype=np.uint8), rng.integers(0, 200, 4000)
    last = Dense(Grid(rng.integers(-3, 4, (200, 8)), 3), None, 0, 0)
    list(polish(IntegerNet((1, 1, 8), Bytes(0), (last,)), x, y, 0.5, seed=0))


def _posterior() -> None:
    certify(None, _stripes(2000), method="pac-bayes", minutes=0.1, seed=3)


class _Durations:
    """A pytest plugin: seconds of the slowest case of each test, which must pass."""

    def __init__(self) -> None:
        self.slowest: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            assert report.passed, report.nodeid
            name = report.nodeid.partition("[")[0]
            self.slowest[name] = max(self.slowest.get(name, 0.0), report.duration)


def _durations(tests: list[str]) -> dict[str, float]:
    found, threads = _Durations(), torch.get_num_threads()
    code = pytest.main(
        ["-q", "--no-header", "--no-summary", f"--rootdir={ROOT}", *(str(ROOT / t) for t in tests)],
        plugins=[found],
    )
    torch.set_num_threads(threads)  # tests keep to one
    assert code == pytest.ExitCode.OK
    return found.slowest


if __name__ == "__main__":
    print(run())

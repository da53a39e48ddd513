"""The verifier reads plain arrays, and judges their freshness as the library does."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import cushion_verify
from cushion.certificates import recheck as verifier
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.data import Dataset
from cushion.data.inputs import freshness_fault as known
from cushion.errors import BadInput, Malformed
from cushion_verify import Given, check
from cushion_verify import freshness_fault as judge

NET = IntegerNet((1, 1, 2), Bytes(0), (Dense(Grid(np.eye(2, dtype=np.int64), 1), None, 0, 0),))
X = np.arange(80, dtype=np.uint8).reshape(40, 1, 1, 2)
DATA = Dataset("rows", X, np.ones(40, dtype=np.int64), 2)


def test_plain_arrays_are_all_it_needs(tmp_path: Path) -> None:
    path = certify_net(NET, DATA, Decimal("0.05")).save(tmp_path / "c.cushion")
    assert check(path, Given(x=DATA.x, y=DATA.y)).ok
    assert check(path, Given(x=DATA.x.copy(order="F"), y=DATA.y.astype(np.uint8))).ok
    other = check(path, Given(x=DATA.x, y=1 - DATA.y))
    assert (other.ok, "fingerprints differ" in other.reason) == (False, True)
    fewer = check(path, Given(x=DATA.x[:-1], y=DATA.y[:-1]))
    assert "about 40 examples of rows, and 39 were given" in fewer.reason


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Given(x=DATA.x), "both x and y"),
        (Given(y=DATA.y), "both x and y"),
        (Given(x=DATA.x, y=DATA.y[:-1]), "for each of 40 rows"),
        (Given(x=DATA.x, y=DATA.y - 2), "from 0 on"),
        (Given(x=DATA.x, y=DATA.y * 1.0), "a class"),
        (Given(x=DATA.x[:0], y=DATA.y[:0]), "at least one"),
        (Given(x=DATA.x, y=DATA.y, holdout_x=DATA.x), "both holdout_x and holdout_y"),
        (Given(x=DATA.x, y=DATA.y, unlabelled=DATA.x), "says nothing about a net f"),
    ],
)
def test_arrays_that_are_no_examples_are_refused(tmp_path: Path, given: Given, words: str) -> None:
    path = certify_net(NET, DATA, Decimal("0.05")).save(tmp_path / "c.cushion")
    with pytest.raises(cushion_verify.BadInput, match=words):
        check(path, given)


def test_its_refusals_become_those_of_the_library(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        verifier.verify(tmp_path / "none", None)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(Malformed, match="not a certificate"):
        verifier.verify(tmp_path / "empty", None)


@settings(max_examples=200, deadline=None)
@drawn(st.lists(st.integers(0, 6), max_size=9), st.lists(st.integers(0, 6), max_size=9))
def test_freshness_is_judged_alike_twice(rows: list[int], sample: list[int]) -> None:
    a, b = (np.array(part, dtype=np.uint8).reshape(-1, 1) for part in (rows, sample))
    assert bool(judge(a, b, None)) == bool(known(a, b))
    for fault in (judge, known):
        assert "not of the kind" in fault(a, b.astype(np.float32), None)

"""The verifier reads plain arrays, and judges their freshness as the library does."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cushion import verifier
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.errors import BadInput as FormatBadInput
from cushion.certificates.format.errors import Malformed as FormatMalformed
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.data import Dataset
from cushion.data.inputs import freshness_fault as known
from cushion.errors import BadInput, Malformed
from cushion_verify import freshness_fault as judge

NET = IntegerNet((1, 1, 2), Bytes(0), (Dense(Grid(np.eye(2, dtype=np.int64), 1), None, 0, 0),))
X = np.arange(80, dtype=np.uint8).reshape(40, 1, 1, 2)
DATA = Dataset("rows", X, np.ones(40, dtype=np.int64), 2)


def test_any_object_with_arrays_will_do(tmp_path: Path) -> None:
    path = certify_net(NET, DATA, Decimal("0.05")).save(tmp_path / "c.cushion")
    plain = SimpleNamespace(name="mine", x=DATA.x, y=DATA.y, hashed=DATA.hashed)
    assert verifier.verify(path, plain).ok
    other = SimpleNamespace(name="mine", x=DATA.x, y=DATA.y, hashed=lambda: "0" * 64)
    assert "fingerprints differ" in verifier.verify(path, other).reason
    fewer = SimpleNamespace(name="mine", x=DATA.x[:-1], y=DATA.y[:-1], hashed=DATA.hashed)
    assert "but mine has 39" in verifier.verify(path, fewer).reason


def test_its_refusals_are_those_of_the_library(tmp_path: Path) -> None:
    assert (FormatBadInput, FormatMalformed) == (BadInput, Malformed)
    with pytest.raises(BadInput, match="cannot be read"):
        verifier.verify(tmp_path / "none", None)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(Malformed, match="not a certificate"):
        verifier.verify(tmp_path / "empty", None)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=9), st.lists(st.integers(0, 6), max_size=9))
def test_freshness_is_judged_alike_twice(rows: list[int], sample: list[int]) -> None:
    a, b = (np.array(part, dtype=np.uint8).reshape(-1, 1) for part in (rows, sample))
    assert bool(judge(a, b, None)) == bool(known(a, b))
    assert judge(a, b.astype(np.float32), None) == ""

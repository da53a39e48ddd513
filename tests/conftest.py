"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.pop("COLUMNS", None)  # tables are as wide as into a pipe, whoever started the tests

import pytest
import torch  # after the line above, which torch reads when it is loaded
from tests.cases import Layer
from tests.clock import Clock, own_clock

from cushion.nets.operators import Operator

# Several test processes share the cores: more threads each would only make them wait for one
# another.
torch.set_num_threads(1)


@pytest.fixture
def operator(request: pytest.FixtureRequest) -> Operator:
    """What `tests.cases.every` names: an operator, or the layer of a case that has one."""
    item: Operator | Layer = request.param
    return item.operator() if isinstance(item, Layer) else item


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A clock that only its readers and the test move: nothing leans on the machine's speed."""
    with own_clock() as found:
        yield found

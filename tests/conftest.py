"""Settings and fixtures that every test shares."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.pop("COLUMNS", None)  # tables are as wide as into a pipe, whoever started the tests

import pytest
import torch  # after the line above, which torch reads when it is loaded
from tests.cases import Layer
from tests.clock import Clock, own_clock

from cushion.data import registered
from cushion.data.store import root
from cushion.nets.operators import Operator

# Several test processes share the cores: more threads each would only make them wait for one
# another.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _looks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where fixtures that several tests share remember held-out rows."""
    folder = tmp_path_factory.mktemp("looks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registered, "_folder", _or_chosen(folder))
        yield folder


@pytest.fixture(autouse=True)
def _first_uses_of_this_test(
    _looks: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered of held-out rows is not that of other tests, nor of who runs them."""
    own = _looks / hashlib.sha256(request.node.nodeid.encode()).hexdigest()
    monkeypatch.setattr(registered, "_folder", _or_chosen(own))


def _or_chosen(folder: Path) -> Callable[[], Path]:
    """This folder, but where a test sets another store."""
    return lambda: root() / "looks" if "CUSHION_DATA" in os.environ else folder


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

"""A device without float64, as MPS is: nets answer there, and what needs float64 goes home."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.elsewhere import PLACE, Elsewhere, ElsewhereTensor, moved, narrow
from tests.nets.test_elsewhere import DATA, QUICK, make

import cushion
from cushion.certificates.answers import answer
from cushion.errors import Remark
from cushion.nets import devices
from cushion.nets.devices import with_float64
from cushion.nets.hooked.net import HookedNet
from cushion.training.epochs import evaluate

KINDS = ["dense", "convolution"]


@pytest.fixture(autouse=True)
def mps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    monkeypatch.setattr(devices, "_NARROW", frozenset({PLACE.type}))
    with Elsewhere(), narrow():
        yield
    torch.__future__.set_overwrite_module_params_on_conversion(before)


def test_the_device_refuses_float64() -> None:
    there = ElsewhereTensor(torch.ones(2))
    assert there.cpu().double().dtype == torch.float64
    wide = torch.zeros(2, dtype=torch.float64, device=PLACE)
    mixed, summed = (lambda: torch.add(there, wide)), (lambda: there.sum(0, dtype=torch.float64))
    for wrong in (there.double, mixed, summed):
        with pytest.raises(TypeError, match="meta does not support"):
            wrong()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_evaluation_stay_there(kind: str) -> None:
    net = make(kind)
    there = moved(net)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "META knows", Remark)
        first, second = answer(net, DATA.x), answer(there, DATA.x)
        assert evaluate(there, DATA, PLACE) == evaluate(net, DATA)
        found = cushion.measure(there, DATA, only="margins").to_json()
    assert np.array_equal(first.classes, second.classes)
    assert np.array_equal(first.gaps, second.gaps)
    assert found == cushion.measure(net, DATA, only="margins").to_json()


@pytest.mark.parametrize("family", ["paths", "sharpness", "conditions", "stability"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_traced_net_is_held_on_the_cpu_and_it_is_said(kind: str, family: str) -> None:
    net = make(kind)
    there = moved(net)
    how: dict[str, Any] = {"only": family, "way": "trace", "spectra": False, **QUICK}
    with pytest.warns(Remark, match="META knows no float64, so what looks inside") as said:
        found = cushion.measure(there, DATA, **how).to_json()
    assert sum("META" in str(one.message) for one in said) == 1
    assert found == cushion.measure(net, DATA, **how).to_json()
    assert all(isinstance(one, ElsewhereTensor) for one in there.parameters())


def test_bounds_and_compressors_work_too() -> None:
    net = make("dense")
    few = cushion.BoundOptions(noisy_draws=8, **QUICK)
    with pytest.warns(Remark, match="knows no float64"):
        found = [cushion.bounds(one, DATA, options=few).to_json() for one in (moved(net), net)]
    assert found[0] == found[1]
    small = [cushion.compress(one, DATA, method="low-rank", k=1) for one in (moved(net), net)]
    assert small[0].summary.to_json() == small[1].summary.to_json()


def test_hooks_see_a_copy_at_home() -> None:
    net = make("convolution")
    there = moved(net)
    with pytest.warns(Remark, match="knows no float64"):
        home = with_float64(there)
    x = torch.from_numpy(DATA.x[:2])
    seen = HookedNet(home, x)
    assert str(seen.device) == "cpu"
    assert torch.allclose(seen.forward(x), net(x))
    assert with_float64(net) is net
    assert all(isinstance(one, ElsewhereTensor) for one in there.parameters())

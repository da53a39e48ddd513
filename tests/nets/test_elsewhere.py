"""Everything follows the net to its device: what is computed there is what the CPU computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.elsewhere import PLACE, Elsewhere, ElsewhereTensor, moved
from torch import nn

import cushion
from cushion.certificates.answers import answer
from cushion.training.epochs import evaluate

RANDOM = np.random.default_rng(0)
DATA = cushion.Dataset(
    "d", RANDOM.random((24, 1, 6, 6), dtype=np.float32), np.arange(24, dtype=np.int64) % 3, 3
)
FAMILIES = ("margins", "norms", "paths", "sharpness", "conditions", "stability", "tails")


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    # as for every tensor that is no plain one: .double() makes new parameters
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    with Elsewhere():
        yield
    torch.__future__.set_overwrite_module_params_on_conversion(before)


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "dense":
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    convolution, norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
    layers = convolution, norm, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    return nn.Sequential(*layers).eval()


def test_the_other_device_refuses_to_mix_as_a_card_does() -> None:
    here, there = torch.ones(2), ElsewhereTensor(torch.ones(2))
    assert (there.device, (there + 1).device, (there * torch.tensor(2.0)).device) == (PLACE,) * 3
    assert torch.zeros(2, device=PLACE).add(there).cpu().tolist() == [1.0, 1.0]
    for wrong in (lambda: here + there, lambda: there @ here, lambda: torch.cat([here, there])):
        with pytest.raises(RuntimeError, match="on meta and on the CPU"):
            wrong()
    with pytest.raises((RuntimeError, TypeError)):
        there.numpy()


# enough of every kind of draw to follow it
QUICK: dict[str, Any] = {
    "stability": cushion.StabilityOptions(examples=4, probes=2, draws=1, attenuation_draws=1),
    "sharpness": cushion.SharpnessOptions(draws=2, ascent_steps=2, alphas=(0.001, 0.01)),
    "conditions": cushion.ConditionOptions(examples=4, probes=2),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["dense", "convolution"])
def test_measures_follow_the_net(kind: str, family: str) -> None:
    net = make(kind)
    there = moved(net)
    options: dict[str, Any] = {"only": family, "spectra": family == "spectra", **QUICK}
    found = cushion.measure(there, DATA, **options).to_json()
    assert found == cushion.measure(net, DATA, **options).to_json()
    assert all(isinstance(one, ElsewhereTensor) for one in there.parameters())


@pytest.mark.parametrize("kind", ["dense", "convolution"])
def test_bounds_follow_the_net(kind: str) -> None:
    net = make(kind)
    few = cushion.BoundOptions(noisy_draws=8, **QUICK)
    found = [cushion.bounds(one, DATA, options=few).to_json() for one in (moved(net), net)]
    assert found[0] == found[1]


@pytest.mark.parametrize("method", ["low-rank", "magnitude", "heavy-tail"])
def test_compress_takes_a_net_from_anywhere_and_leaves_it_there(method: str) -> None:
    net = make("dense")
    there = moved(net)
    options: dict[str, Any] = {"method": method} | ({"k": 1} if method == "low-rank" else {})
    found = cushion.compress(there, DATA, **options).summary.to_json()
    assert found == cushion.compress(net, DATA, **options).summary.to_json()
    assert all(isinstance(one, ElsewhereTensor) for one in there.parameters())


def test_answers_and_evaluation_follow_the_net() -> None:
    net = make("convolution")
    there = moved(net)
    first, second = answer(net, DATA.x), answer(there, DATA.x)
    assert first.net_fingerprint == second.net_fingerprint
    assert np.array_equal(first.classes, second.classes)
    assert evaluate(there, DATA, PLACE) == evaluate(net, DATA)

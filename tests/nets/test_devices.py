"""Names of devices, checked against what a machine has; a module is never moved, only copied."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cushion.errors import BadInput
from cushion.nets.devices import find_device, placed


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CUDA cards, of which the second is the current one, and no MPS."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No accelerator."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:1"])
def test_what_is_there_is_found(name: str) -> None:
    assert find_device(name) == torch.device(name)
    assert find_device(torch.device(name)) == torch.device(name)


@pytest.mark.parametrize(
    ("cuda", "mps", "found"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_is_the_fastest_that_is_there(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, found: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert find_device("auto") == torch.device(found)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gpu", "device 'gpu' is not known; use cpu, cuda, "),
        ("", "device '' is not known"),
        ("cuda:x", "device 'cuda:x' is not known"),
        ("meta", "device 'meta' is not supported; use cpu, cuda, "),
        ("cuda", "device 'cuda' is not available on this machine; use `device` = cpu"),
        ("mps", "device 'mps' is not available on this machine; use `device` = cpu"),
        ("cpu:3", "device 'cpu:3' is not there, the last one is cpu:0"),
    ],
)
def test_what_is_not_there_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_device(name)
    assert str(caught.value).startswith(sentence)


@pytest.mark.usefixtures("machine")
def test_a_card_too_many_is_named_with_the_last_one() -> None:
    with pytest.raises(BadInput, match="'cuda:2' is not there, the last one is cuda:1"):
        find_device("cuda:2")


def test_a_module_that_is_there_is_not_copied() -> None:
    net = nn.Linear(2, 2)
    assert placed(net, None) is net
    assert placed(net, "cpu") is net
    assert placed(nn.ReLU(), "cpu") is not None


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_module_elsewhere_is_copied_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    moved: list[tuple[nn.Module, torch.device]] = []

    def to(self: nn.Module, device: torch.device) -> nn.Module:
        moved.append((self, device))
        return self

    monkeypatch.setattr(nn.Module, "to", to)
    net = nn.Linear(2, 2)
    found = placed(net, name)
    assert found is not net
    assert moved == [(found, torch.device(name))]
    assert torch.equal(found.weight, net.weight)
    assert found.weight is not net.weight

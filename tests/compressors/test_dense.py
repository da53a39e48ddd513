"""A compressed net for torch and other programs: an nn.Module, and files without cushion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.cases import CASES
from tests.compressed_cases import compressed, network
from torch import nn

import cushion
from cushion.compressors.dense import DenseNet
from cushion.errors import BadInput


@pytest.mark.parametrize("way", ["accuracy", "signs", "located"])
def test_the_module_answers_as_the_file_does(way: str, tmp_path: Path) -> None:
    found = compressed(network("conv"), way)
    module = cushion.load_compressed(found.save(tmp_path / "net"))
    assert isinstance(module, nn.Module)
    assert not module.training
    x = torch.randn(5, *found.network.input_shape)
    with torch.no_grad():
        assert torch.equal(module(x), found.network.forward(x))
    assert module.compressed.stored.bits == found.stored.bits
    assert torch.equal(module.double()(x.double()).float().argmax(1), module(x.double()).argmax(1))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_net_becomes_a_module_with_names(case: object) -> None:
    net = cushion.trace(case.module(), case.input_shape)  # type: ignore[attr-defined]
    module = DenseNet(net).eval()
    x = case.inputs()  # type: ignore[attr-defined]
    with torch.no_grad():
        assert torch.equal(module(x), net.forward(x))
    assert sum(part.numel() for part in module.parameters()) == net.parameters
    assert len(module.state_dict()) == len(list(module.parameters()))


def test_it_trains_on_and_names_its_layers() -> None:
    net = cushion.trace(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), (4,))
    module = DenseNet(net)
    assert list(module.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
    optimiser = torch.optim.SGD(module.parameters(), 0.5)
    losses = []
    for _ in range(30):
        loss = nn.functional.cross_entropy(module(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert torch.equal(module.network.forward(x), module(x).detach())
    table = cushion.measure(module, (x.numpy(), y.numpy()), only="norms")
    assert table.layers[0].name == "0"


class Twice(nn.Module):
    """A layer that is called twice, and names that a module has itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 3)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.inner["a"]
        found: torch.Tensor = self.inner["b"](a(a(x).relu()).relu())
        return found


def test_a_layer_that_is_called_twice_is_two() -> None:
    module = DenseNet(cushion.trace(Twice(), (4,)))
    names = list(module.state_dict())
    assert len(names) == len(set(names)) == 6
    x = torch.randn(3, 4)
    assert torch.equal(module(x), module.network.forward(x))


class Named(nn.Module):
    """Names that a module, or a file's module, has itself."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.compressed = nn.Linear(4, 4), nn.Linear(4, 4)
        self.fc = nn.Sequential(nn.Linear(4, 4))
        self.weight = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.compressed(self.network(x).relu()).relu()
        found: torch.Tensor = self.weight(self.fc(x).relu())
        return found


def test_names_that_a_module_has_itself_get_others(tmp_path: Path) -> None:
    net = cushion.trace(Named(), (4,))
    nodes = [replace(node, name=node.name.replace("fc.0", "fc.weight")) for node in net.nodes]
    nodes[1] = replace(nodes[1], name="training")
    hostile = type(net)(tuple(nodes))
    x = torch.randn(5, 4)
    for one in (net, hostile):
        module = DenseNet(one)
        assert torch.equal(module(x), one.forward(x))
        again = DenseNet(one)
        again.load_state_dict(module.state_dict())
        assert len(module.state_dict()) == 8


def test_a_module_of_a_file_is_a_net_for_every_verb(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    found = cushion.compress(net, data, epochs=0)
    module = cushion.load_compressed(found.save(tmp_path / "net"))
    assert cushion.measure(module, data).layers
    assert cushion.bounds(module, data).bounds
    again = cushion.compress(module, data, epochs=0)
    assert again.summary.parameters_before == sum(part.numel() for part in module.parameters())
    assert cushion.compress(module, data, method="low-rank", k="50%").summary.bits
    assert all(part.requires_grad for part in module.parameters())
    assert "numbers" in repr(found.net)
    assert len(repr(found.net)) < 80


def test_files_for_others(tmp_path: Path) -> None:
    net = network("conv")
    module = DenseNet(net).eval()
    x = torch.randn(6, *net.input_shape)
    weights = load_file(cushion.export(module, "safetensors", tmp_path / "w.safetensors"))
    assert {name: part.shape for name, part in weights.items()} == {
        name: part.shape for name, part in module.state_dict().items()
    }
    program = torch.export.load(cushion.export(module, "torch", tmp_path / "p.pt2")).module()
    with torch.no_grad():
        assert torch.allclose(program(x), module(x), atol=1e-6)
        assert torch.allclose(program(x[:1]), module(x[:1]), atol=1e-6)


def test_onnx_runs_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    module = DenseNet(network("conv")).eval()
    x = torch.randn(6, *module.network.input_shape)
    session = runtime.InferenceSession(str(cushion.export(module, "onnx", tmp_path / "n.onnx")))
    (scores,) = session.run(None, {"x": x.numpy()})
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(scores), module(x), atol=1e-5)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = DenseNet(network("conv"))
    with pytest.raises(BadInput, match="`to` = pickle must be safetensors, torch or onnx"):
        cushion.export(module, "pickle", tmp_path / "x")
    with pytest.raises(BadInput, match=r"must end in \.pt2"):
        cushion.export(module, "torch", tmp_path / "x.pt")
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(BadInput, match=r"`to` = onnx needs onnx"):
        cushion.export(module, "onnx", tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())

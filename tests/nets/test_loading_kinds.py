"""Every kind of file that people keep a net in: read, or refused with what to do instead."""

from __future__ import annotations

import argparse
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cushion.errors import BadInput, CushionError, Malformed
from cushion.nets.classifier import Logits, answers_only
from cushion.nets.identity import numbers_of
from cushion.nets.loading.states import fit_names
from cushion.nets.loading.weights import load_net

FILE = """
from sklearn.linear_model import LogisticRegression
from torch import nn

raise_if_imported = {raises}

class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x):
        return {{"logits": self.fc(x)}}

class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()

class Options: ...

def build():
    return nn.DataParallel(Net()).double()

def of_width(width): ...

def _hidden(): ...

def fitted():
    return LogisticRegression().fit([[0.0] * 4, [1.0] * 4, [2.0] * 4], [0, 1, 2])

model = Net()
threshold = 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(raises=0))
    return path


def refusal(reference: object, **options: Any) -> str:
    with pytest.raises(CushionError) as caught:
        load_net(str(reference), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_without_a_name_says_what_it_offers_and_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(raises="1 / 0"))
    said = refusal(path)
    assert f"names no factory; write {path}:build (it also has model, Net, fitted)" in said
    path.write_text("def net(:")
    assert "write" in refusal(path)
    assert ":FUNCTION, a function without arguments" in refusal(path)


def test_a_name_may_be_a_function_a_class_or_the_net_itself(mine: Path) -> None:
    for name in ("build", "Net", "model"):
        net = load_net(f"{mine}:{name}", input_shape=(4,), classes=3)
        assert isinstance(net.module, Logits)
        assert not net.module.training
        assert net.module(torch.zeros(2, 4)).shape == (2, 3)
    found = load_net(f"{mine}:fitted", input_shape=(4,), classes=3).module
    assert answers_only(found)
    assert found(torch.full((1, 4), 2.0)).argmax() == 2
    assert "mine.py:Wide needs width; write a function without arguments" in refusal(f"{mine}:Wide")
    assert f"write {mine}:build" in refusal(f"{mine}:nothing")
    assert "is fitted by scikit-learn" in refusal(f"{mine}:fitted", weights="w.pt")


WEIGHTS = {"fc.weight": torch.ones(3, 4), "fc.bias": torch.zeros(3)}


def prefixed(*prefixes: str) -> dict[str, torch.Tensor]:
    return {"".join(prefixes) + name: tensor for name, tensor in WEIGHTS.items()}


@pytest.mark.parametrize(
    "content",
    [
        WEIGHTS,
        {"epoch": 3, "model": WEIGHTS, "optimizer": {"state": {}}},
        {"model_state_dict": prefixed("module."), "loss": 0.5},
        {"net": prefixed("module.", "_orig_mod.")},
        {"state": 1, "model": {"state_dict": WEIGHTS, "config": {"width": 3}}},
        # Lightning: the net under an attribute, a loss with weights beside it
        {
            "state_dict": {**prefixed("model."), "loss.weight": torch.ones(2)},
            "hyper_parameters": {"lr": 0.1, "sizes": [1, 2], "name": "x"},
            "pytorch-lightning_version": "2.0",
        },
        {
            "state_dict": {
                "model.fc._orig_mod.weight": torch.ones(3, 4),
                "model.fc.bias": torch.zeros(3),
            }
        },
    ],
)
@pytest.mark.parametrize("name", ["w.pt", "w.ckpt"])
def test_checkpoints_are_read_under_the_nets_own_names(
    mine: Path, tmp_path: Path, content: dict[str, Any], name: str
) -> None:
    torch.save(content, tmp_path / name)
    found = load_net(f"{mine}:Net", weights=tmp_path / name).module.state_dict()
    assert all(torch.equal(found[key], WEIGHTS[key]) for key in WEIGHTS)


def test_a_prefix_is_taken_off_only_where_everything_then_fits() -> None:
    odd = {"model.a": torch.ones(1), "b": torch.ones(1)}
    assert fit_names(odd, {"a", "b"}).keys() == odd.keys()
    assert fit_names(odd, {"a"}).keys() == {"a"}
    net = {"model.a": torch.ones(1)}  # the net's own name begins so
    assert fit_names(net, {"model.a"}).keys() == {"model.a"}


def test_checkpoints_that_hold_no_weights_or_objects_say_so(mine: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.ckpt"
    torch.save({"epoch": 3, "optimizer": {"lr": 1.0}}, path)
    assert "holds no state dict; it has epoch, optimizer" in refusal(f"{mine}:Net", weights=path)
    torch.save({"state_dict": WEIGHTS, "hyper_parameters": argparse.Namespace(lr=1)}, path)
    said = refusal(f"{mine}:Net", weights=path)
    assert "it holds argparse.Namespace" in said
    assert "torch.save(net.state_dict(), ...)" in said


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("name", ["net.pt", "net.ts"])
def test_torchscript_needs_trust_and_gives_answers(tmp_path: Path, name: str) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).eval()
    torch.jit.save(torch.jit.script(net), tmp_path / name)
    said = refusal(tmp_path / name)
    assert "is a TorchScript program, whose loading can run code from it; add `trust`" in said
    found = load_net(tmp_path / name, trust=True, input_shape=(1, 2, 2), classes=3).module
    x = torch.rand(5, 1, 2, 2)
    assert answers_only(found)
    assert torch.allclose(found(x), net(x))
    (tmp_path / "noise.ts").write_bytes(b"noise")
    assert "is not a TorchScript program" in refusal(tmp_path / "noise.ts", trust=True)


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.pickle", "m.skops"])
def test_pickles_are_never_opened(tmp_path: Path, name: str) -> None:
    said = refusal(tmp_path / name)  # it is not even looked for
    assert "never read here; pass the fitted object itself in Python" in said
    assert "is a net of another library; export it to .onnx" in refusal(tmp_path / "m.keras")


def test_onnx_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"noise")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert 'needs onnxruntime: pip install "cushion[onnx]"' in refusal(tmp_path / "net.onnx")
    assert "none.onnx does not exist" in refusal(tmp_path / "none.onnx")


class Session:
    """onnxruntime in miniature: one input of fixed or free rows, its scores and a label out."""

    rows: Any = "N"
    kind = "tensor(float)"

    def __init__(self, path: str, options: object, providers: list[str]) -> None:
        if Path(path).read_bytes() == b"noise":
            raise RuntimeError("INVALID_PROTOBUF\nof many lines")

    def get_inputs(self) -> list[Any]:
        return [types.SimpleNamespace(name="x", type=self.kind, shape=[self.rows, 4])]

    def get_outputs(self) -> list[Any]:
        return [types.SimpleNamespace(name=name) for name in ("label", "probabilities")]

    def run(self, names: None, feed: dict[str, Any]) -> list[Any]:
        x = feed["x"]
        assert self.rows in ("N", len(x))
        return [x.argmax(1), np.cumsum(x, axis=1)[:, :3]]


@pytest.mark.parametrize("rows", ["N", 3])
def test_an_onnx_net_gives_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    library = types.SimpleNamespace(SessionOptions=types.SimpleNamespace, InferenceSession=Session)
    monkeypatch.setitem(sys.modules, "onnxruntime", library)
    monkeypatch.setattr(Session, "rows", rows)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"a net")
    net = load_net(path, input_shape=(4,), classes=3).module
    x = torch.rand(7, 4)
    assert answers_only(net)
    assert torch.allclose(net(x), x.cumsum(1)[:, :3])
    assert bytes(numbers_of(net)["onnx"].numpy()) == b"a net"
    for name in ("w.data", "w" * 200):  # weights in a file of their own, by a short or a long name
        size = bytes([len(name)]) if len(name) < 128 else bytes([len(name) % 128 + 128, 1])
        path.write_bytes(b"a \x0a\x08location\x12" + size + name.encode() + b" net")
        (tmp_path / name).write_bytes(b"weights")
        found = numbers_of(load_net(path).module)
        assert bytes(found[f"onnx.{name}"].numpy()) == b"weights"
    path.write_bytes(b"noise")
    with pytest.raises(Malformed, match=r"is not an \.onnx net that onnxruntime reads: INVALID"):
        load_net(path)
    monkeypatch.setattr(Session, "kind", "tensor(string)")
    path.write_bytes(b"a net")
    assert "its input x is tensor(string)" in refusal(path)


def test_constants_stand_before_the_net(mine: Path) -> None:
    plain = load_net(f"{mine}:build", input_shape=(4,)).module
    net = load_net(f"{mine}:build", input_shape=(4,), normalise=(0.5, [1, 2, 3, 4])).module
    x = torch.rand(3, 4)
    assert torch.allclose(net(x), plain((x - 0.5) / torch.tensor([1.0, 2, 3, 4])))
    with pytest.raises(BadInput, match="named parts"):
        load_net(f"{mine}:build", rows={"a": x}, normalise=(0.5, 1))


def test_remarks_say_how_a_net_is_read(mine: Path) -> None:
    assert load_net(f"{mine}:Net", input_shape=(4,)).remarks == ()
    mine.write_text("from torch import nn\ndef net(): return nn.Linear(4, 1)")
    assert "(0, z)" in load_net(f"{mine}:net", input_shape=(4,), classes=2).remarks[0]
    assert "gives 2 scores" in refusal(f"{mine}:net", input_shape=(4,), classes=3)
    assert "reads 4 numbers" in refusal(f"{mine}:net", input_shape=(5,))


def test_an_archive_that_is_no_program_stays_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", b"")
    assert "is not a plain state dict (it is damaged" in refusal(tmp_path / "a.pt")

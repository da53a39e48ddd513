"""The fingerprint of what a net computes: another for another forward, the same for two loads."""

from __future__ import annotations

import copy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.certificates.answers import fingerprint_net
from cushion.nets.classifier import as_module, normalised
from cushion.nets.loading.factories import load_code
from cushion.nets.loading.programs import FixedBatch, plain_module
from cushion.nets.program import program_fingerprint

TWICE = 2.0


class Small(nn.Module):
    """Two layers; all that the forward does beside them can be chosen."""

    def __init__(
        self, act: str = "relu", scale: float = 1.5, swap: bool = False, shift: float = 2.0
    ) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.act, self.scale, self.swap = act, scale, swap
        self.shift = torch.tensor(shift)  # neither a parameter nor a buffer
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        first, second = (self.b, self.a) if self.swap else (self.a, self.b)
        x = getattr(F, self.act)(first(x)) * self.scale + self.shift
        return self.head(second(x))  # type: ignore[no-any-return]


def doubled(x: Tensor) -> Tensor:
    return x * TWICE


class Deciding(Small):
    """No trace follows it: it decides by values."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return super().forward(x)
        return self.otherwise(doubled(x))

    def otherwise(self, x: Tensor) -> Tensor:
        return self.head(x)  # type: ignore[no-any-return]


def alike(made: nn.Module, like: nn.Module) -> nn.Module:
    """With the parameters of another."""
    made.load_state_dict(like.state_dict())
    return made


CHANGES: list[dict[str, Any]] = [{"act": "gelu"}, {"scale": 1.25}, {"swap": True}, {"shift": 2.5}]


@pytest.mark.parametrize("kind", [Small, Deciding])
@pytest.mark.parametrize("change", CHANGES)
def test_another_program_with_the_same_parameters_has_another_fingerprint(
    kind: type[Small], change: dict[str, Any]
) -> None:
    net = kind()
    other = alike(kind(**change), net)
    same = fingerprint_net(net) == fingerprint_net(other)
    assert same == ("shift" not in change), "a tensor is a number, wherever it stands"
    found = program_fingerprint(net)
    assert found is not None
    assert program_fingerprint(other) != found
    assert program_fingerprint(kind()) == found, "other weights are the same program"


def test_layers_of_torch_count_with_what_they_were_made_with() -> None:
    def net(*, activation: nn.Module, eps: float = 1e-5, stride: int = 1) -> nn.Module:
        conv = nn.Conv2d(1, 4, 3, stride=stride)
        return nn.Sequential(
            conv, nn.BatchNorm2d(4, eps), activation, nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )

    nets = [
        net(activation=nn.ReLU()),
        net(activation=nn.GELU()),
        net(activation=nn.GELU(approximate="tanh")),
        net(activation=nn.LeakyReLU(0.1)),
        net(activation=nn.LeakyReLU(0.2)),
        net(activation=nn.ReLU(), eps=1e-3),
        net(activation=nn.ReLU(), stride=2),
    ]
    assert len({program_fingerprint(one) for one in nets}) == len(nets)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_counts_with_its_heads(heads: int) -> None:
    def net(heads: int) -> nn.Module:
        return nn.TransformerEncoderLayer(8, heads, 16, batch_first=True)

    assert program_fingerprint(net(heads)) == program_fingerprint(net(heads))
    assert program_fingerprint(net(heads)) != program_fingerprint(net(8))


def test_what_a_forward_runs_counts_where_it_cannot_be_traced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A constant of the file, a function beside it, a method, a method of the class before."""
    here, found = sys.modules[__name__], [program_fingerprint(Deciding())]
    for holder, name, value in (
        (here, "TWICE", 3.0),
        (here, "doubled", lambda x: x + 1),
        (Deciding, "otherwise", lambda self, x: self.head(-x)),
        (Small, "forward", lambda self, x: self.head(x)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, value)
            found.append(program_fingerprint(Deciding()))
    assert None not in found
    assert len(set(found)) == len(found)


def test_a_forward_put_on_one_module_and_hooks_count() -> None:
    plain = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    found = {program_fingerprint(plain)}
    patched = copy.deepcopy(plain)
    patched[1].forward = types.MethodType(lambda self, x: x.abs(), patched[1])  # type: ignore
    found.add(program_fingerprint(patched))
    for at in (None, 0, 2):
        hooked = copy.deepcopy(plain)
        part = hooked if at is None else hooked[at]
        part.register_forward_hook(lambda module, args, out: -out)
        found.add(program_fingerprint(hooked))
        before = copy.deepcopy(plain)
        part = before if at is None else before[at]
        part.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        found.add(program_fingerprint(before))
    assert len(found) == 8


def test_asking_changes_nothing() -> None:
    net = Small().train()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    kept = set(vars(net))
    drawn = torch.get_rng_state()
    eval_mode = program_fingerprint(net)
    assert program_fingerprint(net.eval()) == eval_mode, "always in evaluation mode"
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert set(vars(net)) == kept
    assert torch.equal(torch.get_rng_state(), drawn)
    dropping = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)).train()
    program_fingerprint(dropping)
    assert dropping[1].training


def test_how_a_net_is_wrapped_or_called_is_no_part_of_it() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))
    found = program_fingerprint(net)
    assert program_fingerprint(torch.compile(net)) == found
    assert program_fingerprint(nn.DataParallel(net)) == found
    assert program_fingerprint(as_module(net.double(), torch.zeros(2, 6))) == found
    behind = normalised(net, 0.5, 2.0, (6,))
    assert program_fingerprint(behind) not in (found, None)
    assert program_fingerprint(behind) == program_fingerprint(normalised(net, 0.1, 1.0, (6,)))


FILE = """
import torch
from torch import nn

SLOPE = 0.1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 6), nn.Linear(6, 3)
        self.seen = {"b": 1, "a": {3, 1, 2}}

    def forward(self, x):
        x = nn.functional.leaky_relu(self.body(x), SLOPE)
        DECIDE
        return self.head(x)
"""
PRINT = """
import sys
from pathlib import Path
from cushion.nets.loading.factories import load_code
from cushion.nets.program import program_fingerprint
print(*(program_fingerprint(load_code(Path(file)).Net()) for file in sys.argv[1:]))
"""


def test_two_processes_and_two_places_agree(tmp_path: Path) -> None:
    """A forward that is traced, and one that is read."""
    files = []
    for place in ("here", "elsewhere"):
        (tmp_path / place).mkdir()
        for name, decide in (("a", "pass"), ("b", "x = x if x.sum() > 0 else -x")):
            files.append(tmp_path / place / f"{place}-{name}.py")
            files[-1].write_text(FILE.replace("DECIDE", decide))
    here = [program_fingerprint(load_code(file).Net()) for file in files[:2]]
    command = [sys.executable, "-c", PRINT, *map(str, files[2:])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == here
    assert here[0] != here[1]


@pytest.mark.parametrize("how", ["script", "trace", "freeze"])
def test_programs_are_the_same_before_and_behind_a_file(tmp_path: Path, how: str) -> None:
    def program(net: nn.Module) -> Any:
        if how == "trace":
            return torch.jit.trace(net.eval(), torch.zeros(2, 6))
        made = torch.jit.script(net.eval())
        return torch.jit.freeze(made) if how == "freeze" else made

    layers = nn.Linear(6, 6), nn.Linear(6, 3)
    net, other = (
        program(nn.Sequential(layers[0], act, nn.Dropout(0.3), layers[1]))
        for act in (nn.LeakyReLU(0.1), nn.LeakyReLU(0.2))
    )
    net.save(tmp_path / "net.pt")
    loaded = [torch.jit.load(tmp_path / "net.pt") for _ in range(2)]  # names differ between loads
    assert len({program_fingerprint(one) for one in (net, *loaded)}) == 1
    assert program_fingerprint(other) != program_fingerprint(net)


class Scaled(nn.Module):
    def __init__(self, scale: float, flag: bool) -> None:
        super().__init__()
        self.head, self.scale, self.flag = nn.Linear(6, 3), scale, flag

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0) or self.flag:
            return self.head(x) * self.scale  # type: ignore[no-any-return]
        return self.head(x)  # type: ignore[no-any-return]


def test_numbers_that_a_script_was_made_with_count() -> None:
    made = [(1.0, True), (2.0, True), (2.0, False)]
    found = [program_fingerprint(torch.jit.script(Scaled(*one))) for one in made]
    assert len(set(found)) == 3
    assert program_fingerprint(torch.jit.script(Scaled(2.0, False))) == found[-1]


def test_exported_programs_and_those_of_one_batch_size() -> None:
    def exported(slope: float) -> nn.Module:
        net = nn.Sequential(nn.Linear(6, 6), nn.LeakyReLU(slope), nn.Linear(6, 3)).eval()
        return plain_module(torch.export.export(net, (torch.zeros(2, 6),)))

    for wrap in (lambda net: net, lambda net: FixedBatch(net, 2)):
        found = [program_fingerprint(wrap(exported(slope))) for slope in (0.1, 0.1, 0.2)]
        assert found[0] == found[1] != found[2]
        assert None not in found


def test_fitted_classifiers_are_their_class_and_parameters() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    made = [
        LogisticRegression(C=1.0),
        LogisticRegression(C=2.0),
        make_pipeline(StandardScaler(), LogisticRegression(C=1.0)),
        make_pipeline(StandardScaler(with_std=False), LogisticRegression(C=1.0)),
    ]
    found = [program_fingerprint(one.fit(x, y)) for one in made]
    assert len(set(found)) == 4
    assert None not in found
    assert program_fingerprint(LogisticRegression(C=1.0).fit(x[:30], y[:30])) == found[0]


def test_onnx_files_are_their_bytes(tmp_path: Path) -> None:
    from cushion.nets.onnx_net import OnnxNet

    nets = []
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
        net = OnnxNet.__new__(OnnxNet)  # onnxruntime is an extra
        nn.Module.__init__(net)
        net.files = {"onnx": tmp_path / name}
        nets.append(program_fingerprint(net))
    assert nets[0] == nets[1] != nets[2]


def test_code_without_source_has_no_fingerprint() -> None:
    space: dict[str, Any] = {"nn": nn, "__name__": "nowhere"}
    exec("class Net(nn.Module):\n def forward(self, x):\n  return x if x.sum() > 0 else -x", space)
    assert program_fingerprint(space["Net"]()) is None
    traced: dict[str, Any] = {"nn": nn, "__name__": "nowhere"}
    exec("class Net(nn.Module):\n def forward(self, x):\n  return -x", traced)
    assert program_fingerprint(traced["Net"]()) is not None, "a graph needs no source"


def test_a_net_that_holds_itself_does_not_hang() -> None:
    net = Deciding()
    loop: list[Any] = [net]
    loop.append(loop)
    net.loop = loop  # type: ignore[assignment]
    assert program_fingerprint(net) is None


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.head(x), 0.3, self.training)


def test_the_program_is_that_of_evaluation() -> None:
    assert program_fingerprint(Dropping().train()) == program_fingerprint(Dropping().eval())


def test_attributes_hooks_and_sets_of_a_net_that_is_read() -> None:
    def net(**own: Any) -> nn.Module:
        made = Deciding()
        vars(made).update(own)
        return made

    hooked = net()
    hooked.head.register_forward_hook(lambda module, args, out: -out)
    many = [{"kept": {1, 2}}, {"kept": {1, 3}}, {"kept": {"a": 1, "b": 2}}, {"kept": (1, 2)}]
    found = [program_fingerprint(one) for one in (net(), hooked, *(net(**own) for own in many))]
    assert len(set(found)) == 6
    assert None not in found
    assert program_fingerprint(net(kept={"b": 2, "a": 1})) == found[4], "in any order"
    assert program_fingerprint(net(kept={2, 1})) == found[2]

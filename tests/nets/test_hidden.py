"""Numbers that stand in no list of parameters: they are part of a net's fingerprint, and the code
around them of its program.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from tests.nets.hidden_cases import (
    HIDDEN,
    Asking,
    Listed,
    Named,
    Own,
    identity,
    layers,
)
from torch import Tensor, nn

from cushion.certificates.answers import answer, fingerprint_net
from cushion.nets.identity import numbers_of
from cushion.nets.loading.factories import load_code
from cushion.nets.program import program_fingerprint

X = np.random.default_rng(0).integers(0, 256, (20, 6), dtype=np.uint8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", HIDDEN)
def test_other_numbers_are_another_net_wherever_they_stand(how: str) -> None:
    made = HIDDEN[how]
    first, again, other = (identity(made(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert None not in first
    if how != "numbers of Python":  # plain values are of the program
        assert first[0] != other[0]


class Learned(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier as skorch and many people write it."""

    def __init__(self, net: nn.Module | None = None) -> None:
        self.net = net

    def fit(self, seed: int, act: type[nn.Module] = nn.ReLU) -> Learned:
        self.module_, self.classes_, self.n_features_in_ = layers(seed, act), np.arange(3), 6
        self.optimizer_ = torch.optim.Adam(self.module_.parameters())
        return self

    def predict_proba(self, x: Any) -> Any:
        return self.module_(torch.tensor(x).float()).softmax(1).detach().numpy()

    def predict(self, x: Any) -> Any:
        return self.predict_proba(x).argmax(1)


def test_a_net_inside_a_classifier_of_scikit_learn_counts() -> None:
    first, again, other, tanh = (
        identity(Learned().fit(*how)) for how in ((1,), (1,), (2,), (1, nn.Tanh))
    )
    assert first == again
    assert first[0] != other[0]
    assert (first[0], first[1] != tanh[1]) == (tanh[0], True)
    assert answer(Learned().fit(1), X).net_fingerprint == first[0]


@pytest.mark.parametrize("wrap", [Listed, Named, lambda net: Asking(lambda x: net(x))])
def test_what_hidden_modules_compute_is_part_of_the_program(
    wrap: Callable[[nn.Module], nn.Module],
) -> None:
    nets = [wrap(layers(0, act)) for act in (nn.ReLU, nn.Tanh)]
    assert fingerprint_net(nets[0]) == fingerprint_net(nets[1])
    found = [program_fingerprint(net) for net in nets]
    assert None not in found
    assert found[0] != found[1]
    assert program_fingerprint(wrap(layers(1))) == found[0], "other weights are the same program"


def test_what_methods_of_objects_compute_is_part_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = program_fingerprint(Asking(Own(0).__call__))
    monkeypatch.setattr(Own, "__call__", lambda self, x: x @ -self.matrix)
    assert program_fingerprint(Asking(Own(0).__call__)) not in (found, None)


def test_numbers_that_are_registered_stand_once_and_names_do_not_collide() -> None:
    net = Listed(layers(0))
    names = {name for name in numbers_of(net) if not name.startswith(".hidden.")}
    assert names == {"head.weight", "head.bias"}
    assert len(numbers_of(net)) == 2 + 4
    ordinary = layers(0)
    ordinary.same = [ordinary[0].weight, ordinary]  # type: ignore[assignment]
    assert set(numbers_of(ordinary)) == set(ordinary.state_dict())
    imitated = Listed(layers(1))
    hidden = next(name for name in numbers_of(imitated) if name.startswith("."))
    with pytest.raises(KeyError):
        imitated.register_buffer(hidden, torch.zeros(1))


class Child(nn.Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        self.above = [parent]
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x) if self.above[0].training else -self.last(x)  # type: ignore


def test_a_module_that_keeps_its_parent_is_the_net_it_is() -> None:
    parent = nn.Sequential()
    parent.append(Child(parent))
    assert set(numbers_of(parent)) == {"0.last.weight", "0.last.bias"}
    assert program_fingerprint(parent) is not None
    loop: list[Any] = []
    loop.append(loop)
    assert fingerprint_net(Asking(lambda x: loop[0]))


class Trained(Asking):
    """As training libraries leave a module: with much that its forward never names."""

    def __init__(self, ask: Any, seed: int) -> None:
        super().__init__(ask)
        self.trainer = types.SimpleNamespace(model=self, losses=[torch.rand(3)], net=layers(seed))
        self.optimisers = [torch.optim.Adam(self.trainer.net.parameters())]

    def training_step(self, x: Tensor) -> Tensor:
        return self.trainer.net(x)  # type: ignore[no-any-return]


def test_what_the_forward_does_not_name_is_no_part_of_it() -> None:
    assert identity(Trained(layers(0), 1)) == identity(Trained(layers(0), 2))
    assert fingerprint_net(Trained(layers(0), 1)) == fingerprint_net(Asking(layers(0)))


def test_of_an_installed_library_only_the_numbers_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "site-packages" / "library.py"
    file.parent.mkdir()
    file.write_text(LIBRARY)
    code = load_code(file)
    net, found = code.Net(), []
    for value in (1.0, 2.0):
        vars(code)["TABLE"] = {"a": torch.full((3,), value)}
        found.append(fingerprint_net(net))
        code.CACHE.kept = torch.full((3,), value)
        assert fingerprint_net(net) == found[-1], "nor does it matter what lies about"
    assert found[0] != found[1]


LIBRARY = """
import types
from torch import nn

CACHE, TABLE = types.SimpleNamespace(), {}


class Net(nn.Linear):
    def __init__(self):
        super().__init__(6, 3)

    def forward(self, x):
        CACHE.used = True
        return super().forward(x) + TABLE["a"]
"""
FILE = """
import torch
from torch import nn

KNOWN = {"b": torch.full((6, 3), 2.0), "a": {"z", "y", "x"}}


class Own:
    def __init__(self):
        self.parts, self.words = {2: torch.ones(3), 1: torch.zeros(3)}, {"p", "q", "r"}

    def __call__(self, x):
        return x @ KNOWN["b"] + self.parts[2] if "p" in self.words else x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.own, self.inner = Own(), [nn.Linear(3, 3)]

    def forward(self, x):
        return self.inner[0](self.own(x))
"""
PRINT = """
import sys
from pathlib import Path
from cushion.certificates.answers import fingerprint_net
from cushion.nets.loading.factories import load_code
from cushion.nets.program import program_fingerprint
net = load_code(Path(sys.argv[1])).Net()
print(fingerprint_net(net), program_fingerprint(net))
"""


def test_two_processes_two_places_and_a_copy_agree(tmp_path: Path) -> None:
    files = [tmp_path / name / f"{name}.py" for name in ("here", "elsewhere")]
    for file in files:
        file.parent.mkdir()
        file.write_text(FILE)
    net = load_code(files[0]).Net()
    here = identity(net)
    assert None not in here
    command = [sys.executable, "-c", PRINT, str(files[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == here
    assert identity(pickle.loads(pickle.dumps(net))) == here


def test_recurrent_layers_have_a_program() -> None:
    """Their weak references are of no module."""
    found = [program_fingerprint(nn.LSTM(4, size)) for size in (5, 5, 6)]
    assert found[0] == found[1] != found[2]
    assert None not in found

"""Numbers that stand in no list of parameters: they are part of a net's fingerprint, and the code
around them of its program.
"""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import types
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from cushion.certificates.answers import answer, fingerprint_net
from cushion.errors import BadInput
from cushion.nets.identity import numbers_of
from cushion.nets.loading.factories import load_code
from cushion.nets.program import program_fingerprint

X = np.random.default_rng(0).integers(0, 256, (20, 6), dtype=np.uint8)


def layers(seed: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), act(), nn.Linear(5, 3))


def matrix(seed: int) -> Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(seed))


def identity(net: Any) -> tuple[str, str | None]:
    return fingerprint_net(net), program_fingerprint(net)


class Asking(nn.Module):
    """Asks whatever is hidden in `ask`; no trace follows it."""

    def __init__(self, ask: Any) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, x: Tensor) -> Tensor:
        return self.ask(x) if x.sum() > -1 else x


class Listed(nn.Module):
    """A registered head on a backbone that no list of parameters names."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.head, self.backbones = nn.Linear(3, 3), [backbone]
        nn.init.eye_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbones[0](x))  # type: ignore[no-any-return]


class Named(nn.Module):
    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.parts = {"body": {"inner": backbone}}

    def forward(self, x: Tensor) -> Tensor:
        return self.parts["body"]["inner"](x)  # type: ignore[no-any-return]


class Own:
    """An object of its own kind, with a slot."""

    __slots__ = ("matrix",)

    def __init__(self, seed: int) -> None:
        self.matrix = matrix(seed)

    def __call__(self, x: Tensor) -> Tensor:
        found: Tensor = x @ self.matrix
        return found


class Plain:
    def __init__(self, seed: int) -> None:
        self.rows = matrix(seed).tolist()

    def __call__(self, x: Tensor) -> Tensor:
        return x @ torch.tensor(self.rows)


GLOBALS: dict[str, Any] = {}


def by_global(x: Tensor) -> Tensor:
    return GLOBALS["net"](x)  # type: ignore[no-any-return]


class Bare(nn.Module):
    weights: ClassVar[Tensor]

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weights

    def other(self, x: Tensor) -> Tensor:
        return x @ getattr(self, "wei" + "ghts")  # type: ignore[no-any-return]


def with_global(seed: int) -> nn.Module:
    GLOBALS["net"] = layers(seed)
    return Asking(by_global)


def with_class(seed: int) -> nn.Module:
    Bare.weights = matrix(seed)
    return Bare()


def with_hook(seed: int) -> nn.Module:
    kept = matrix(seed)
    net = nn.Sequential(nn.Identity())
    net.register_forward_hook(lambda module, args, out: out @ kept)
    return net


def with_default(seed: int) -> nn.Module:
    def ask(x: Tensor, kept: Any = None) -> Any:
        return x @ kept

    ask.__defaults__ = (matrix(seed),)
    return Asking(ask)


def with_looked_up(seed: int) -> nn.Module:
    net = Bare()
    net.weights = matrix(seed)  # type: ignore[misc]
    return Asking(net.other)


def with_estimator(seed: int) -> nn.Module:
    rng = np.random.default_rng(seed)
    known = LogisticRegression(max_iter=5).fit(rng.normal(size=(60, 6)), np.arange(60) % 3)
    return Asking(lambda x: torch.from_numpy(known.predict_proba(x.numpy())))


def with_script(seed: int) -> nn.Module:
    frozen = torch.jit.freeze(torch.jit.script(layers(seed).eval()))
    return nn.Sequential(nn.Sequential(frozen))


def with_traced(seed: int) -> nn.Module:
    kept = matrix(seed)
    return Asking(torch.jit.trace(lambda x: x @ kept, torch.zeros(2, 6)))  # type: ignore[no-untyped-call]


def closed(seed: int) -> nn.Module:
    inner = layers(seed)
    return Asking(lambda x: inner(x))


def using(kept: Any, how: Callable[[Tensor, Any], Tensor]) -> nn.Module:
    return Asking(lambda x: how(x, kept))


HIDDEN: dict[str, Callable[[int], nn.Module]] = {
    "a list": lambda seed: Listed(layers(seed)),
    "a dict": lambda seed: Named(layers(seed)),
    "a closure": closed,
    "a default": with_default,
    "a global": with_global,
    "a class": with_class,
    "a hook": with_hook,
    "a partial": lambda seed: Asking(functools.partial(torch.matmul, other=matrix(seed))),
    "a bound method": lambda seed: Asking(layers(seed).forward),
    "a slot": lambda seed: Asking(Own(seed)),
    "numpy": lambda seed: using(matrix(seed).numpy(), lambda x, kept: x @ torch.tensor(kept)),
    "bytes": lambda seed: using(
        bytearray(matrix(seed).numpy().tobytes()),
        lambda x, kept: x @ torch.frombuffer(kept, dtype=torch.float32).view(6, 3),
    ),
    "a namespace": lambda seed: using(
        types.SimpleNamespace(weight=matrix(seed)), lambda x, kept: x @ kept.weight
    ),
    "a distribution": lambda seed: using(
        torch.distributions.Normal(matrix(seed), 1.0),
        lambda x, kept: kept.log_prob(x[:, :, None]).sum(1),
    ),
    "a name that is put together": with_looked_up,
    "an estimator": with_estimator,
    "a frozen program": with_script,
    "a traced function": with_traced,
    "a method of a tensor": lambda seed: Asking(matrix(seed).t().mv),
    "numbers of Python": lambda seed: Asking(Plain(seed)),
}


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


class Watcher:
    """Keeps the activations of a layer."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []
        self.calls = 0

    def keep(self, module: nn.Module, args: Any, out: Tensor) -> None:
        self.seen.append(out)
        self.calls += 1


class Watched(nn.Module):
    """Counts its calls, and keeps what it computed, in every way that a person would."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 5), nn.Linear(5, 3)
        self.calls, self.sums, self.kept = 0, torch.zeros(()), {}  # type: ignore[var-annotated]
        self.rows: deque[Tensor] = deque()
        self.counted: Counter[str] = Counter()
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.features = self.body(x)
        self.kept["features"] = self.features.detach()
        self.rows.append(x)
        self.counted["calls"] += len(x)
        if len(x):
            self.last = x
        self.sums += x.sum()
        return self.head(self.features)  # type: ignore[no-any-return]


def test_a_net_that_watches_itself_stays_the_same_by_running() -> None:
    torch.manual_seed(0)
    net, acts, watcher = Watched(), {}, Watcher()  # type: ignore[var-annotated]
    net.body.register_forward_hook(lambda module, args, out: acts.update(body=out))
    net.head.register_forward_hook(watcher.keep)
    before = identity(net)
    assert None not in before
    for _ in range(3):
        assert answer(net, X).net_fingerprint == before[0]
    assert (net.calls > 6, len(watcher.seen) > 6, len(acts)) == (True, True, 1)
    assert identity(net) == before


class Cached(nn.Module):
    """Reads what an earlier call wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)
        self.first: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.first is None:
            self.first = x.mean(0)
        return self.head(x - self.first)  # type: ignore[no-any-return]


class Borrowed(Cached):
    """Writes to another object under the name that it reads from itself."""

    def forward(self, x: Tensor) -> Tensor:
        x.first = 1.0  # type: ignore[attr-defined]
        return self.head(x - self.first)  # type: ignore[no-any-return, operator]


@pytest.mark.parametrize("kind", [Cached, Borrowed])
def test_numbers_that_a_forward_writes_and_reads_are_refused(kind: type[Cached]) -> None:
    net = kind()
    assert fingerprint_net(net)
    net.first = torch.ones(6)
    with pytest.raises(BadInput, match=r"both writes and reads first.*local variables"):
        fingerprint_net(net)


class Drifting(nn.Module):
    """Changes what it hides by a way that no name shows."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = [torch.zeros(3)]

    def forward(self, x: Tensor) -> Tensor:
        kept = self.kept[0]
        kept.add_(1e-6)
        return x[:, :3] + kept


def test_hidden_numbers_that_change_by_running_are_refused() -> None:
    with pytest.raises(BadInput, match="changes as it runs"):
        answer(Drifting(), X)


def test_what_cannot_be_read_is_refused() -> None:
    pieces = {torch.zeros(2), torch.ones(2)}
    with pytest.raises(BadInput, match=r"set .*order.*use a list"):
        fingerprint_net(Asking(lambda x: x + next(iter(pieces))))


def test_an_object_of_c_that_shows_nothing_is_refused() -> None:
    kiwisolver = pytest.importorskip("kiwisolver")
    shut = kiwisolver.Solver()
    with pytest.raises(BadInput, match="a Solver, which does not show the numbers that it holds"):
        fingerprint_net(Asking(lambda x: shut.scores(x)))


class Normed(nn.Module):
    """Names the weight that a hook makes of its direction and its length."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.utils.weight_norm(nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) / self.head.weight.norm()  # type: ignore


@pytest.mark.filterwarnings("ignore")
def test_a_weight_that_torch_makes_of_parameters_is_none_of_its_own() -> None:
    net = Normed().eval()
    assert set(numbers_of(net)) == {"head.bias", "head.weight_g", "head.weight_v"}
    found = fingerprint_net(net)
    net(torch.ones(2, 6))
    assert fingerprint_net(net) == found
    with torch.no_grad():
        net.head.weight_g.mul_(2)  # type: ignore[operator]
    with pytest.raises(BadInput, match=r"head\.weight is not yet .* run the net on one batch"):
        fingerprint_net(net)
    net(torch.ones(2, 6))
    assert fingerprint_net(net) != found


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

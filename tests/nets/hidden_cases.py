"""Nets whose numbers stand in no list of parameters, each in a way of its own."""

from __future__ import annotations

import functools
import operator
import sys
import types
from array import array
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from cushion.certificates.answers import fingerprint_net
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
    rest = "ghts"

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weights

    def other(self, x: Tensor) -> Tensor:
        return x @ getattr(self, "wei" + self.rest)  # type: ignore[no-any-return]


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


def with_import(seed: int) -> nn.Module:
    module = sys.modules["imported_by_a_forward"] = types.ModuleType("imported_by_a_forward")
    module.weight = matrix(seed)  # type: ignore[attr-defined]

    def ask(x: Any) -> Any:
        import imported_by_a_forward as found  # type: ignore[import-not-found]

        return x @ found.weight

    return Asking(ask)


def with_function(seed: int) -> nn.Module:
    def ask(x: Any) -> Any:
        return x @ ask.weight  # type: ignore[attr-defined]

    ask.weight = matrix(seed)  # type: ignore[attr-defined]
    return Asking(ask)


def with_context(seed: int) -> nn.Module:
    kept: ContextVar[Tensor] = ContextVar("kept")
    kept.set(matrix(seed))
    return Asking(lambda x: x @ kept.get())


def with_getter(seed: int) -> nn.Module:
    get = operator.attrgetter("matrix")
    return using(Own(seed), lambda x, kept: x @ get(kept))


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
    "an import": with_import,
    "an attribute of a function": with_function,
    "a variable of a context": with_context,
    "a getter": with_getter,
    "an array": lambda seed: using(
        array("f", matrix(seed).flatten()), lambda x, kept: x @ torch.tensor(kept).view(6, 3)
    ),
    "an estimator": with_estimator,
    "a frozen program": with_script,
    "a traced function": with_traced,
    "a method of a tensor": lambda seed: Asking(matrix(seed).t().mv),
    "numbers of Python": lambda seed: Asking(Plain(seed)),
}

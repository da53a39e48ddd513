"""The user's own training as a learner: fit(x, y, seed) -> nn.Module, run again in every round.

What it returns answers in evaluation mode, in batches of one shape, so that a row's answer is a
function of the net and the row. The bound is then about that very net.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.certificates.answers import fingerprint_net
from cushion.certificates.format.claims import Fit
from cushion.certificates.picks.rounds import TIE
from cushion.errors import BadInput
from cushion.nets.batches import as_batch
from cushion.nets.calling import evaluating, fitted
from cushion.nets.classifier import as_module
from cushion.nets.loading.factories import load_code
from cushion.nets.loading.refusals import refusing
from cushion.nets.mentions import mentions
from cushion.progress import working

Function = Callable[[Any, Tensor, int], nn.Module]  # (x, y, seed) of the picked rows
T = TypeVar("T")
BATCH = 256
_MOST_BATCH = 2**20
_FEW = 4  # batches whose rows are scored again in another order, after every training


@dataclass(frozen=True)
class UserFit:
    """A learner that calls the user's function; `said` is what a certificate states of it."""

    function: Function
    said: Fit

    @property
    def groups(self) -> tuple[int, ...]:
        return self.said.groups

    def bind(self, x: NDArray[Any], y: NDArray[np.int64]) -> BoundFit:
        return BoundFit(self, x, y)


class BoundFit:
    """A fit and the sample: `net` is what the last training gave."""

    def __init__(self, learner: UserFit, x: NDArray[Any], y: NDArray[np.int64]) -> None:
        self._learner, self._x, self._y = learner, x, y
        self.net: nn.Module | None = None
        self._scores: nn.Module | None = None
        self._answers = np.full(len(y), TIE)  # [m] of the last net

    def train(self, picks: NDArray[np.int64]) -> None:
        """Fit anew; BadInput unless fit gives one net that is one function."""
        first = self.net is None
        self.net = self._fitted(picks)
        # what it returns is read by the picked rows alone
        self._scores = as_module(self.net, as_batch(self._x[picks[:2]]))
        if first:
            self._check_again(picks)
        self._check_width(picks)
        self._answers = self.classify(self._x)
        self.check_order(self._answers, _FEW * self._learner.said.batch)

    def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] classes of rows of the sample."""
        return self._answers[rows]

    def classify(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """[n] classes, `TIE` where the gap between the two largest scores is within the tolerance
        times the largest score in magnitude.
        """
        assert self._scores is not None
        return np.concatenate(self._scored(self._scores, x, self._classes))

    def _scored(self, net: nn.Module, x: NDArray[Any], of: Callable[[Tensor], T]) -> list[T]:
        """What `of` makes of the scores [n, classes] of a batch; BadInput if one is no number."""
        size, found = self._learner.said.batch, []
        with (
            _repeatable(0),
            torch.no_grad(),
            evaluating(net),
            working("answers", len(x), "rows") as bar,
        ):
            for start in range(0, len(x), size):
                rows = np.arange(start, start + size)
                padded = np.where(rows < len(x), rows, start)
                with refusing(f"the net that {self._named} returned raised", named=True):
                    scores = net(fitted(net, as_batch(x[padded]))).cpu()[: len(x) - start]
                if not bool(torch.isfinite(scores).all()):
                    raise BadInput(
                        f"the net that {self._named} returned has scores that are not finite near "
                        f"row {start}; look for a training that diverges (a smaller step?)"
                    )
                found.append(of(scores))
                bar.advance(len(scores))
        return found

    def _check_again(self, picks: NDArray[np.int64]) -> None:
        """BadInput unless another training on the same rows gives the same numbers and, whatever
        else a net may keep, the same scores.
        """
        assert self._scores is not None
        again = self._fitted(picks)
        same = fingerprint_net(again) == fingerprint_net(self.net)
        if same:
            few = self._x[: _FEW * self._learner.said.batch]
            other = as_module(again, as_batch(self._x[picks[:2]]))
            first, second = (
                torch.cat(self._scored(net, few, Tensor.clone)) for net in (self._scores, other)
            )
            same = torch.equal(first, second)
        if not same:
            raise BadInput(
                f"{self._named} gave two different nets for the same rows and seed; make it a "
                "function of its arguments (draw from torch, numpy or random, which are seeded)"
            )

    def _check_width(self, picks: NDArray[np.int64]) -> None:
        """BadInput where a net cannot name a class that it was taught."""
        assert self._scores is not None
        [width] = self._scored(self._scores, self._x[picks[:1]], lambda scores: scores.shape[1])
        taught = int(self._y[picks].max()) + 1
        if width < taught:
            raise BadInput(
                f"the net that {self._named} returned has {width} scores, but the rows that it was "
                f"trained on have {taught} classes; give it a score for each"
            )

    def digest(self) -> str:
        """The net's fingerprint (FORMAT.md, section 5)."""
        return fingerprint_net(self.net)

    def check_order(self, classes: NDArray[np.int64], most: int | None = None) -> None:
        """BadInput unless rows, up to so many, have the same classes in another order."""
        order = np.random.default_rng(len(classes)).permutation(len(classes))[:most]
        changed = int((self.classify(self._x[order]) != classes[order]).sum())
        if changed:
            raise BadInput(
                f"the net that {self._named} returned is not one function: {changed} of "
                f"{len(order)} rows got another answer in another order; no row's answer may "
                "depend on the rest of its batch (batch-norm in training mode?) or on chance"
            )

    @property
    def _named(self) -> str:
        return f"{self._learner.said.function}()"

    def _fitted(self, picks: NDArray[np.int64]) -> nn.Module:
        seed = self._learner.said.seed
        x, y = as_batch(self._x[picks]), torch.from_numpy(self._y[picks])
        raised = refusing(f"{self._named} raised, on {len(picks)} rows,", named=True)
        with raised, _repeatable(seed), torch.enable_grad():
            net = self._learner.function(x, y, seed)
        if not isinstance(net, nn.Module):
            raise BadInput(f"{self._named} returned a {type(net).__name__}, not an nn.Module")
        return net

    def _classes(self, scores: Tensor) -> NDArray[np.int64]:
        """[n] classes of a batch."""
        top = scores.double().topk(2, dim=1)
        gaps = top.values[:, 0] - top.values[:, 1]
        near = float(self._learner.said.tolerance) * scores.double().abs().amax(dim=1)
        found: NDArray[np.int64] = top.indices[:, 0].where(gaps > near, TIE).numpy()
        return found


def user_fit(
    given: str | Function, *, seed: int, groups: tuple[int, ...], batch: int, tolerance: str
) -> UserFit:
    """The learner of file.py:function, or of a function that stands in a file."""
    if isinstance(given, str):
        path, _, name = given.rpartition(":")
        if not path.endswith(".py") or not name:
            raise BadInput(f"`fit` = {given!r} must be file.py:function")
        function = getattr(load_code(Path(path)), name, None)
        if not callable(function):
            raise BadInput(f"{path} has no function '{name}'; write fit(x, y, seed) and name it")
    else:
        function, name = given, getattr(given, "__name__", "")
        path = inspect.getsourcefile(given) or "" if inspect.isfunction(given) else ""
        if not Path(path).is_file():
            raise BadInput("`fit` must be file.py:function, or a function that stands in a file")
        if not _is_as_written(given, Path(path)):
            raise BadInput(
                f"`fit` = {given.__qualname__} has parts that are made as the program runs, so "
                "its file does not say what it does; write it at the top level of a file, with all "
                "settings in its body, or name it as file.py:function"
            )
    if not 1 <= batch <= _MOST_BATCH:
        raise BadInput(f"`batch` must be a whole number from 1 to {_MOST_BATCH}, not {batch}")
    source = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return UserFit(function, Fit(source, name, seed, groups, batch, tolerance))


def _is_as_written(function: Any, path: Path) -> bool:
    """Whether the file and the name alone say which function this is: one of the top level, no
    closure, with defaults that stand in the file as plain values, and settings of the file as it
    gives them.
    """
    name = function.__name__
    if function.__qualname__ != name or function.__closure__ is not None:
        return False
    if function.__globals__.get(name) is not function:
        return False
    set_here = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items())
    try:
        tree = ast.parse(path.read_bytes())
        found = [_defaults(node.args) for node in ast.walk(tree) if _defines(node, name)]
    except (SyntaxError, ValueError):  # not Python any more, or not plain values
        return False
    now, read = function.__globals__, _read_by(function, set())
    kept = all(repr(now.get(n)) == repr(v) for n, v in _settings(tree).items() if n in read)
    return kept and repr(set_here) in map(repr, found)


def _read_by(thing: Any, seen: set[Any]) -> set[str]:
    """Names that a function reads, and the functions and classes of its file that it names."""
    if isinstance(thing, type):
        return {n for part in vars(thing).values() for n in _read_by(part, seen)}
    if not isinstance(thing, FunctionType) or thing in seen:
        return set()
    seen.add(thing)
    names = set(mentions(thing.__code__).read)
    around = thing.__globals__
    home = around.get("__name__")
    inside = (around[n] for n in sorted(names & set(around)))
    own = [one for one in inside if getattr(one, "__module__", None) == home]
    return names.union(*(_read_by(one, seen) for one in own))


def _settings(tree: ast.Module) -> dict[str, Any]:
    """The plain values that a file gives to names, each once; what begins empty is to be filled."""
    found: dict[str, Any] = {}
    stores = Counter(
        node.id
        for part in tree.body
        if not isinstance(part, ast.FunctionDef | ast.ClassDef)
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    for part in tree.body:
        given = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
        name, value = getattr(given[0], "id", ""), getattr(part, "value", None)
        if len(given) == 1 and stores[name] == 1 and isinstance(value, ast.expr):
            with suppress(ValueError):
                found[name] = ast.literal_eval(value)
    return {name: value for name, value in found.items() if value not in ([], {})}


def _defines(node: ast.AST, name: str) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _defaults(args: ast.arguments) -> tuple[Any, ...]:
    """The values that stand in the file, and those behind names; ValueError for other code."""
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return (
        *(ast.literal_eval(value) for value in args.defaults),
        *((one.arg, ast.literal_eval(value)) for one, value in named if value is not None),
    )


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """Seeds, one thread and deterministic operations inside; everything as it was behind."""
    states, threads = (random.getstate(), np.random.get_state()), torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng():
        try:
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
            torch.set_num_threads(1)
            torch.use_deterministic_algorithms(True)
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn_only)
            torch.set_num_threads(threads)
            random.setstate(states[0])
            np.random.set_state(states[1])

"""One pass of a private copy of a module with hooks on every part: which modules are called on
what, which batch-norms fold into the layer before them, which results carry everything on.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from cushion.errors import Unsupported
from cushion.nets.batches import Batch
from cushion.nets.hooked.flow import Flow, Fn
from cushion.nets.hooked.layers import NORMALISATIONS, is_layer, normalising, weight_of


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module: `at` counts the calls of that module from 1."""

    path: str
    at: int
    module: Any  # an nn.Module, with whatever its kind has
    reads: tuple[int, ...]  # shape of one example's input
    gives: tuple[int, ...]  # shape of one example's output
    fn: Fn | None
    # of a layer with weights: what it read and gave on the rows of the pass
    seen: tuple[Tensor, Tensor] | None = None

    @property
    def name(self) -> str:
        """As the trace calls it; wrappers around the user's module are not named."""
        return shown(self.path, self.at)


def shown(path: str, at: int = 1) -> str:
    """The name of the `at`-th call of the module at `path`."""
    while path.startswith("inner."):
        path = path.removeprefix("inner.")
    own = "the net" if path in ("", "inner") else path
    return own if at == 1 else f"{own}#{at}"


def first_tensor(value: Any) -> Tensor | None:
    """A module's result: itself, or the first of a tuple."""
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, Tensor) else None


def with_first(value: Any, tensor: Tensor) -> Any:
    """The result with another tensor in the first one's place."""
    if hasattr(value, "_fields"):
        return value._replace(**{value._fields[0]: tensor})
    return type(value)([tensor, *value[1:]]) if isinstance(value, (tuple, list)) else tensor


@contextmanager
def hooks(
    module: nn.Module, paths: Callable[[str, nn.Module], Any], *, before: bool = False
) -> Iterator[None]:
    """A forward hook on every part for which `paths` gives one; all are gone at the end."""
    handles = []
    try:
        for path, part in module.named_modules():
            if (hook := paths(path, part)) is not None:
                add = part.register_forward_pre_hook if before else part.register_forward_hook
                handles.append(add(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()


def replicate(model: nn.Module) -> nn.Module:
    """A copy in eval mode, its parametrised weights plain tensors.

    Its parameters are new ones over the same numbers, which nothing here writes to: a large net
    takes no more memory.
    """
    try:
        shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in model.parameters()}
        replica = copy.deepcopy(model, shared).eval()
        for part in list(replica.modules()):
            if parametrize.is_parametrized(part):
                for name in list(part.parametrizations):  # type: ignore[arg-type]
                    parametrize.remove_parametrizations(part, name, leave_parametrized=True)
    except Exception as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise Unsupported(
            f"{type(model).__name__} cannot be copied ({said}), and hooks go on a copy so that "
            "the net stays as it is; margins and hold-out lines need no copy"
        ) from error
    return replica


def watch(replica: nn.Module, rows: Batch) -> tuple[list[Call], Flow, Tensor]:
    """All calls of a pass over `rows`, in the order in which they end, and what reads what."""
    calls: list[Call] = []
    counts: Counter[str] = Counter()

    def hook(path: str, _: nn.Module) -> Any:
        def record(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            counts[path] += 1
            given, result = first_tensor(args), first_tensor(output)
            if result is not None:
                reads = () if given is None else tuple(given.shape[1:])
                shape = tuple(result.shape[1:])
                seen = None
                if given is not None and is_layer(module):
                    seen = given.detach().clone(), result.detach().clone()
                calls.append(Call(path, counts[path], module, reads, shape, result.grad_fn, seen))

        return record

    floating = [p for p in replica.parameters() if p.is_floating_point()]
    for parameter in floating:
        parameter.requires_grad_(True)
    inputs = list(rows.values()) if isinstance(rows, dict) else [rows]
    leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
    try:
        with torch.enable_grad(), hooks(replica, hook):
            scores = replica(rows)
    finally:
        for parameter in floating:
            parameter.requires_grad_(False)
    return calls, Flow(scores, leaves), scores.detach()


def fold(replica: nn.Module, calls: list[Call], flow: Flow) -> bool:
    """Put batch-norms into the layers that feed them alone, in the copy; whether there were any.

    y = s·(A x + b) + t is (diag(s) A) x + (s·b + t), as in the trace.
    """
    called = Counter(call.path for call in calls)
    layers = {
        flow.place[c.fn]: c for c in calls if c.fn in flow.place and weight_of(c.module) is not None
    }
    folded = False
    for call in calls:
        if not isinstance(call.module, NORMALISATIONS) or call.fn not in flow.place:
            continue
        before = flow.inputs[flow.place[call.fn]]
        layer = layers.get(before[0]) if len(before) == 1 else None
        if layer is None or len(flow.users[before[0]]) != 1:
            continue
        once = called[layer.path] == called[call.path] == 1
        plain = isinstance(layer.module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))
        factors = normalising(call.module)
        if (
            not (once and plain)
            or factors is None
            or len(layer.gives) not in (1, layer.module.weight.ndim - 1)
        ):
            continue
        scale, shift = (part.double() for part in factors)
        weight, bias = layer.module.weight, layer.module.bias
        scaled = weight.double() * scale.reshape(-1, *[1] * (weight.ndim - 1))
        shifted = shift if bias is None else bias.double() * scale + shift
        layer.module.weight = nn.Parameter(scaled.to(weight.dtype), requires_grad=False)
        layer.module.bias = nn.Parameter(shifted.to(weight.dtype), requires_grad=False)
        parent, _, own = call.path.rpartition(".")
        setattr(replica.get_submodule(parent), own, nn.Identity())
        folded = True
    return folded

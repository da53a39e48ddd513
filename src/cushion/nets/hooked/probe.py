"""One pass of a private copy of a module with hooks on every part: which modules are called on
what, which batch-norms fold into the layer before them, which results carry everything on.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.jit import ScriptModule
from torch.nn.utils import parametrize

from cushion.errors import Unsupported
from cushion.nets.batches import Batch
from cushion.nets.hooked.flow import Flow, Fn
from cushion.nets.hooked.layers import NORMALISATIONS, is_layer, normalising, weight_of
from cushion.nets.hooked.reads import Detaching, Reads
from cushion.nets.operations.operation import Shape


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
    after: frozenset[int] = frozenset()  # places in the list of calls of the layers it depends on

    @property
    def name(self) -> str:
        """As the trace calls it; wrappers around the user's module are not named."""
        return shown(self.path, self.at)


class Watched(NamedTuple):
    """A pass: its calls, what reads what, its scores, and whether it hides a result from gradients
    (`detach`).
    """

    calls: list[Call]
    flow: Flow
    scores: Tensor
    detaches: bool


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


def first_input(args: Any, named: Mapping[str, Any]) -> Tensor | None:
    """What a module was called with: its first argument, or the one called input or x."""
    if args:
        return first_tensor(args)
    return first_tensor(next((named[name] for name in ("input", "x") if name in named), None))


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
                add: Any = part.register_forward_pre_hook if before else part.register_forward_hook
                handles.append(add(hook, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def replicate(model: nn.Module) -> nn.Module:
    """A copy in eval mode, its parametrised weights plain tensors.

    Its parameters are new ones over the same numbers, which nothing here writes to: a large net
    takes no more memory.
    """
    scripted = [name for name, part in model.named_modules() if isinstance(part, ScriptModule)]
    if scripted:
        said = f"{shown(scripted[0])} is a TorchScript program, which hooks cannot watch"
        raise Unsupported(f"{said}; use the module that it was made from")
    try:
        shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in model.parameters()}
        replica = copy.deepcopy(model, shared).eval()
        for part in list(replica.modules()):
            if parametrize.is_parametrized(part):
                _own_class(part)
                for name in list(part.parametrizations):  # type: ignore[arg-type]
                    parametrize.remove_parametrizations(part, name, leave_parametrized=True)
    except Exception as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise Unsupported(
            f"{type(model).__name__} cannot be copied ({said}), and hooks go on a copy so that "
            "the net stays as it is; margins and hold-out lines need no copy"
        ) from error
    return replica


def _own_class(part: nn.Module) -> None:
    """Parametrised weights are properties of a class that a copy shares with the original: taking
    them off the copy must not take them off the user's net.
    """
    kind = type(part)
    body = {k: v for k, v in vars(kind).items() if k not in ("__dict__", "__weakref__")}
    part.__class__ = type(kind.__name__, kind.__bases__, body)


def watch(replica: nn.Module, rows: Batch, theirs: Collection[int] = ()) -> Watched:
    """All calls of a pass over `rows`, in the order in which they end, and what reads what.

    theirs: id() of tensors that the copy must not read: those of the net that it was copied from.
    """
    calls: list[Call] = []
    counts: Counter[str] = Counter()
    inputs = list(rows.values()) if isinstance(rows, dict) else [rows]
    reads = Reads([*inputs, *replica.parameters(), *replica.buffers()])
    detaching = Detaching()

    def hook(path: str, _: nn.Module) -> Any:
        def record(module: nn.Module, args: tuple[Any, ...], named: Any, output: Any) -> None:
            counts[path] += 1
            given, result = first_input(args, named), first_tensor(output)
            if result is None:
                return
            if is_functorch_wrapped_tensor(result):
                said = f"the net calls {shown(path)} inside a transform such as vmap"
                raise Unsupported(f"{said}, where hooks see no examples; call it on the batch")
            reads.paused = detaching.paused = True
            seen, after = None, frozenset[int]()
            if given is not None and is_layer(module):
                seen, after = (given.detach().clone(), result.detach().clone()), reads.marks(given)
                reads.mark(result, len(calls))
            reads.paused = detaching.paused = False
            shapes = () if given is None else tuple(given.shape[1:]), tuple(result.shape[1:])
            calls.append(Call(path, counts[path], module, *shapes, result.grad_fn, seen, after))

        return record

    floating = [p for p in replica.parameters() if p.is_floating_point()]
    for parameter in floating:
        parameter.requires_grad_(True)
    leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
    try:
        with torch.enable_grad(), hooks(replica, hook), reads, detaching:
            scores = replica(rows)
    finally:
        for parameter in floating:
            parameter.requires_grad_(False)
    if any(id(one) in theirs for one in reads.foreign):
        raise Unsupported(
            "a copy of the net still computes with the net itself: a function holds on to it, such "
            "as a lambda over self; hooks go on a copy, so write that function as a method"
        )
    return Watched(calls, Flow(scores, leaves), scores.detach(), detaching.found)


def lone_shapes(replica: nn.Module, rows: Batch) -> dict[tuple[str, int], tuple[Shape, Shape]]:
    """What every call of a pass over one row reads and gives; {} for nets that need more rows."""
    counts: Counter[str] = Counter()
    found: dict[tuple[str, int], tuple[Shape, Shape]] = {}

    def hook(path: str, _: nn.Module) -> Any:
        def record(_: nn.Module, args: tuple[Any, ...], named: Any, output: Any) -> None:
            counts[path] += 1
            given, result = first_input(args, named), first_tensor(output)
            if given is not None and result is not None:
                found[path, counts[path]] = tuple(given.shape), tuple(result.shape)

        return record

    one = {k: v[:1] for k, v in rows.items()} if isinstance(rows, dict) else rows[:1]
    try:
        with torch.no_grad(), hooks(replica, hook):
            replica(one)
    except Exception:  # such as one that squeezes its batch
        return {}
    return found


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

"""From a module to a graph of its torch calls, without touching the module."""

from __future__ import annotations

import copy
import inspect
import os
import traceback
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from cushion.errors import BadInput, Unsupported
from cushion.nets.devices import with_float64
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.vocabulary import BATCH, MODULES, Refused, has_refusal, refusal

_LOG_SOFTMAX = (torch.log_softmax, nn.functional.log_softmax, "log_softmax")


class CaptureFailed(Exception):
    """FX could not follow the forward of the module at `path`."""

    def __init__(self, path: str, module: str, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.path, self.module, self.refused = path, module, refused


class _Shaped(fx.Proxy):
    """A value under trace that knows its shape, so that a forward may ask and decide by it."""

    def __getattr__(self, name: str) -> Any:
        seen = self.node.meta.get("seen")
        if isinstance(seen, Tensor) and name in ("shape", "ndim", "dtype"):
            return getattr(seen, name)
        return super().__getattr__(name)

    def __len__(self) -> int:
        seen = self.node.meta.get("seen")
        return len(seen) if isinstance(seen, (Tensor, tuple, list)) else super().__len__()


class _Tracer(fx.Tracer):
    """Remembers where tracing failed; buffers appear in the graph by name, as parameters do.

    With an input shape every call also runs on tensors without values, so that sizes are numbers: a
    forward may assert them or choose by them. What cannot be run so is traced without.
    """

    proxy_buffer_attributes = True

    def __init__(self, replica: nn.Module, shape: Shape | None) -> None:
        super().__init__()
        self.failed_in: nn.Module | None = None
        self.called: set[int] = set()  # id() of the modules that were called, with all of a leaf
        self._shape, self._placed, self._running = shape, False, False
        self._hollow = None if shape is None else without_values(replica)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Shaped(node, self)

    def create_proxy(self, kind: str, *given: Any, **options: Any) -> Any:
        proxy = super().create_proxy(kind, *given, **options)
        if self._hollow is None:
            return proxy
        self._running = True
        try:
            seen = proxy.node.meta["seen"] = self._run(proxy.node)
        except Exception:  # the walk over the graph says what is wrong with it
            return proxy
        finally:
            self._running = False
        plain = kind.startswith("call") and _is_plain(seen)
        return seen if plain else proxy

    def _run(self, node: fx.Node) -> Any:
        assert self._hollow is not None
        if node.op == "placeholder":
            if self._placed:
                raise ValueError("only the batch has a shape")
            self._placed = True
            assert self._shape is not None
            return torch.empty(BATCH, *self._shape, dtype=torch.float64, device="meta")
        if node.op == "get_attr":
            return attrgetter(str(node.target))(self._hollow)
        look_up = lambda n: n.meta["seen"]  # noqa: E731
        args: Any = fx.node.map_arg(node.args, look_up)
        kwargs: Any = fx.node.map_arg(node.kwargs, look_up)
        if node.op == "call_module":
            module = self._hollow.get_submodule(str(node.target))
            if isinstance(module, nn.RNNBase):  # step by step without values, it takes seconds
                raise ValueError("what it gives is not asked for: it is refused anyway")
            return module(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if self._running:  # a call without values, inside one that is traced
            return forward(*args, **kwargs)
        self.called.update(map(id, m.modules() if self.is_leaf_module(m, "") else (m,)))
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            if self.failed_in is None:  # the innermost module sees the exception first
                self.failed_in = m
            raise


def without_values(replica: nn.Module) -> nn.Module:
    """The module on tensors that have shapes only: no memory, and nothing is computed."""
    memo: dict[int, Any] = {id(b): b.to("meta") for b in replica.buffers()}
    for value in replica.parameters():
        memo[id(value)] = nn.Parameter(value.detach().to("meta"), value.requires_grad)
    return copy.deepcopy(replica, memo)


def _is_plain(value: Any) -> bool:
    """Whether a result is sizes and the like, and no tensor."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype))


def _is_finite(value: torch.Tensor) -> bool:
    # a finite sum has finite terms, and is far faster; one that overflows says nothing
    return bool(torch.isfinite(value.detach().sum())) or bool(torch.isfinite(value).all())


def check_state(model: nn.Module) -> None:
    """BadInput for numbers that no measure could use; Unsupported for other than float tensors."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(value):
            said, fix = "has no values yet (its layer is lazy)", "run the net on one batch first"
        elif value.is_meta:
            said, fix = "has no values (it is on the meta device)", "load the weights first"
        elif value.is_complex() or value.is_quantized or value.is_sparse:
            said = f"parameter {name} is {value.dtype}, {value.layout}"
            raise Unsupported(f"{said}; convert it to a dense float32 tensor")
        elif value.is_floating_point() and not _is_finite(value):
            said, fix = "holds NaN or infinite values", "load weights from before training diverged"
        else:
            continue
        raise BadInput(f"parameter {name} {said}; {fix}")


def replicate(model: nn.Module) -> nn.Module:
    """An independent copy in eval mode and float64, on which tracing may do what it wants; on the
    CPU where the net's own device knows no float64.
    """
    try:
        replica = copy.deepcopy(with_float64(model))
    except Exception as error:
        raise Unsupported(
            f"{type(model).__name__} cannot be copied ({first_line(error)}), and tracing works on "
            "a copy so that the net stays as it is; make it copyable with copy.deepcopy"
        ) from error
    return replica.eval().double()


def capture(replica: nn.Module, shape: Shape | None = None) -> tuple[fx.Graph, frozenset[int]]:
    """The graph of torch calls that `replica` makes, arguments at their defaults; and id() of the
    submodules that it called on the way.
    """
    kind, followed = type(replica), (*MODULES, nn.Sequential, fx.GraphModule)
    if kind.__module__.startswith("torch.") and not isinstance(replica, followed):
        # torch's own wrappers decide in Python a lot; say what they are, not how they fail.
        raise CaptureFailed("", kind.__name__, refusal(kind.__name__))
    parameters = list(inspect.signature(replica.forward).parameters.values())[1:]
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    tracer = _Tracer(replica, shape)
    try:
        return tracer.trace(replica, concrete_args=defaults), frozenset(tracer.called)
    except Exception as error:
        module = tracer.failed_in if tracer.failed_in is not None else replica
        path = next((name for name, m in replica.named_modules() if m is module), "")
        if has_refusal(kind_name := type(module).__name__):
            raise CaptureFailed(path, kind_name, refusal(kind_name)) from error
        if isinstance(error, fx.proxy.TraceError):
            reason = "its forward decides in Python by the values or the shape of a tensor"
            reason += _place(error)
            fix = "write the forward without such an if, loop or assert"
        else:
            reason = f"its forward cannot be followed{_place(error)}: {first_line(error)}"
            fix = "write the forward with torch layers and functions only"
        raise CaptureFailed(path, type(module).__name__, Refused(reason, fix)) from error


def drop_shift(graph: fx.Graph, replica: nn.Module) -> bool:
    """Leave out a log-softmax of the classes at the end, and say whether there was one: it shifts
    all scores of a row alike, so no answer, margin or loss depends on it.
    """
    end = next(node for node in graph.nodes if node.op == "output")
    last = end.args[0]
    if not isinstance(last, fx.Node) or not last.args or not isinstance(last.args[0], fx.Node):
        return False
    dim = last.args[1] if len(last.args) > 1 else last.kwargs.get("dim")
    if last.op == "call_module":
        module = replica.get_submodule(str(last.target))
        known, dim = type(module) is nn.LogSoftmax, getattr(module, "dim", None)
    else:
        known = last.target in _LOG_SOFTMAX
    if not known or dim not in (1, -1):
        return False
    end.args = (last.args[0],)
    graph.erase_node(last)
    return True


def _place(error: Exception) -> str:
    """Where in the user's code an exception arose: the innermost line outside torch."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(own):
            return f" (line {frame.lineno} of {os.path.basename(frame.filename)})"
    return ""


def first_line(error: Exception) -> str:
    """The first sentence of an exception's text, for use inside a sentence."""
    text = str(error).strip().splitlines()
    return text[0].split(". ")[0].rstrip(".") if text else type(error).__name__

"""What a net computes with its numbers, as a fingerprint: two forwards differ although all weights
are the same.

Of a module it is the graph of torch calls that its forward makes; where that cannot be followed
(control flow by values), the source code of what its forward runs. Neither knows weights, memory
addresses, devices or file names, so two loads of a net agree. FORMAT.md, section 5.
"""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from cushion.nets.calling import evaluating
from cushion.nets.classifier import Logits, is_program, unwrapped
from cushion.nets.fitted import Fitted
from cushion.nets.hidden import Found, reached
from cushion.nets.mentions import Names
from cushion.nets.normalise import Normalised
from cushion.nets.onnx_net import OnnxNet
from cushion.nets.program_source import (
    Unreadable,
    class_name,
    described,
    function_lines,
    hook_lines,
    is_foreign,
    module_lines,
    script_text,
)
from cushion.nets.tracing.capture import without_values


def program_fingerprint(model: Any) -> str | None:
    """sha256 of what the net does with its numbers; None where nothing of it can be read.

    Equal for two loads of one net, in any process; another for another forward, constant or order
    of layers. `Logits` around a net changes nothing, as with its numbers. The model is not changed.
    """
    try:
        lines = list(_program(unwrapped(model)))
    except (Unreadable, RecursionError):
        return None
    return hashlib.sha256("\n".join(["cushion-program-1", *lines]).encode()).hexdigest()


def _program(module: nn.Module) -> Iterator[str]:
    if isinstance(module, Logits):
        yield from _program(module.inner)
    elif isinstance(module, Normalised):
        yield "(x - mean) / std"
        yield from _program(module.inner)
    elif isinstance(module, Fitted):
        yield f"fitted {described(module.model)}"
        yield from _hidden(_told(module.model)[0])
    elif isinstance(module, OnnxNet):
        yield f"onnx {hashlib.sha256(module.files['onnx'].read_bytes()).hexdigest()}"
    elif is_program(module):
        yield f"script {script_text(module)}"
    else:
        _told(module)
        yield from _module(module)


def _told(root: Any) -> tuple[list[Found], Names]:
    """What is reached; Unreadable where some of it may be other numbers each time: nobody could say
    then whether a net is the same as before.
    """
    things, names = reached(root)
    if names.doubts:
        raise Unreadable
    return things, names


def _module(module: nn.Module) -> Iterator[str]:
    with evaluating(module), torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            found = list(_graph(module))
        except Exception:  # whatever a forward raises when it is given no numbers
            things, names = reached(module)
            lines = module_lines(module, "", names.unread)
            found = ["source", *lines, *hook_lines(module), *_hidden(things)]
    yield from found


def _hidden(things: list[Found]) -> Iterator[str]:
    """Modules, methods and plain values behind attributes and globals, which the source of the
    forwards does not show.
    """
    seen: set[Any] = set()
    for one in things:
        place = f"hidden {one.path}"
        try:
            yield from list(_lines(one, place, seen))
        except (Unreadable, RecursionError):
            yield f"{place} {class_name(type(one.value))}"


def _lines(one: Found, place: str, seen: set[Any]) -> Iterator[str]:
    if isinstance(one.value, nn.Module):
        yield from module_lines(one.value, place)
        yield from hook_lines(one.value)
    elif isinstance(one.value, Tensor | np.ndarray) or one.shown:
        return  # those are numbers
    elif isinstance(one.value, types.FunctionType):
        yield from function_lines(one.value, seen, one.owner)
    elif is_foreign(type(one.value)):
        yield f"{place} {type(one.value).__qualname__}"
        if hasattr(type(one.value), "get_params"):
            yield described(one.value)
    else:
        yield f"{place} {described(one.value)}"


class _Tracer(fx.Tracer):
    """Buffers appear in the graph by name, as parameters do."""

    proxy_buffer_attributes = True


def _graph(module: nn.Module) -> Iterator[str]:
    """A line a call, in order; then what the modules of torch that are called were made with."""
    replica = module
    if isinstance(module, fx.GraphModule):
        graph = module.graph
    else:
        replica = without_values(module)  # a forward may write to buffers, and a trace to the net
        parameters = list(inspect.signature(replica.forward).parameters.values())[1:]
        empty = inspect.Parameter.empty
        defaults = {one.name: one.default for one in parameters if one.default is not empty}
        graph = _Tracer().trace(replica, concrete_args=defaults)
    places: dict[fx.Node, str] = {}
    called: dict[str, None] = {}
    yield "graph"
    for node in graph.nodes:
        places[node] = f"%{len(places)}"
        args = described(fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: _At(places[n])))
        yield f"{places[node]} {node.op} {_target(node, replica)} {args}"
        if node.op == "call_module":
            called[str(node.target)] = None
    for path in called:
        yield from module_lines(replica.get_submodule(path), path)
    yield from hook_lines(module)
    hooks = any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    if hooks or any(_is_opaque(node) for node in graph.nodes):
        yield from _hidden(reached(module)[0])


def _is_opaque(node: fx.Node) -> bool:
    """Whether it calls a function that the trace did not follow."""
    return node.op == "call_function" and is_foreign(node.target)


class _At(str):
    """The place of a call whose result is an argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _target(node: fx.Node, replica: nn.Module) -> str:
    """What is called or read, by a name that is the same everywhere."""
    if node.op in ("placeholder", "output"):
        return ""  # its name is that of the argument
    if node.op != "get_attr":
        return node.target if isinstance(node.target, str) else described(node.target)
    name = str(node.target)
    owner, _, last = name.rpartition(".")
    holder, value = replica.get_submodule(owner), None
    if last not in holder._parameters and last not in holder._buffers:
        value = getattr(holder, last)  # a constant: its values stand nowhere else
    return f"{name} {described(value)}" if isinstance(value, Tensor) else name

"""Modules and functions as text: classes, the plain values that they were made with, and the source
code of what is not torch's own.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

PLAIN = (bool, int, float, complex, str, bytes, type(None), slice, type(...))
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, Enum)
OF_ANY_MODULE = frozenset(vars(nn.Module()))
_OWN = {"cushion", "torch", "numpy", "scipy", "sklearn"}
_KNOWN = frozenset({*_OWN, *sys.stdlib_module_names})


class Unreadable(Exception):
    """Code that is neither torch's own nor shows its source."""


def described(value: Any) -> str:
    """A value as text: numbers and words as they are, tensors and arrays by their hash, functions
    by name and source, other objects by their class and, of scikit-learn's, parameters.
    """
    if type(value) in PLAIN or isinstance(value, str):
        return repr(value)
    if isinstance(value, _NAMED):
        return str(value)
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _array(value)
    if isinstance(value, Mapping):
        items = sorted((described(key), described(part)) for key, part in value.items())
        return "{" + ", ".join(f"{key}: {part}" for key, part in items) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(described, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(described, value)))}}}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        return f"{class_name(type(value))} {described(value.get_params(deep=False))}"
    if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(value)
    if callable(value) and not isinstance(value, type | nn.Module):
        return "\n".join(function_lines(value, set()))
    return class_name(value if isinstance(value, type) else type(value))


def _array(value: Any) -> str:
    """Type, shape and a hash of the values."""
    if isinstance(value, Tensor):
        if value.is_meta:
            raise Unreadable
        value = value.detach().cpu().contiguous()
        kind, shape = str(value.dtype), tuple(value.shape)
        raw = value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    else:
        kind, shape, raw = str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes()
    return f"{kind} {tuple(shape)} {hashlib.sha256(raw).hexdigest()}"


def module_lines(
    module: nn.Module, path: str, unread: Callable[[str, Any], bool] | None = None
) -> Iterator[str]:
    """A line a module inside: where it is, its class, the plain values that it was made with; and
    the source of forwards that are not torch's. unread: which attributes say nothing of the net.
    """
    seen: set[Any] = set()
    for name, part in module.named_modules(prefix=path):
        if isinstance(part, torch.jit.ScriptModule):
            yield f"{name} {script_text(part)}"
            continue
        if isinstance(part, fx.GraphModule):
            yield f"{name} {part.code}"
        own = {k: v for k, v in vars(part).items() if k not in OF_ANY_MODULE}
        if isinstance(part, nn.RNNBase):  # its parameters once more
            own = {k: v for k, v in own.items() if not k.startswith("_flat_weight")}
        if unread is not None:
            own = {k: v for k, v in own.items() if not unread(k, v)}
        yield f"{name} {class_name(type(part))} {described(own)}"
        if is_foreign(type(part)):
            yield from function_lines(type(part).forward, seen, type(part))


def script_text(program: Any) -> str:
    """The graph of a TorchScript program, a line a call that computes: its constants, and where its
    arguments come from; without the shapes that a trace noted, which are not saved with it.
    """
    graph, counter = program.inlined_graph, itertools.count()
    places: dict[str, str] = {}
    parts = {next(graph.inputs()).debugName(): program}  # modules inside, where they are read

    def block(inside: Any) -> Iterator[str]:
        for value in inside.inputs():
            places[value.debugName()] = f"%{next(counter)}"
        for node in inside.nodes():
            names = sorted(node.attributeNames())
            own = described([getattr(node, node.kindOf(name))(name) for name in names])
            args = [places[value.debugName()] for value in node.inputs()]
            if node.kind() in ("prim::Constant", "prim::GetAttr"):
                made = node.output().debugName()
                places[made] = ".".join([*args, own])
                holder = parts.get(node.input().debugName()) if args else None
                name = "training" if holder is None else node.s("name")
                value = None if name == "training" else getattr(holder, name)
                if isinstance(value, nn.Module):
                    parts[made] = value
                elif value is not None and not isinstance(value, Tensor):
                    places[made] = described(value)  # a number that it was made with
                continue
            yield f"{node.kind()} {own} {', '.join(args)}"
            for part in node.blocks():
                yield from block(part)
            for value in node.outputs():
                places[value.debugName()] = f"%{next(counter)}"
        yield f"return {', '.join(places[value.debugName()] for value in inside.outputs())}"

    return "\n".join(block(graph))


def hook_lines(module: nn.Module) -> Iterator[str]:
    """What runs before and behind the forwards of a module and of all inside."""
    for path, part in module.named_modules():
        if not isinstance(part, torch.jit.ScriptModule):
            for hook in (*part._forward_pre_hooks.values(), *part._forward_hooks.values()):
                yield f"{path} hook {described(hook)}"


def function_lines(function: Any, seen: set[Any], owner: type | None = None) -> Iterator[str]:
    """Its name and, unless it is torch's or Python's own, its source and that of what it runs:
    functions and methods of `owner` by name, and the plain values that it reads from around it.
    """
    if isinstance(function, functools.partial):
        yield f"partial {described(function.args)} {described(function.keywords)}"
        function = function.func
    function = getattr(function, "__func__", function)  # of a bound method
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type) and is_foreign(type(function)):
        function, owner = type(function).__call__, type(function)  # an object that is called
        code = getattr(function, "__code__", None)
    yield _name(function)
    if code is None or not is_foreign(function) or code in seen:
        return
    seen.add(code)
    try:
        text = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError, IndentationError):
        raise Unreadable from None
    yield "\n".join(line.rstrip() for line in text.splitlines())
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield f"default {described(value)}"
    for name, value in around(function, owner):
        if isinstance(value, types.FunctionType):
            yield from function_lines(value, seen, owner)
        elif isinstance(value, (*PLAIN, tuple, list, Tensor, np.ndarray)):
            yield f"{name} = {described(value)}"


def around(function: Any, owner: type | None) -> Iterator[tuple[str, Any]]:
    """What the names in a function's code stand for: around it, in its file, in its class."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    names = names_in(function.__code__)
    around = function.__globals__
    for name in names:
        if name in around:
            yield name, around[name]
            if isinstance(around[name], types.ModuleType) and is_foreign(around[name]):
                # helpers.scaled(x): both words are among the names
                yield from ((n, getattr(around[name], n)) for n in names if n in vars(around[name]))
        for kind in () if owner is None else owner.__mro__:  # all of them: super() may be called
            if is_foreign(kind) and (value := vars(kind).get(name)) is not None:
                yield name, getattr(value, "fget", None) or getattr(value, "__func__", value)


def names_in(code: types.CodeType) -> list[str]:
    """Names that a code and those inside it mention, in a fixed order."""
    found = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            found |= set(names_in(part))
    return sorted(found)


def is_foreign(thing: Any) -> bool:
    """Whether it is neither torch's nor Python's own: another may have the same name."""
    known = "__name__" if isinstance(thing, types.ModuleType) else "__module__"
    home = getattr(thing, known, None)  # some objects of C, such as weak references, have none
    return (home or "builtins").partition(".")[0] not in _KNOWN


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", getattr(function, "__name__", ""))
    if not is_foreign(function):
        home = getattr(function, "__module__", None) or ""
        return f"{home}.{name or type(function).__name__}"
    return str(name)  # its source says which; the file's name may be another


def class_name(kind: type) -> str:
    return kind.__qualname__ if is_foreign(kind) else f"{kind.__module__}.{kind.__qualname__}"

"""What a forward reaches beside registered modules, parameters and buffers: tensors and modules in
plain lists, closures, globals, objects of other classes.

It goes by names. Of a module or an object an attribute is reached if its name appears in code that
is reached: the forward, hooks, and the functions and methods that these name in turn. So a logger
or an optimiser that no forward names is no part of a net. Of an installed library the methods are
followed and the numbers among its globals, but not its other functions and objects: they would lead
through all of it.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import operator
import sys
import types
import weakref
from argparse import Namespace
from array import array
from collections import ChainMap, UserDict, deque
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, cycle, repeat
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from cushion.nets.mentions import Names, mentions
from cushion.nets.program_source import OF_ANY_MODULE, PLAIN, around, is_foreign

_VALUES = (*PLAIN, np.generic, Enum, torch.dtype, torch.device, torch.Size)
BUFFERS = (bytearray, memoryview, array, ctypes.Array)
_ARRAYS = (Tensor, np.ndarray, *BUFFERS)
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_CALLS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
# what is behind them shows only as it is used up
_STREAMS = (types.GeneratorType, cycle, repeat, chain, map, filter, zip, SimpleQueue)
_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_MAPPINGS = (dict, UserDict, ChainMap, types.MappingProxyType, *_WEAK)
_SPACES = (types.SimpleNamespace, Namespace)
# what the text of a function shows of the things around it
_SHOWN = (*PLAIN, *_SEQUENCES[:2], Tensor, np.ndarray, types.FunctionType)
# methods that run when an object is made, stored or printed, and not when it is used
_MAKERS = {"init", "new", "repr", "str", "reduce", "reduce_ex", "getstate", "setstate", "del"}
_MAKERS |= {"copy", "deepcopy", "init_subclass", "class_getitem", "sizeof", "dir", "format"}
# whose objects are read whole, as their code is not
_HOLDERS = ("numpy", "scipy", "torch.distributions", "torch.nn.utils.rnn", "torch.utils.data")
_TRAINERS = {"lightning", "pytorch_lightning", "lightning_fabric"}  # watch and train, never compute
_INSTALLED = {"site-packages", "dist-packages"}
_PREDICTS = ("decision_function", "forward", "predict", "predict_proba", "transform")


@dataclass(frozen=True, eq=False)
class Found:
    """A thing that the forward reaches: a value, an array, a function, an object or a whole module.

    shown: whether the source of the forwards (program_source) says it already. owner: the class
    whose method a function is. changing: a name on the way that the forward also writes.
    """

    path: str
    value: Any
    shown: bool = True
    owner: type | None = None
    changing: str = ""

    def part(self, name: object, value: Any, **more: Any) -> Found:
        path = f"{self.path}.{name}" if self.path else str(name)
        return replace(self, path=path, value=value, **{"owner": None, **more})


def reached(root: Any) -> tuple[list[Found], Names]:
    """In an order that two loads of a net have in common, each thing once; and the names.

    root: a module, whose registered numbers are not among them, or whatever else is called. What
    nobody can tell is left out, and its path stands in the names' `doubts`: arrays that the forward
    writes as well as reads, sets without an order, objects of C that do not show what they hold.
    """
    names = Names()
    while True:  # until no further code is found, so that all names are known from the beginning
        known = len(names.seen)
        found = list(_Walk(names).run(root))
        if len(names.seen) == known:
            return found, names


class _Walk:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._seen: dict[tuple[int, Any], Any] = {}  # by identity; kept, so that none is used again

    def run(self, root: Any) -> Iterator[Found]:
        stack = [Found("", root)]
        if isinstance(root, nn.Module):
            stack = self._inside(stack[0])
        while stack:
            one = stack.pop()
            if not isinstance(one.value, _VALUES):
                key = (id(one.value), one.owner)
                if key in self._seen:
                    continue
                self._seen[key] = one.value
            found, parts = self._open(one)
            if found:
                if one.changing and isinstance(one.value, (*_ARRAYS, nn.Module)):
                    self._names.doubts.add(one.path)  # a cache, or another net after each call
                    continue
                yield one
            stack += reversed(list(parts))

    def _inside(self, one: Found) -> list[Found]:
        """The modules of a module; their parameters and buffers are known by it."""
        for tensor in (*one.value.parameters(), *one.value.buffers()):
            self._seen[id(tensor), None] = tensor
        parts = [one.part(name, m) if name else one for name, m in one.value.named_modules()]
        for part in parts:
            self._seen[id(part.value), "registered"] = part.value
        return parts[::-1]

    def _open(self, one: Found) -> tuple[bool, Iterable[Found]]:
        """Whether it is something of its own, and what is in it."""
        value = one.value
        if isinstance(value, nn.Module):
            if (id(value), "registered") in self._seen:
                return False, self._module(one)
            del self._seen[id(value), None]
            return True, reversed(self._inside(one))
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return False, [one.part("items", value.tolist())]
        if isinstance(value, (*_VALUES, *_ARRAYS, torch.jit.ScriptFunction)):
            return True, self._attributes(one, vars(value)) if isinstance(value, Tensor) else ()
        if isinstance(value, types.ModuleType):
            own = {k: value.__dict__[k] for k in self._names.named & set(vars(value))}
            known = {} if is_foreign(value) else {k: v for k, v in own.items() if _holds_numbers(v)}
            return False, self._attributes(one, own if is_foreign(value) else known)
        if isinstance(value, type):
            made_by = [one.part("type", type(value))] if is_foreign(type(value)) else []
            return False, [*self._members(replace(one, shown=True), value), *made_by]
        if isinstance(value, types.FunctionType):
            if is_foreign(value) and _is_walked(value):
                return True, self._function(one)
        elif isinstance(value, types.MethodType):
            inner = type(value.__self__)
            method = one.part("method", value.__func__, owner=inner)
            return False, [method, one.part("self", value.__self__, shown=False)]
        elif isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return False, [one.part(at, part) for at, part in enumerate(parts)]
        elif isinstance(value, weakref.ref):
            return False, [one.part("ref", value())]
        elif isinstance(value, ContextVar):
            return False, [one.part("value", value.get(None))]
        elif isinstance(value, _CALLS):
            kept = value.__reduce__()[1]
            self._names.name(value, *(part for text in map(str, kept) for part in text.split(".")))
            return False, [one.part("call", kept)]
        elif isinstance(value, _STREAMS):
            self._names.doubts.add(one.path)
        elif isinstance(value, (*_MAPPINGS, *_SEQUENCES, *_SETS)):
            return self._container(one)
        elif hasattr(type(value), "get_params"):
            return True, self._estimator(one)
        elif isinstance(value, types.BuiltinMethodType | types.MethodWrapperType):
            return False, [one.part("self", value.__self__)]
        elif _is_walked(type(value)):
            return is_foreign(type(value)), self._object(one)
        return False, ()

    def _module(self, one: Found) -> Iterator[Found]:
        module, kind = one.value, type(one.value)
        if isinstance(module, torch.jit.ScriptModule):
            return
        self._names.add_class(kind)
        if isinstance(module, fx.GraphModule):
            self._names.add(kind.forward.__code__, {})
        own = vars(module)
        if is_foreign(kind):
            yield one.part("forward", kind.forward, owner=kind)
            yield from self._members(one, kind)
        derived = _derived(module)
        stale = (k for k, current in derived.items() if k in self._names.named and not current)
        # the forward may read it before it is made anew
        self._names.doubts |= {one.part(name, None).path for name in stale}
        rest = {k: v for k, v in own.items() if k not in OF_ANY_MODULE and k not in derived}
        yield from self._attributes(one, rest)
        if "forward" in own:
            yield one.part("forward", own["forward"], owner=kind)
        hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
        yield from (one.part(f"hook {at}", hook) for at, hook in enumerate(hooks))
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and vars(tensor):
                yield from self._attributes(one.part(name, None), vars(tensor))

    def _function(self, one: Found) -> Iterator[Found]:
        function = one.value
        self._names.add(function.__code__, function.__globals__)
        yield from self._attributes(one, vars(function))
        for name in sorted(mentions(function.__code__).imported & set(sys.modules)):
            yield one.part(name, sys.modules[name])
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for at, value in enumerate(defaults):
            yield one.part(f"default {at}", value)
        installed = _is_installed(function)
        closed = set(function.__code__.co_freevars)
        for name, value in around(function, one.owner):
            library = installed and name not in closed and function.__globals__.get(name) is value
            if library and not _holds_numbers(value):
                continue
            owner = one.owner if isinstance(value, types.FunctionType) else None
            yield from self._named(one.part(name, value, owner=owner), isinstance(value, _SHOWN))

    def _named(self, one: Found, shown: bool) -> Iterator[Found]:
        """A thing that code knows by the last word of its path, unless it is only written."""
        name = one.path.rpartition(".")[2]
        if self._names.unread(name, one.value):
            return
        if name in self._names.written:
            one = replace(one, changing=one.changing or name)
        yield replace(one, shown=one.shown and shown)

    def _attributes(self, one: Found, own: dict[str, Any]) -> Iterator[Found]:
        for name in sorted(own):
            held = isinstance(own[name], (nn.Module, *_ARRAYS, *_MAPPINGS, *_SEQUENCES, *_SETS))
            if name in self._names.named or (self._names.anything and held):
                yield from self._named(one.part(name, own[name]), True)

    def _members(self, one: Found, kind: type) -> Iterator[Found]:
        """Methods and values of a class that is neither torch's nor Python's, by name; and what
        operators and calls run.
        """
        if not is_foreign(kind) or not _is_walked(kind):
            return
        self._names.add_class(kind)
        for base in kind.__mro__:
            for name, value in vars(base).items() if is_foreign(base) else ():
                member = getattr(value, "fget", None) or getattr(value, "func", None)
                member = member or getattr(value, "__func__", value)
                special = name[:2] == name[-2:] == "__" and name.strip("_") not in _MAKERS
                if name in self._names.named or (special and callable(member)):
                    yield from self._named(one.part(name, member, owner=kind), True)

    def _container(self, one: Found) -> tuple[bool, Iterable[Found]]:
        value = one.value
        if isinstance(value, _MAPPINGS):
            pairs = list(dict.items(value) if isinstance(value, dict) else value.items())
            plain = all(_is_plain(part) for pair in pairs for part in pair)
            parts = [one.part(at, part) for at, pair in enumerate(pairs) for part in pair]
            if all(isinstance(key, _VALUES) for key, _ in pairs):
                pairs.sort(key=lambda pair: str(pair[0]))
                parts = [one.part(key, part) for key, part in pairs]
        else:
            items = list(value)
            plain = all(map(_is_plain, items))
            parts = [one.part(at, part) for at, part in enumerate(items)]
            if isinstance(value, _SETS) and not plain:
                parts = self._in_order(one, items)
        more = self._object(one) if is_foreign(type(value)) else ()
        return plain, [*(() if plain else parts), *more]

    def _estimator(self, one: Found) -> Iterator[Found]:
        """All that a scikit-learn estimator is made of: which of it speaks, its own code says."""
        kind, one = type(one.value), replace(one, shown=True)
        for name, member in ((n, getattr(kind, n, None)) for n in _PREDICTS):
            if isinstance(member, types.FunctionType):
                yield one.part(name, member, owner=kind, shown=_is_installed(member))
        yield from (one.part(name, part) for name, part in sorted(vars(one.value).items()))

    def _object(self, one: Found) -> Iterator[Found]:
        value, kind = one.value, type(one.value)
        own = dict(vars(value)) if hasattr(value, "__dict__") else {}
        for base in kind.__mro__:
            slots = (k for k, v in vars(base).items() if isinstance(v, types.MemberDescriptorType))
            own |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
        wrapped = own.get("__wrapped__")
        if wrapped is not None:
            yield one.part("wrapped", wrapped)
        if not is_foreign(kind):
            whole = isinstance(value, _SPACES) or kind.__module__.startswith(_HOLDERS)
            names = set(own) if whole else self._names.named
            inside = replace(one, shown=not isinstance(value, _SPACES))
            yield from (inside.part(name, own[name]) for name in sorted(names & set(own)))
            return
        one = replace(one, shown=_is_installed(kind))
        yield from self._members(one, kind)
        yield from self._attributes(one, own)
        if hasattr(kind, "__array__"):
            yield one.part("array", np.asarray(value))
        elif not hasattr(value, "__dict__") and not any(
            "__slots__" in vars(b) for b in kind.__mro__
        ):
            yield from self._state(one)

    def _state(self, one: Found) -> Iterator[Found]:
        """What an object of C is stored as."""
        try:
            stored = one.value.__reduce_ex__(2)
        except Exception:
            self._names.doubts.add(one.path)
            return
        yield from (one.part(at, part) for at, part in enumerate(stored[1:3]))

    def _in_order(self, one: Found, items: list[Any]) -> list[Found]:
        """The items of a set by their names or values; others have another order each time."""

        def text(item: Any) -> str:
            return getattr(item, "__qualname__", "") or str(item)

        if not all(isinstance(item, (*_VALUES, type, types.FunctionType)) for item in items):
            self._names.doubts.add(one.path)
            return []
        return [one.part(at, item) for at, item in enumerate(sorted(items, key=text))]


def _derived(module: nn.Module) -> dict[str, bool]:
    """Weights that hooks of torch's (weight_norm, spectral_norm, prune) make of parameters before
    each call, and whether they are now what these would make.
    """
    found = {}
    for hook in module._forward_pre_hooks.values():
        name = getattr(hook, "name", None) or getattr(hook, "_tensor_name", None)
        if type(hook).__module__.startswith("torch.nn.utils.") and name in vars(module):
            other = copy.copy(module)  # with attributes of its own
            other.training = False
            with torch.no_grad():
                hook(other, ())
            found[str(name)] = torch.equal(getattr(other, name), getattr(module, name))
    return found


def _is_walked(thing: Any) -> bool:
    """Whether code or a class may hold numbers of a net."""
    return (getattr(thing, "__module__", None) or "").partition(".")[0] not in _TRAINERS


def _is_plain(value: Any) -> bool:
    items = value if isinstance(value, tuple | frozenset) else ()
    return isinstance(value, (*_VALUES, tuple, frozenset)) and all(map(_is_plain, items))


def _holds_numbers(value: Any) -> bool:
    """Whether it is numbers or a module, or a list or dict of them."""
    items = value.values() if isinstance(value, dict) else value
    parts = tuple(items) if isinstance(value, (dict, *_SEQUENCES)) else ()
    return any(isinstance(part, (nn.Module, *_ARRAYS)) for part in (value, *parts))


def _is_installed(thing: Any) -> bool:
    """Whether a function or class is a library's that was installed."""
    code = getattr(thing, "__code__", None)
    home = getattr(sys.modules.get(thing.__module__), "__file__", None)
    file = code.co_filename if isinstance(code, types.CodeType) else home or ""
    return not _INSTALLED.isdisjoint(Path(file).parts)

"""What code of Python does with the names that it mentions, read from its bytecode."""

from __future__ import annotations

import dis
import types
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Any

from torch import nn

from cushion.nets.program_source import is_foreign

_LOADS = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"}
_SILENT = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
# methods of lists, dicts, sets and deques that give back nothing
_GROWS = {"append", "appendleft", "extend", "extendleft", "add", "update", "insert", "clear"}
_ASKS = {"getattr", "vars", "__dict__", "attrgetter"}
_LOOK_UP = _ASKS | {"__getattribute__", "globals"}


@dataclass(frozen=True)
class Mentions:
    """named: all names, and words that may be names. read: those whose value goes anywhere.
    written: what is assigned, counted up, filled, each with the method that does it ("" for an
    assignment). asked: where attributes are looked up by names that only running tells. imported:
    modules.

    A name that is assigned on `self` before the same code reads it there is not among the read.
    """

    named: frozenset[str]
    read: frozenset[str]
    written: frozenset[tuple[str, str]]
    asked: frozenset[str]
    imported: frozenset[str]


@lru_cache(maxsize=1 << 14)
def mentions(code: types.CodeType) -> Mentions:
    """Of a code and of those inside it."""
    steps = [one for one in dis.get_instructions(code) if one.opname not in _SILENT]
    named, read = set(code.co_names) | set(code.co_freevars), set()
    written, asked = set(), set()
    imported = {one.argval for one in steps if one.opname == "IMPORT_NAME"}
    words: set[str] = set()  # which getattr(self, "name") makes a name
    for at, step in enumerate(steps):
        name, said = step.argval, step.opname
        if said == "LOAD_CONST":
            texts = name if isinstance(name, tuple) else (name,)
            words |= {text for text in texts if isinstance(text, str) and text.isidentifier()}
        elif said.startswith(("STORE_", "DELETE_")) and said.endswith(("_ATTR", "_GLOBAL")):
            if code.co_name != "__init__":  # which writes to what is new
                written.add((name, ""))
        elif said == "STORE_DEREF" and name in code.co_freevars:
            written.add((name, ""))
        elif said in _LOADS or said.startswith("IMPORT_"):
            if (method := _writes_with(steps, at)) is not None:
                written.add((name, method))
            else:
                read.add(name)
            if name in _ASKS:
                asked |= _asked(steps, at)
    read -= {name for name, _ in written if _is_written_first(code, steps, name)}
    if named & _LOOK_UP:
        named, read = named | words, read | words
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            inner = mentions(part)
            named, read = named | inner.named, read | inner.read
            written, asked = written | inner.written, asked | inner.asked
            imported |= inner.imported
    return Mentions(*map(frozenset, (named, read, written, asked, imported)))


def _writes_with(steps: list[dis.Instruction], at: int) -> str | None:
    """The method by which what is loaded here is only written to."""
    if steps[at - 1].opname == "COPY":  # self.count += 1
        return "__iadd__"
    after = iter(steps[at + 1 :])
    step = next(after)
    if step.opname in ("LOAD_METHOD", "LOAD_ATTR") and step.argval in _GROWS:
        return str(step.argval)
    key = False
    while step.opname.startswith("LOAD_") and (key or step.opname not in _LOADS - {"LOAD_DEREF"}):
        key, step = True, next(after)
    if key and step.opname in ("STORE_SUBSCR", "COPY"):  # kept[name] = x, kept[name] += 1
        return "__setitem__"
    return None


def _asked(steps: list[dis.Instruction], at: int) -> set[str]:
    """Where a name is looked up that is not a constant: "" or the name of a module."""
    rest = steps[at + 1 :]
    if steps[at].argval == "__dict__":
        plain = rest[0].opname == "LOAD_CONST" and rest[1].opname == "BINARY_SUBSCR"
        return set() if plain else {""}
    loads = list(takewhile(lambda one: one.opname.startswith("LOAD_"), rest))
    texts = (n for n, one in enumerate(loads) if one.opname == "LOAD_CONST")
    text = next(texts, len(loads))
    behind = [one.opname for one in rest[text + 1 : len(loads) + 1]]
    is_call = behind[-1:] != [] and behind[-1].startswith("CALL")
    if steps[at].argval == "getattr" and is_call and behind[0] not in ("LOAD_ATTR", "LOAD_METHOD"):
        return set()  # getattr(self, "name", ...)
    return {rest[0].argval if rest[0].opname == "LOAD_GLOBAL" else ""}


def _is_written_first(code: types.CodeType, steps: list[dis.Instruction], name: str) -> bool:
    """Whether every run assigns self.name before it reads it, so that nothing stays of a call."""
    if not code.co_argcount or code.co_exceptiontable:  # a handler may skip the assignment
        return False
    me = code.co_varnames[0]
    places = [
        at for at, one in enumerate(steps) if one.argval == name and one.opname[-5:] == "_ATTR"
    ]
    others = any(one.argval == name and one.opname in _LOADS - {"LOAD_ATTR"} for one in steps)
    if others or not places or steps[places[0]].opname != "STORE_ATTR":
        return False
    first = steps[places[0]].offset
    jumps = (s for s in steps if s.opcode in dis.hasjrel or s.opcode in dis.hasjabs)
    skipped = any(one.offset < first < one.argval for one in jumps)
    return (
        not skipped
        and all(_is_of(steps[at - 1], me) for at in places)
        and not any(one.opname.startswith("STORE_FAST") and me in _fast(one) for one in steps)
    )


def _is_of(step: dis.Instruction, me: str) -> bool:
    return step.opname.startswith("LOAD_FAST") and _fast(step)[-1] == me


def _fast(step: dis.Instruction) -> tuple[str, ...]:
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


@dataclass
class Names:
    """What all code that is reached does with names."""

    seen: set[Any] = field(default_factory=set)
    named: set[str] = field(default_factory=lambda: {"forward"})
    read: set[str] = field(default_factory=set)
    written: dict[str, set[str]] = field(default_factory=dict)  # and by which methods
    anything: bool = False  # attributes are looked up by names that only running tells
    doubts: set[str] = field(default_factory=set)  # paths of what may be other numbers each time

    def add(self, code: types.CodeType, around: dict[str, Any]) -> None:
        if code in self.seen:
            return
        self.seen.add(code)
        here: Mentions = mentions(code)
        self.named |= here.named
        self.read |= here.read
        for name, method in here.written:
            self.written.setdefault(name, set()).add(method)
        for asked in here.asked:  # getattr(F, name) asks torch
            module = around.get(asked)
            self.anything |= not isinstance(module, types.ModuleType) or is_foreign(module)

    def add_class(self, kind: type) -> None:
        """torch's layers read attributes too."""
        if kind in self.seen:
            return
        self.seen.add(kind)
        for base in kind.__mro__:
            own = is_foreign(base)
            for name, member in vars(base).items():
                if own and (name in ("__setattr__", "__getattribute__") or hasattr(member, "fset")):
                    self.read.add(name)  # what is written there may go anywhere
                    self.anything |= name.startswith("__")
                elif not own and base not in (nn.Module, object) and hasattr(member, "__code__"):
                    self.read |= mentions(member.__code__).named

    def name(self, by: Any, *names: str) -> None:
        """Names that an object looks up."""
        self.seen.add(by)
        self.named.update(names)

    def unread(self, name: str, value: Any) -> bool:
        """Whether it is only written: a memory of calls or of activations, which no answer sees."""
        if name not in self.written or name in self.read or self.anything:
            return False
        return all(_only_writes(value, method) for method in self.written[name] - {""})


def _only_writes(value: Any, method: str) -> bool:
    """Whether a method of a value gives nothing back; one that is written in Python may."""
    plain = not isinstance(getattr(type(value), method, None), types.FunctionType)
    return plain and (method.startswith("__") or isinstance(value, list | dict | set | deque))

"""file.py:name, the user's own code: a function or class that makes the net, or the net itself."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from cushion.errors import BadInput
from cushion.nets.classifier import unwrapped
from cushion.nets.fitted import is_fitted
from cushion.nets.loading.refusals import check_exists, refusing

_WORDS = ("net", "model", "classifier", "build", "make", "create")


def load_code(path: Path) -> ModuleType:
    """The file as a module; its code runs."""
    check_exists(path, "file.py:name with the file's path")
    found = importlib.util.spec_from_file_location(f"cushion_user_{path.stem}", path)
    assert found is not None
    assert found.loader is not None
    code = importlib.util.module_from_spec(found)
    sys.modules[found.name] = code  # dataclasses and fx look their module up there
    try:
        with refusing(f"{path} could not be imported:", named=True):
            found.loader.exec_module(code)
    except BadInput:
        del sys.modules[found.name]
        raise
    return code


def call_factory(path: Path, name: str) -> nn.Module:
    """The net that `name` in the file is or returns, in eval mode; the file's code runs."""
    check_exists(path, "file.py:factory with the file's path")
    code = load_code(path)
    given = getattr(code, name, None)
    if isinstance(given, nn.Module) or (given is not None and is_fitted(given)):
        return unwrapped(given).eval()
    if not callable(given):
        raise BadInput(f"{path} has no function '{name}'; {_choices(path)}")
    needed = _needed(given)
    if needed:
        said = f"{path}:{name} needs {', '.join(needed)}"
        raise BadInput(f"{said}; write a function without arguments that calls it, and name that")
    with refusing(f"{path}:{name}() raised", named=True), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a net without weights of its own is the same one every time
        model = given()
    try:
        return unwrapped(model).eval()
    except BadInput:
        returned = type(model).__name__
        rule = "it must return an nn.Module or a fitted scikit-learn classifier"
        raise BadInput(f"{path}:{name}() returned {returned}; {rule}") from None


def refuse_without_name(path: Path) -> BadInput:
    """The sentence for file.py alone, which says what the file has; nothing of it runs."""
    check_exists(path, "file.py:factory with the file's path")
    return BadInput(f"{path} names no factory; {_choices(path)}")


def _needed(given: Any) -> list[str]:
    """The arguments that a call must have."""
    try:
        arguments = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # some callables of C do not say
        return []
    bundles = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    open_ones = (one for one in arguments if one.default is inspect.Parameter.empty)
    return [one.name for one in open_ones if one.kind not in bundles]


def _choices(path: Path) -> str:
    names = candidates(path.read_text(encoding="utf-8", errors="replace"))
    if not names:
        return f"write {path}:FUNCTION, a function without arguments that returns the nn.Module"
    others = f" (it also has {', '.join(names[1:6])})" if len(names) > 1 else ""
    return f"write {path}:{names[0]}{others}"


def candidates(source: str) -> list[str]:
    """What a file offers under names of its own, likeliest first, read without running it.

    >>> candidates("import torch\\ndef helper(a): ...\\ndef make_net(width=3): ...\\nx = 1")
    ['make_net']
    >>> candidates("class Net(nn.Module): ...\\nmodel = Net()")
    ['model', 'Net']
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found += [node.name] if not _has_open_arguments(node.args, 0) else []
        elif isinstance(node, ast.ClassDef) and node.bases:
            makers = (one for one in node.body if isinstance(one, ast.FunctionDef))
            init = next((one for one in makers if one.name == "__init__"), None)
            found += [node.name] if init is None or not _has_open_arguments(init.args, 1) else []
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            found += [one.id for one in node.targets if isinstance(one, ast.Name)]
    public = [name for name in dict.fromkeys(found) if not name.startswith("_")]
    return sorted(public, key=_rank)


def _rank(name: str) -> tuple[int, bool]:
    """Names that speak of nets first, functions and instances before classes."""
    places = (at for at, word in enumerate(_WORDS) if word in name.lower())
    return (0 if next(places, None) is not None else 1, name[0].isupper())


def _has_open_arguments(args: ast.arguments, bound: int) -> bool:
    plain = len(args.posonlyargs) + len(args.args) - len(args.defaults) - bound
    return plain > 0 or any(default is None for default in args.kw_defaults)

"""The numbers that make a net the net it is, whatever kind of net: what a fingerprint reads."""

from __future__ import annotations

import functools
import hashlib
import json
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cushion.nets.classifier import Logits, answers_only, is_program, is_quantised, unwrapped
from cushion.nets.hidden import BUFFERS, reached
from cushion.nets.normalise import Normalised
from cushion.nets.program_source import is_foreign

_CODE = (nn.Module, types.FunctionType, types.MethodType, functools.partial)
_PLAIN = (bool, int, float, str, bytes, type(None))


def numbers_of(model: Any) -> dict[str, Tensor]:
    """Every parameter and buffer of the net by name, a shared one under each of its names; and what
    else its forward reaches (`nets.hidden`), under names that begin with `.hidden`.

    Of a net that shows none of its numbers, those that it was made of: what a scikit-learn
    classifier learned, the bytes of an .onnx file, the whole numbers of a quantised layer, the
    constants of a frozen program. `Logits` around a net changes nothing. Numbers that
    the forward itself changes, or that nothing can read, are left out: then the net has no program
    fingerprint.
    """
    module = unwrapped(model)
    if isinstance(module, Logits):
        module = module.inner
    if isinstance(module, Normalised):
        inner = {f"inner.{name}": tensor for name, tensor in numbers_of(module.inner).items()}
        return {"mean": module.mean, "std": module.std, **inner}
    own = _registered(module)
    return own if is_program(module) or _own_numbers(module) is not None else own | _hidden(module)


def fingerprint_net(model: Any) -> str:
    """sha256 of f's parameters, buffers and whatever other numbers its forward reaches, sorted by
    name (FORMAT.md, section 5): not of the code that computes with them. How f is called or wrapped
    is no part of it.
    """
    return digest_of(numbers_of(model))


def digest_of(numbers: Mapping[str, Tensor]) -> str:
    """sha256 of numbers by name."""
    digest = hashlib.sha256(b"cushion-net-1\n")
    for name, tensor in sorted(numbers.items()):
        kind = str(tensor.dtype).removeprefix("torch.")
        said = json.dumps([name, kind, list(tensor.shape)], separators=(",", ":"))
        digest.update(said.encode() + b"\n")
        plain = tensor.detach().cpu().contiguous()
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")
    return digest.hexdigest()


def _own_numbers(module: nn.Module) -> Any:
    """How a net that gives answers only shows its numbers, where it is one of cushion's own."""
    own = getattr(module, "numbers", None)
    return own if own is not None and answers_only(module) else None


def _registered(module: nn.Module) -> dict[str, Tensor]:
    """What a module and those inside it say of themselves."""
    if (own := _own_numbers(module)) is not None:
        return dict(own())
    named: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    named |= dict(module.named_buffers(remove_duplicate=False))
    if is_program(module):
        return named | _constants(module)
    for path, part in _closed("", module):
        named |= {f"{path}.{name}": tensor for name, tensor in _registered(part).items()}
    return named | _packed(module)


def _closed(path: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules inside that show their numbers in a way of their own, each with its path."""
    for name, part in module.named_children():
        inside = f"{path}.{name}" if path else name
        if is_program(part) or _own_numbers(part) is not None:
            yield inside, part
        else:
            yield from _closed(inside, part)


def _hidden(root: Any) -> dict[str, Tensor]:
    """The numbers that a forward, or a function, reaches besides."""
    found: dict[str, Tensor] = {}
    for one in reached(root)[0]:
        parts: dict[str, Tensor] = {}
        if isinstance(one.value, nn.Module):
            parts = _registered(one.value)
        elif isinstance(one.value, torch.jit.ScriptFunction):
            parts = _constants(one.value)
        elif hasattr(type(one.value), "get_params"):
            parts = dict(learned("", one.value))
        elif isinstance(one.value, BUFFERS) and (raw := bytearray(one.value)):
            parts = {"": torch.frombuffer(raw, dtype=torch.uint8)}
        elif isinstance(one.value, np.ndarray):
            parts = dict(learned("", one.value))
        elif isinstance(one.value, Tensor):
            parts = {"": _dense(one.value)}
        for name, tensor in parts.items():
            path = f".hidden.{one.path}.{name}".rstrip(".")
            while path in found:  # two attributes of one name, such as a class's and its object's
                path += "'"
            found[path] = tensor
    return found


def _dense(tensor: Tensor) -> Tensor:
    """As numbers in their places."""
    plain = tensor.dequantize() if tensor.is_quantized else tensor
    dense = plain if plain.layout == torch.strided else plain.to_dense()
    return dense.resolve_conj().resolve_neg()


def _constants(program: Any) -> dict[str, Tensor]:
    """The tensors in a program's graph; freezing turns parameters into them."""
    graph = program.inlined_graph  # kept, because its nodes live in it
    nodes = graph.findAllNodes("prim::Constant")
    kept = (one for one in nodes if one.hasAttribute("value") and one.kindOf("value") == "t")
    return {f"constant.{at}": one.t("value") for at, one in enumerate(kept)}


def _packed(module: nn.Module) -> dict[str, Tensor]:
    """The whole numbers, scales and zero points inside quantised layers, which no list names."""
    found: dict[str, Tensor] = {}
    for path, layer in module.named_modules():
        if not is_quantised(layer) or not callable(weight_of := getattr(layer, "weight", None)):
            continue
        weight, bias = weight_of(), layer.bias()
        found[f"{path}.weight"] = weight.int_repr()
        if weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            found[f"{path}.scale"] = torch.tensor(weight.q_scale(), dtype=torch.float64)
        else:
            found[f"{path}.scale"] = weight.q_per_channel_scales()
        if bias is not None:
            found[f"{path}.bias"] = bias
    return found


def _is_called(value: Any) -> bool:
    return callable(value) and not hasattr(value, "get_params")


def learned(path: str, value: Any, above: tuple[int, ...] = ()) -> Iterator[tuple[str, Tensor]]:
    """The arrays inside a fitted classifier, each under its path; whatever is no array as its text.
    What is called has its name, and the numbers that its code reaches under `numbers`.

    above: the objects on the way here, by identity; a part that leads back to one of them ends.
    """
    if isinstance(value, (*_PLAIN, np.generic)):
        plain = value.item() if isinstance(value, np.generic) else value
        yield path, torch.frombuffer(bytearray(repr(plain).encode()), dtype=torch.uint8)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        wide = value.dtype.kind == "f" and value.dtype.itemsize > 8
        kind = np.dtype(np.float64) if wide else value.dtype.newbyteorder("=")
        yield path, torch.from_numpy(value.astype(kind, order="C"))
    elif isinstance(value, Tensor):
        yield path, value
    elif id(value) not in above:
        for name, part in _attributes(value):
            yield from learned(f"{path}.{name}" if path else name, part, (*above, id(value)))
        if _is_called(value) and (is_foreign(type(value)) or isinstance(value, _CODE)):
            inside = numbers_of(value) if isinstance(value, nn.Module) else _hidden(value)
            yield from ((f"{path}.numbers.{name}", part) for name, part in inside.items())


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """The named parts of an object, in order of their names."""
    if isinstance(value, np.ndarray):
        names = value.dtype.names  # a field at a time: the bytes between fields mean nothing
        return _attributes({n: value[n].copy() for n in names} if names else value.tolist())
    if isinstance(value, Mapping):
        return sorted(((str(k), part) for k, part in value.items()), key=lambda one: one[0])
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [(str(at), part) for at, part in enumerate(items)]
    if _is_called(value):
        return [("name", getattr(value, "__qualname__", type(value).__name__))]
    if isinstance(value, torch.optim.Optimizer):  # has done its work
        return [("kind", type(value).__name__)]
    # objects of Python have a dict; those of C say their state
    state = vars(value) if hasattr(value, "__dict__") else value.__reduce__()[1:3]
    return [("kind", type(value).__name__), *_attributes(state)]

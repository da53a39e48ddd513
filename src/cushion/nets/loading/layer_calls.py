"""A program's calls with stored weights as layers, so that hooks find in it what they find in any
net: `linear_1(x)` in place of `F.linear(x, weight, bias)`, named after the call.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

Given: TypeAlias = dict[str, Any]
_NUMBERS = ("weight", "bias", "running_mean", "running_var")


def layers_for_calls(module: fx.GraphModule) -> None:
    """Put a layer in the place of every call that reads its numbers from the module, in place.

    The layers share the module's numbers. A call with a computed weight stays a call.
    """
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target not in _LAYERS:
            continue
        names, make = _LAYERS[node.target]
        given = {**dict(zip(names.split(), node.args, strict=False)), **node.kwargs}
        if (stored := _stored(module, given)) is None:
            continue
        if node.target is F.linear and stored["weight"].ndim != 2:  # an inner product
            continue
        layer = make({**given, **stored})
        for name in (name for name in stored if hasattr(layer, name)):
            setattr(layer, name, stored[name])
        name = _free_name(module, node.name)
        module.add_submodule(name, layer.eval())
        with module.graph.inserting_before(node):
            node.replace_all_uses_with(module.graph.call_module(name, (given["input"],)))
        module.graph.erase_node(node)
    module.graph.eliminate_dead_code(lambda node: node.op not in ("get_attr", "call_module"))
    module.recompile()


def _free_name(module: nn.Module, wanted: str) -> str:
    """The call's name, with a number behind it where the module has something called so."""
    name, at = wanted, 1
    while hasattr(module, name):
        name, at = f"{wanted}_{at}", at + 1
    return name


def _stored(module: nn.Module, given: Given) -> Given | None:
    """The numbers among the arguments, as the module stores them; None if one is computed, or
    there is no weight.
    """
    found: Given = {}
    for name in (name for name in _NUMBERS if given.get(name) is not None):
        if not isinstance(given[name], fx.Node) or given[name].op != "get_attr":
            return None
        found[name] = attrgetter(given[name].target)(module)
    if not isinstance(found.get("weight"), Tensor):
        return None
    return {name: _parameter(name, value) for name, value in found.items()}


def _parameter(name: str, value: Tensor) -> Tensor:
    """Weights and biases as parameters, also where the program has them as constants."""
    if name.startswith("running") or isinstance(value, nn.Parameter):
        return value
    return nn.Parameter(value, requires_grad=False)


def _linear(given: Given) -> nn.Module:
    outputs, inputs = given["weight"].shape
    return nn.Linear(inputs, outputs, bias=given.get("bias") is not None, **_META)


def _convolution(kind: Callable[..., nn.Module]) -> Callable[[Given], nn.Module]:
    def make(given: Given) -> nn.Module:
        weight, groups = given["weight"], given.get("groups", 1)
        sizes = weight.shape[1] * groups, weight.shape[0], tuple(weight.shape[2:])
        how = {name: given[name] for name in ("stride", "padding", "dilation") if name in given}
        each = {name: _each(value, weight.ndim - 2) for name, value in how.items()}
        return kind(*sizes, groups=groups, bias=given.get("bias") is not None, **each, **_META)

    return make


def _each(value: Any, axes: int) -> Any:
    """One number an axis; a word such as "same" as it is."""
    if isinstance(value, str | int):
        return value
    return tuple(value) if len(value) == axes else tuple(value) * axes


def _embedding(given: Given) -> nn.Module:
    return nn.Embedding(*given["weight"].shape, **_META)


_META: Any = {"device": torch.device("meta")}  # numbers come from the program
_CONV = "input weight bias stride padding dilation groups"
_LAYERS: dict[Any, tuple[str, Callable[[Given], nn.Module]]] = {
    F.linear: ("input weight bias", _linear),
    F.conv1d: (_CONV, _convolution(nn.Conv1d)),
    F.conv2d: (_CONV, _convolution(nn.Conv2d)),
    F.conv3d: (_CONV, _convolution(nn.Conv3d)),
    torch.ops.aten.embedding.default: ("weight input", _embedding),
}

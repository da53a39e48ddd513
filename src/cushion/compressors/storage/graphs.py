"""A net's architecture as plain data, and back as a net of zeros: what a decoder of stored numbers
knows beforehand.

A description may come from anywhere: every number in it is checked, and every node's shape is
computed, before anything is allocated. The zeros themselves take no memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from cushion.errors import CushionError, Malformed, Unsupported
from cushion.nets.network import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    Affine,
    AvgPool,
    Cat,
    Flatten,
    Input,
    MaxPool,
    Network,
    Node,
    Op,
    ReLU,
    Unflatten,
)
from cushion.nets.operators import Conv2d, Diagonal, Linear, Operator

_PLAIN: dict[str, type[Any]] = {kind.__name__: kind for kind in (Input, ReLU, Flatten, Add, Cat)}
_OPERATORS: dict[str, type[Operator]] = {"linear": Linear, "conv2d": Conv2d, "batchnorm": Diagonal}
_LARGEST = 1 << 28  # numbers of one map, and of all weights together
_LONGEST_NAME = 500
_MOST_NODES = 10_000
_MOST_EDGES = 100_000


def describe_graph(net: Network) -> dict[str, Any]:
    """The graph without its numbers, JSON-ready."""
    for node in net.affine_layers:
        if not isinstance(node.affine.operator, Linear | Conv2d | Diagonal):
            raise Unsupported(
                f"{node.name} was compressed before and has no plain weight; compress the original "
                "net"
            )
    return {
        "dtype": str(net.dtype).removeprefix("torch."),
        "nodes": [
            {
                "name": node.name,
                "inputs": list(node.inputs),
                "shape": list(node.shape),
                **_describe(node.op),
            }
            for node in net.nodes
        ],
    }


def rebuild_graph(description: Any, where: str) -> Network:
    """A net of zeros with this graph; Malformed, naming `where`, unless it is one that can be
    run.
    """
    try:
        dtype = {"float32": torch.float32, "float64": torch.float64}[description["dtype"]]
        if not 0 < len(description["nodes"]) <= _MOST_NODES:
            raise ValueError("a net has at least one node")
        if sum(len(entry["inputs"]) for entry in description["nodes"]) > _MOST_EDGES:
            raise ValueError("nodes read few others")
        net = Network(
            tuple(_node(index, entry, dtype) for index, entry in enumerate(description["nodes"]))
        )
        _check(net)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
        CushionError,
    ):
        raise Malformed(
            f"{where} describes no net that can be run; write it again with cushion compress"
        ) from None
    return net


def _describe(op: Op) -> dict[str, Any]:
    name = type(op).__name__
    if not isinstance(op, Affine):
        return {"op": name, **asdict(op)}
    operator = op.operator
    entry = {
        "op": name,
        "kind": op.kind,
        "operator": type(operator).__name__,
        "weight": list(operator.weight.shape),
        "bias": op.bias is not None,
    }
    if isinstance(operator, Conv2d):
        entry |= {
            key: getattr(operator, key)
            for key in ("input_shape", "stride", "padding", "dilation", "groups")
        }
    elif isinstance(operator, Diagonal):
        entry["input_shape"] = operator.input_shape
    return entry


def _node(index: int, entry: dict[str, Any], dtype: torch.dtype) -> Node:
    inputs = tuple(_whole(i) for i in entry["inputs"])
    if any(i >= index for i in inputs) or (index == 0) != (entry["op"] == "Input"):
        raise ValueError("nodes read earlier ones, and only the first is the input")
    name = entry["name"]
    if not (isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME):
        raise ValueError("a node has a printable name")
    return Node(index, name, _op(entry, dtype), inputs, _sides(entry["shape"]))


def _op(entry: dict[str, Any], dtype: torch.dtype) -> Op:
    name = entry["op"]
    if name == "Affine":
        if _OPERATORS[entry["kind"]].__name__ != entry["operator"]:
            raise ValueError("no such layer")
        operator = _operator(entry, torch.zeros((), dtype=dtype).expand(_sides(entry["weight"])))
        bias = (
            torch.zeros((), dtype=dtype).expand(operator.output_shape[0])
            if _flag(entry["bias"])
            else None
        )
        return Affine(operator, bias, entry["kind"])
    if name in _PLAIN:
        found: Op = _PLAIN[name]()
        return found
    if name == "Unflatten":  # its own shape is the node's
        return Unflatten(_sides(entry["shape"]))
    if name in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
        return (AdaptiveAvgPool if name == "AdaptiveAvgPool" else AdaptiveMaxPool)(
            _pair(entry["output"], 1)
        )
    window = _pair(entry["kernel"], 1), _pair(entry["stride"], 1), _pair(entry["padding"])
    if name == "MaxPool":
        return MaxPool(*window, _pair(entry["dilation"], 1), _flag(entry["ceil_mode"]))
    if name != "AvgPool":
        raise ValueError("no such operation")
    divisor = None if entry["divisor"] is None else _whole(entry["divisor"], 1)
    return AvgPool(*window, _flag(entry["ceil_mode"]), _flag(entry["count_include_pad"]), divisor)


def _operator(entry: dict[str, Any], weight: torch.Tensor) -> Operator:
    if entry["operator"] == "Linear":
        _, _ = weight.shape
        return Linear(weight)
    if entry["operator"] == "Diagonal":
        (channels,), shape = weight.shape, _sides(entry["input_shape"])
        if channels != shape[0]:
            raise ValueError("one factor a channel")
        return Diagonal(weight, shape)
    out, _, _, _ = weight.shape
    a, b, c, d = (_whole(value) for value in entry["padding"])
    stride, dilation, groups = (
        _pair(entry["stride"], 1),
        _pair(entry["dilation"], 1),
        _whole(entry["groups"], 1),
    )
    if out % groups:
        raise ValueError("groups of equal size")
    return Conv2d(weight, _sides(entry["input_shape"]), stride, (a, b, c, d), dilation, groups)


def _check(net: Network) -> None:
    """ValueError unless every node computes the shape that it says, and all weights together are
    few enough.
    """
    if net.parameters > _LARGEST:
        raise ValueError("too many weights")
    for node in net.nodes[1:]:
        if _computed(node.op, [net.nodes[i].shape for i in node.inputs]) != node.shape:
            raise ValueError("a node's shape is not what it computes")
    if len(net.nodes[-1].shape) != 1 or net.classes < 2:
        raise ValueError("the last node gives scores")


def _computed(op: Op, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of one example's output; ValueError where the operation cannot read such inputs."""
    if isinstance(op, Cat):
        if len({(len(shape), shape[1:]) for shape in shapes}) != 1:
            raise ValueError("maps of one size")
        return sum(shape[0] for shape in shapes), *shapes[0][1:]
    if isinstance(op, Add):
        if len(set(shapes)) != 1:
            raise ValueError("maps of one shape")
        return shapes[0]
    (shape,) = shapes
    if isinstance(op, Affine):
        if op.operator.input_shape != shape:
            raise ValueError("a map of another shape")
        return op.operator.output_shape
    if isinstance(op, Flatten | Unflatten):
        target = (math.prod(shape),) if isinstance(op, Flatten) else op.shape
        if math.prod(target) != math.prod(shape):
            raise ValueError("as many numbers")
        return target
    if isinstance(op, ReLU):
        return shape
    channels, *sides = shape
    if isinstance(op, AdaptiveAvgPool | AdaptiveMaxPool):
        _, _ = sides
        return channels, *op.output
    assert isinstance(op, MaxPool | AvgPool)
    dilations = op.dilation if isinstance(op, MaxPool) else (1, 1)
    windows = zip(sides, op.kernel, op.stride, op.padding, dilations, strict=True)
    return channels, *(_pooled(*window, ceil_mode=op.ceil_mode) for window in windows)


def _pooled(
    side: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil_mode: bool
) -> int:
    """How many windows there are: none begins in the padding behind the map (as in torch)."""
    extent = dilation * (kernel - 1) + 1
    count = (side + 2 * padding - extent + (stride - 1 if ceil_mode else 0)) // stride + 1
    if (count - 1) * stride >= side + padding:
        count -= 1
    if 2 * padding > extent or count < 1:
        raise ValueError("a window does not fit")
    return count


def _sides(value: Any) -> tuple[int, ...]:
    sides = tuple(_whole(side) for side in value)
    if not sides or min(sides) < 1 or math.prod(sides) > _LARGEST:
        raise ValueError("a shape has sides of at least 1")
    return sides


def _whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= _LARGEST:
        raise TypeError("not a whole number")
    return value


def _pair(value: Any, least: int = 0) -> tuple[int, int]:
    first, second = (_whole(side, least) for side in value)
    return first, second


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("neither true nor false")
    return value

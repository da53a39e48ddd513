"""A net's architecture as plain data, and back as a net of zeros: what a decoder of stored numbers
knows beforehand.

A description may come from anywhere: every number in it is checked, and every node's shape is
computed, before anything is allocated. The zeros themselves take no memory.
"""

from __future__ import annotations

from typing import Any

import torch

from cushion.errors import CushionError, Malformed, Unsupported
from cushion.nets.entries import LARGEST, sides, whole
from cushion.nets.network import Network, Node
from cushion.nets.operations.affine import KINDS
from cushion.nets.operations.operation import OPERATIONS
from cushion.nets.operations.vocabulary import Refused

_LONGEST_NAME = 500
_MOST_NODES = 10_000
_MOST_EDGES = 100_000
# what a description that was made up may run into
_RAISED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)


def describe_graph(net: Network) -> dict[str, Any]:
    """The graph without its numbers, JSON-ready."""
    for node in net.affine_layers:
        if type(node.affine.operator) not in KINDS.values():
            raise Unsupported(f"layer {node.name} was compressed before; compress the original net")
    nodes = [
        {"name": node.name, "inputs": list(node.inputs), "shape": list(node.shape)}
        | node.op.describe()
        for node in net.nodes
    ]
    return {"dtype": str(net.dtype).removeprefix("torch."), "nodes": nodes}


def rebuild_graph(description: Any, where: str) -> Network:
    """A net of zeros with this graph; Malformed, naming `where`, unless it can be run."""
    try:
        dtype = {"float32": torch.float32, "float64": torch.float64}[description["dtype"]]
        nodes = description["nodes"]
        if not 0 < len(nodes) <= _MOST_NODES:
            raise ValueError("a net has at least one node")
        if sum(len(entry["inputs"]) for entry in nodes) > _MOST_EDGES:
            raise ValueError("nodes read few others")
        net = Network(tuple(_node(index, entry, dtype) for index, entry in enumerate(nodes)))
        _check(net)
    except (*_RAISED, CushionError, Refused):
        raise Malformed(f"{where} describes no net that can be run; compress it again") from None
    return net


def _node(index: int, entry: dict[str, Any], dtype: torch.dtype) -> Node:
    inputs = tuple(whole(i) for i in entry["inputs"])
    if any(i >= index for i in inputs) or (index == 0) != (entry["op"] == "Input"):
        raise ValueError("nodes read earlier ones, and only the first is the input")
    name = entry["name"]
    if not (isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME):
        raise ValueError("a node has a printable name")
    op = OPERATIONS[entry["op"]].rebuild(entry, dtype)
    return Node(index, name, op, inputs, sides(entry["shape"]))


def _check(net: Network) -> None:
    """ValueError unless every node computes the shape that it says, and weights are few enough."""
    if net.parameters > LARGEST:
        raise ValueError("too many weights")
    for node in net.nodes[1:]:
        if node.op.output_shape(*(net.nodes[i].shape for i in node.inputs)) != node.shape:
            raise ValueError("a node's shape is not what it computes")
    if len(net.nodes[-1].shape) != 1 or net.classes < 2:
        raise ValueError("the last node gives scores")

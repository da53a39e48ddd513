"""A compressed net as a file: its message and its graph; nothing in it is ever run.

The graph is the architecture as plain data, and a net of zeros again, which take no memory: what a
decoder of stored numbers knows beforehand. A description may come from anywhere: every number in it
is checked, and every node's shape is computed, before anything is allocated. What follows from the
rest is left out: shapes, and that a node reads the one before it.

The head of the file (`container`) is the graph and notes on how the net was made; its message, the
stored numbers and the seed; its start, if any, the initialisation of layer N as start.N.*.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.container import Contents, pack, unpack
from cushion.compressors.registry import load_kinds
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.data.files import write_whole
from cushion.errors import BadInput, CushionError, Malformed, Unsupported
from cushion.nets.entries import LARGEST, sides, whole
from cushion.nets.loading.refusals import check_exists
from cushion.nets.loading.weights import is_compressed as is_compressed
from cushion.nets.network import Network, Node
from cushion.nets.operations.affine import KINDS
from cushion.nets.operations.operation import OPERATIONS
from cushion.nets.operations.vocabulary import Refused

_LONGEST_NAME = 500
# what most layers of a kind have, and a graph leaves out
_USUAL: dict[str, dict[str, Any]] = {
    "Affine": {
        "bias": True,
        "stride": [1, 1],
        "padding": [0, 0, 0, 0],
        "dilation": [1, 1],
        "groups": 1,
    },
    "MaxPool": {"padding": [0, 0], "dilation": [1, 1], "ceil_mode": False},
    "AvgPool": {
        "padding": [0, 0],
        "ceil_mode": False,
        "count_include_pad": True,
        "divisor": None,
    },
}
_MOST_NODES = 10_000
_MOST_EDGES = 100_000
# what a description that was made up may run into
_RAISED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)


@dataclass(frozen=True, eq=False, repr=False)
class CompressedNet:
    """What is stored, the net that it stands for, and how it was made."""

    stored: StoredNet
    frame: Network  # the graph; its own numbers are not used
    notes: dict[str, Any]
    start: Network | None = None

    @cached_property
    def network(self) -> Network:
        """The net, rebuilt from the stored numbers and the helper string."""
        return self.stored.network(self.frame, self.start)

    def __repr__(self) -> str:
        return f"CompressedNet({self.stored.parameters} numbers, {self.stored.bits} bits)"

    def to_bytes(self) -> bytes:
        """The file."""
        start = {}
        if self.start is not None:
            for at, node in enumerate(self.start.affine_layers, 1):
                start[f"start.{at}.weight"] = node.affine.operator.weight
                if node.affine.bias is not None:
                    start[f"start.{at}.bias"] = node.affine.bias
        head = {"graph": describe_graph(self.frame), "notes": self.notes}
        coded = self.stored.coded
        return pack(Contents(head, coded.data, coded.bits, start))

    def save(self, path: str | Path) -> Path:
        """Write the file; it appears whole or not at all."""
        write_whole(Path(path), self.to_bytes())
        return Path(path)


def read_compressed(path: str | Path) -> CompressedNet:
    """Read a compressed net; its weights are rebuilt from the stored numbers and the seed alone."""
    check_exists(Path(path), "a file that cushion compress wrote")
    if not is_compressed(path):
        raise BadInput(f"{path} is not a compressed net; give a file that cushion compress wrote")
    return from_bytes(Path(path).read_bytes(), str(path))


def from_bytes(content: bytes, where: str) -> CompressedNet:
    """The net of a file's contents; Malformed, naming `where`, unless it is one."""
    contents = unpack(content, where)
    notes = contents.head.get("notes")
    if "graph" not in contents.head or not isinstance(notes, dict):
        raise Malformed(f"{where} is damaged: it lacks the graph or notes of a compressed net")
    frame = rebuild_graph(contents.head["graph"], where)
    load_kinds()
    try:
        stored = read_stored(contents.message, contents.bits, frame)
        found = CompressedNet(stored, frame, notes, _start(frame, contents.start))
        with np.errstate(over="ignore", invalid="ignore"):
            _check_finite(found.network)
    except CushionError as problem:
        raise Malformed(f"{where} is damaged: {problem}; write it again") from None
    return found


def _start(frame: Network, tensors: Mapping[str, Tensor]) -> Network | None:
    """The file's initialisation, if any; Malformed unless it is this graph's to the last tensor."""
    if not tensors:
        return None
    changes, left = {}, dict(tensors)
    for at, node in enumerate(frame.affine_layers, 1):
        affine = node.affine
        weight, bias = left.pop(f"start.{at}.weight", None), left.pop(f"start.{at}.bias", None)
        if not _alike(weight, affine.operator.weight) or not _alike(bias, affine.bias):
            raise Malformed(f"the initialisation of {node.name} lacks its shape or dtype")
        assert weight is not None
        operator = affine.operator.with_weight(weight)
        changes[node.index] = replace(affine, operator=operator, bias=bias)
    if left:
        raise Malformed(f"it holds a tensor {min(left)!r} that no compressed net has")
    return frame.with_affine(changes)


def _alike(found: Tensor | None, wanted: Tensor | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return found.shape == wanted.shape and found.dtype == wanted.dtype


def _check_finite(net: Network) -> None:
    for node in net.affine_layers:
        for part in (node.affine.operator.weight, node.affine.bias):
            if part is not None and not bool(torch.isfinite(part).all()):
                raise Malformed(f"a weight of {node.name} is infinite or not a number")


def describe_graph(net: Network) -> dict[str, Any]:
    """The graph without its numbers, JSON-ready."""
    for node in net.affine_layers:
        if type(node.affine.operator) not in KINDS.values():
            raise Unsupported(f"layer {node.name} was compressed before; compress the original net")
    nodes = []
    for node in net.nodes:
        said = {"name": node.name, **node.op.describe()}
        usual = _USUAL.get(said["op"], {})
        for key in ("operator", "input_shape", *usual):
            value = said.get(key)
            if key not in usual or (list(value) if type(value) is tuple else value) == usual[key]:
                said.pop(key, None)
        if node.inputs not in ((), (node.index - 1,)):
            said["inputs"] = list(node.inputs)
        if node.index == 0:
            said["shape"] = list(node.shape)
        nodes.append(said)
    return {"dtype": str(net.dtype).removeprefix("torch."), "nodes": nodes}


def rebuild_graph(description: Any, where: str) -> Network:
    """A net of zeros with this graph; Malformed, naming `where`, unless it can be run and is said
    as `describe_graph` says it.
    """
    try:
        dtype = {"float32": torch.float32, "float64": torch.float64}[description["dtype"]]
        nodes = description["nodes"]
        if not 0 < len(nodes) <= _MOST_NODES:
            raise ValueError("a net has at least one node")
        if sum(len(entry.get("inputs", ())) for entry in nodes) > _MOST_EDGES:
            raise ValueError("nodes read few others")
        read: list[Node] = []
        for index, entry in enumerate(nodes):
            read.append(_node(index, entry, dtype, read))
        net = Network(tuple(read))
        _check_graph(net)
        if _written(describe_graph(net)) != _written(description):
            raise ValueError("a graph says what does not follow, and nothing else")
    except (*_RAISED, CushionError, Refused):
        raise Malformed(f"{where} describes no net that can be run; compress it again") from None
    return net


def _written(description: Any) -> str:
    return json.dumps(description, sort_keys=True)


def _node(index: int, entry: dict[str, Any], dtype: torch.dtype, before: Sequence[Node]) -> Node:
    inputs = tuple(map(whole, entry.get("inputs", [index - 1] if index else [])))
    if any(i >= index for i in inputs) or (index == 0) != (entry["op"] == "Input"):
        raise ValueError("nodes read earlier ones, and only the first is the input")
    name = entry["name"]
    if not (isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME):
        raise ValueError("a node has a printable name")
    shapes = [before[i].shape for i in inputs]
    follows: dict[str, Any] = {}
    entry = {**_USUAL.get(entry["op"], {}), **entry}
    if entry["op"] == "Affine":
        follows = {"operator": KINDS[entry["kind"]].__name__, "input_shape": list(shapes[0])}
    op = OPERATIONS[entry["op"]].rebuild({**entry, **follows}, dtype)
    shape = op.output_shape(*shapes) if index else sides(entry["shape"])
    return Node(index, name, op, inputs, shape)


def _check_graph(net: Network) -> None:
    """ValueError unless weights are few enough and the last node gives scores."""
    if net.parameters > LARGEST:
        raise ValueError("too many weights")
    if len(net.nodes[-1].shape) != 1 or net.classes < 2:
        raise ValueError("the last node gives scores")

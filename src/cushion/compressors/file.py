"""A compressed net as a file: its message and its graph, in safetensors; nothing in it is ever run.

The graph is the architecture as plain data, and a net of zeros again, which take no memory: what a
decoder of stored numbers knows beforehand. A description may come from anywhere: every number in it
is checked, and every node's shape is computed, before anything is allocated.

metadata   format, bits, graph (JSON), notes (JSON) on how the net was made, and sha256 of it all
message    uint8: the stored numbers and the seed, `bits` long, padded with zeros
start.N.*  the initialisation of layer N, where the net was compressed from its initialisation
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.registry import load_kinds
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.errors import BadInput, CushionError, Malformed, Unsupported
from cushion.nets.entries import LARGEST, sides, whole
from cushion.nets.loading.weights import read_metadata, read_tensors, save_tensors
from cushion.nets.network import Network, Node
from cushion.nets.operations.affine import KINDS
from cushion.nets.operations.operation import OPERATIONS
from cushion.nets.operations.vocabulary import Refused

FORMAT = "cushion-compressed-1"
_BITS = re.compile("[0-9]{1,12}")
_LONGEST_NAME = 500
_MOST_NODES = 10_000
_MOST_EDGES = 100_000
# what a description that was made up may run into
_RAISED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)


@dataclass(frozen=True, eq=False)
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

    def save(self, path: str | Path) -> Path:
        """Write the file; it appears whole or not at all."""
        data = bytearray(self.stored.coded.data)
        tensors = {"message": torch.frombuffer(data, dtype=torch.uint8)}
        if self.start is not None:
            for at, node in enumerate(self.start.affine_layers, 1):
                tensors[f"start.{at}.weight"] = node.affine.operator.weight
                if node.affine.bias is not None:
                    tensors[f"start.{at}.bias"] = node.affine.bias
        metadata = {
            "format": FORMAT,
            "bits": str(self.stored.bits),
            "graph": json.dumps(describe_graph(self.frame), separators=(",", ":")),
            "notes": json.dumps(self.notes, sort_keys=True),
        }
        save_tensors(Path(path), tensors, {**metadata, "sha256": _digest(tensors, metadata)})
        return Path(path)


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 of bits, graph, notes, and every tensor's name and bytes, sorted by name.

    A flipped bit of the message may be another net's, and so may one of the graph's.
    """
    said = [metadata[key] for key in ("bits", "graph", "notes")]
    found = hashlib.sha256(json.dumps(said).encode())
    for name, tensor in sorted(tensors.items()):
        plain = tensor.detach().cpu().contiguous()
        found.update(name.encode() + b"\n" + plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def is_compressed(path: str | Path) -> bool:
    """Whether the file says that it is a compressed net."""
    return Path(path).is_file() and read_metadata(Path(path)).get("format") == FORMAT


def load_compressed(path: str | Path) -> CompressedNet:
    """Read a compressed net; its weights are rebuilt from the stored numbers and the seed alone."""
    tensors, metadata = read_tensors(Path(path))
    if metadata.get("format") != FORMAT:
        raise BadInput(f"{path} is not a compressed net; give a file that cushion compress wrote")
    try:
        bits, message = metadata["bits"], tensors.pop("message")
        graph, notes = json.loads(metadata["graph"]), json.loads(metadata["notes"])
        bytes_ = message.dtype == torch.uint8 and message.ndim == 1
        if not (bytes_ and isinstance(notes, dict) and _BITS.fullmatch(bits)):
            raise ValueError("no message")
    except (KeyError, ValueError, RecursionError):
        raise Malformed(f"{path} lacks the message or notes of a compressed net") from None
    if metadata.get("sha256") != _digest({"message": message, **tensors}, metadata):
        raise Malformed(f"{path} is damaged: its contents are not those that were written")
    frame = rebuild_graph(graph, str(path))
    load_kinds()
    try:
        stored = read_stored(np.ascontiguousarray(message.numpy()).tobytes(), int(bits), frame)
        found = CompressedNet(stored, frame, notes, _start(frame, tensors))
        with np.errstate(over="ignore", invalid="ignore"):
            _check_finite(found.network)
    except CushionError as problem:
        raise Malformed(f"{path} is damaged: {problem}; write it again") from None
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
        _check_graph(net)
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


def _check_graph(net: Network) -> None:
    """ValueError unless every node computes the shape that it says, and weights are few enough."""
    if net.parameters > LARGEST:
        raise ValueError("too many weights")
    for node in net.nodes[1:]:
        if node.op.output_shape(*(net.nodes[i].shape for i in node.inputs)) != node.shape:
            raise ValueError("a node's shape is not what it computes")
    if len(net.nodes[-1].shape) != 1 or net.classes < 2:
        raise ValueError("the last node gives scores")

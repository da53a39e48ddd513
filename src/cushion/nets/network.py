"""A traced net: affine layers, ReLUs, poolings and joins in the order in which data passes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from cushion.errors import BadInput, Unsupported
from cushion.nets.operations import Affine, Operation
from cushion.nets.operations.operation import Shape


@dataclass(frozen=True, eq=False)
class Node:
    """One operation; `inputs` are the indices, below its own, of the nodes that it reads."""

    index: int
    # the module's path ("layer1.0.conv1"), or that of the caller and the operation ("layer1.0.add")
    name: str
    op: Operation
    inputs: tuple[int, ...]
    shape: Shape  # of one example's output

    @property
    def affine(self) -> Affine:
        """The affine map of this node; only for nodes in `Network.affine_layers`."""
        if not isinstance(self.op, Affine):
            raise Unsupported(f"{self.name} is a {type(self.op).__name__}, not an affine layer")
        return self.op


# properties of operations that definitions and theorems rely on
Premise: TypeAlias = Literal["homogeneous", "piecewise_linear", "rectifies", "contracts"]
_LACKING: dict[Premise, str] = {
    "homogeneous": "is not positively homogeneous: f(c x) = c f(x) fails for some c > 0",
    "piecewise_linear": "is not piecewise linear",
    "rectifies": "neither is linear nor passes its input or 0, as ReLU does",
    "contracts": "is not positively homogeneous with slopes of at most 1",
}
_INSTEAD = "margins, norms, tails and sharpness do not need that"

Stage: TypeAlias = Literal["input", "linear", "output"]
Observer: TypeAlias = Callable[[Node, Stage, Tensor], None]
Layer: TypeAlias = Callable[[Node, Tensor], Tensor]


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A graph of nodes in topological order: node 0 is the input, the last gives the logits.

    Its tensors are its own copies, without gradients; it computes what the traced module computes
    in eval mode. A module that is called twice appears as two nodes ("fc" and "fc#2"), and
    `parameters` counts both.
    """

    nodes: tuple[Node, ...]

    def __repr__(self) -> str:
        layers = ", ".join(node.name for node in self.affine_layers[:8])
        layers += ", ..." if len(self.affine_layers) > 8 else ""
        shapes = f"{self.input_shape} -> {self.classes}"
        return f"Network({shapes}, {self.parameters} parameters, layers {layers})"

    @property
    def input_shape(self) -> Shape:
        return self.nodes[0].shape

    @property
    def classes(self) -> int:
        return self.nodes[-1].shape[0]

    @cached_property
    def affine_layers(self) -> tuple[Node, ...]:
        """The affine nodes, in the order in which data passes them."""
        return tuple(node for node in self.nodes if isinstance(node.op, Affine))

    @property
    def parameters(self) -> int:
        """Numbers in all weights and biases, batch-norms folded."""
        return sum(node.affine.parameters for node in self.affine_layers)

    @property
    def uncharged(self) -> tuple[str, ...]:
        """Operations that are no affine layers and yet have numbers that training chose."""
        return tuple(node.name for node in self.nodes if getattr(node.op, "learnt", False))

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights; a batch must have it too."""
        return self.affine_layers[0].affine.operator.weight.dtype

    @property
    def device(self) -> torch.device:
        """Of the weights; a batch must be there too."""
        return self.affine_layers[0].affine.operator.weight.device

    def forward(self, x: Tensor) -> Tensor:
        """[B, *input_shape] -> logits [B, classes]."""
        return self.run(x, None)

    @torch.no_grad()
    def run(self, x: Tensor, observe: Observer | None) -> Tensor:
        """The logits; `observe` sees every affine layer's input, A·input, and that plus bias.

        An observer that only reads costs a forward pass: the bias is added in place and each
        activation is freed after its last use, so it must clone what it wants to keep.
        """
        return self.evaluate(x, None if observe is None else partial(_observed, observe))

    def evaluate(self, x: Tensor, layer: Layer | None = None) -> Tensor:
        """The logits; `layer` computes affine nodes from their inputs (None: their own maps).

        Outside torch.no_grad gradients flow to x and to the weights of affine maps put in with
        `with_affine`.
        """
        if tuple(x.shape[1:]) != self.input_shape:
            said = f"{self.input_shape}, not {tuple(x.shape[1:])}"
            fix = "reshape the data or trace the net with that input shape"
            raise BadInput(f"the net reads examples of shape {said}; {fix}")
        alive: dict[int, Tensor] = {0: x}
        for node in self.nodes[1:]:
            values = [alive[i] for i in node.inputs]
            own = layer is None or not isinstance(node.op, Affine)
            output = node.op(*values) if own else layer(node, *values)  # type: ignore[misc]
            self.forget(alive, node)
            alive[node.index] = output
        return alive[self.nodes[-1].index]

    def forget(self, values: dict[int, Tensor], node: Node) -> None:
        """Drop the values that nobody reads after `node`."""
        for i in node.inputs:
            if self.users[i][-1] == node.index:
                values.pop(i, None)

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For every node, the indices of the nodes that read it."""
        lists: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for i in dict.fromkeys(node.inputs):
                lists[i].append(node.index)
        return tuple(map(tuple, lists))

    def descendants(self, index: int) -> frozenset[int]:
        """The nodes whose values depend on this one's, itself not among them."""
        found: set[int] = set()
        for node in self.nodes[index + 1 :]:
            if any(i == index or i in found for i in node.inputs):
                found.add(node.index)
        return frozenset(found)

    @property
    def is_chain(self) -> bool:
        """Whether each node reads just the one before it: x^i alone determines all after it."""
        return not self.not_a_chain_because

    @cached_property
    def not_a_chain_because(self) -> str:
        """One sentence about the first fork or join, or "" for a chain."""
        for node in self.nodes:
            users = [self.nodes[i] for i in self.users[node.index]]
            if len(users) > 1:
                names = [user.name for user in users]
                said = f"{node.name} is read by {', '.join(names[:-1])} and {names[-1]}"
                join = self._join_after(node)
                said += f", and {join.name} joins their branches" if join else ""
                between = f"{node.name} and {join.name if join else 'the logits'}"
                said += f", so between {between} no single vector x^i separates the net"
                return f"the output of {said}"
            if len(node.inputs) > 1:  # without a fork: a value joined with itself
                twice = self.nodes[node.inputs[0]].name
                return f"{node.name} reads {twice} more than once, which no layer of a chain does"
        return ""

    def _join_after(self, fork: Node) -> Node | None:
        """The first node after which one vector again carries everything that left `fork`."""
        open_until = self.users[fork.index][-1]
        for node in self.nodes[fork.index + 1 :]:
            if node.index >= open_until:
                return node
            open_until = max(open_until, *self.users[node.index])
        return None

    def chain(self) -> tuple[Node, ...]:
        """The affine layers of a chain, in order; Unsupported, saying where, if it is none."""
        if not self.is_chain:
            raise Unsupported(f"the net is not a chain of layers: {self.not_a_chain_because}")
        return self.affine_layers

    def lacks(self, premise: Premise, asks: str) -> str:
        """One sentence about the first operation without a premise of what `asks`, or ""."""
        held = (isinstance(node.op, Affine) or getattr(node.op, premise) for node in self.nodes[1:])
        node = next((n for n, ok in zip(self.nodes[1:], held, strict=True) if not ok), None)
        if node is None:
            return ""
        said = f"{node.name} ({type(node.op).__name__.lower()}) {_LACKING[premise]}"
        return f"{asks} holds for nets without such layers only: {said}; {_INSTEAD}"

    def require(self, premise: Premise, asks: str) -> None:
        """Unsupported, naming the layer and the premise, where an operation does not have it."""
        if said := self.lacks(premise, asks):
            raise Unsupported(said)

    def with_affine(self, changes: Mapping[int, Affine]) -> Network:
        """The same graph with other affine maps at the given node indices."""
        nodes = (replace(n, op=changes[n.index]) if n.index in changes else n for n in self.nodes)
        return Network(tuple(nodes))

    def to(self, dtype: torch.dtype) -> Network:
        """The same net with weights of its own in `dtype`."""
        return Network(tuple(replace(node, op=node.op.to(dtype)) for node in self.nodes))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Network:
        """The same net with every tensor of its operations changed: moved, or of another type."""
        return Network(tuple(replace(node, op=node.op.mapped(change)) for node in self.nodes))

    def double(self) -> Network:
        """The same net in float64, for a check of rounding."""
        return self.to(torch.float64)


class NetworkModule(nn.Module):
    """A net as a module that `measure` and the like do not trace; its numbers are its buffers."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._hold(network)

    def _hold(self, network: Network) -> None:
        self.network = network
        for at, node in enumerate(network.affine_layers, 1):
            self.register_buffer(f"weight{at}", node.affine.operator.weight)
            self.register_buffer(f"bias{at}", node.affine.bias)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> NetworkModule:
        """What `.to` and the like call: the net goes with its buffers."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._hold(self.network.mapped(fn))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.network.forward(x)


def _observed(observe: Observer, node: Node, x: Tensor) -> Tensor:
    affine = node.affine
    observe(node, "input", x)
    output = affine.operator.apply(x)
    observe(node, "linear", output)
    if affine.bias is not None:
        output.add_(affine.operator.per_channel(affine.bias))
    observe(node, "output", output)
    return output

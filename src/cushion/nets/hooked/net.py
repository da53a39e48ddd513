"""A module as a net of layers and blocks that hooks can read, change and differentiate.

It answers what `Network` answers to measures that need no graph: its affine layers with their true
maps, a pass with an observer, noise put into any layer. Blocks are the modules through whose
results all data pass, each with weights of its own: a chain, whatever branches inside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cushion.errors import BadInput, Unsupported
from cushion.nets.batches import Batch
from cushion.nets.calling import evaluating
from cushion.nets.hooked import layers, probe
from cushion.nets.hooked.chain import ROWS, Block, Chain, Change, few, length, same_scores
from cushion.nets.hooked.flow import Flow
from cushion.nets.network import Node, Observer
from cushion.nets.operations import Input
from cushion.nets.operations.operation import Shape
from cushion.nets.tracing.capture import check_state

_INSTEAD = "margins and norms need no hooks"


class HookedNet:
    """A private copy of a module in eval mode, batch-norms folded where the trace would do so.

    `affine_layers`: every call of a dense layer, convolution or batch-norm, in order, then the
    maps inside modules that use their weights themselves; `seen` are those whose inputs are known.
    """

    def __init__(self, model: nn.Module, rows: Batch) -> None:
        check_state(model)
        theirs = {id(one) for one in (*model.parameters(), *model.buffers())}
        self.module = probe.replicate(model)
        # what a copy should not reach is not changed either: it is in eval mode, too
        with torch.random.fork_rng(devices=[]), evaluating(model), torch.inference_mode(False):
            watched = probe.watch(self.module, few(rows), theirs)
            before, folded = watched.scores, False
            while probe.fold(self.module, watched.calls, watched.flow):  # one may follow another
                watched = probe.watch(self.module, few(rows))
                folded = True
            if folded and not same_scores(
                before, watched.scores
            ):  # a layer is more than its kind says
                self.module = probe.replicate(model)
                watched = probe.watch(self.module, few(rows))
            alone = probe.lone_shapes(self.module, few(rows))
        self.module.requires_grad_(False)
        self.classes = watched.scores.shape[1]
        self.input_shape: Shape = () if isinstance(rows, dict) else tuple(rows.shape[1:])
        self.nodes: tuple[Node, ...] = (Node(0, "input", Input(), (), self.input_shape),)
        self.detaches = watched.detaches
        self._calls: dict[tuple[str, int], Node] = {}
        self._known = {(call.path, call.at) for call in watched.calls}
        count = min(ROWS, length(rows))
        apart = {call.name for call in watched.calls if not _by_example(call, alone, count)}
        self._add_layers(watched.calls, apart)
        own = [call for call in watched.calls if call.name not in apart]
        self.chain = Chain(self.module, own, watched.flow, rows)
        self._after, self._next = _order(self.seen, watched.calls, watched.flow)

    @torch.no_grad()
    def _add_layers(self, calls: list[probe.Call], apart: Collection[str]) -> None:
        nodes, unseen, resting = list(self.nodes), [], []
        for call in calls:
            affine = None if call.seen is None else layers.proved_affine(call.module, *call.seen)
            if affine is None and call.seen is not None:
                unseen.append(call.name)
            elif affine is not None and call.name in apart:
                resting.append((call.name, affine))
            elif affine is not None:
                nodes.append(Node(len(nodes), call.name, affine, (0,), call.gives))
                self._calls[call.path, call.at] = nodes[-1]
        self.seen = tuple(nodes[1:])
        self.not_seen = tuple(unseen)  # layers that do something else than their kind
        self.apart = tuple(name for name, _ in resting)  # their rows are not the examples
        for path, module in self.module.named_modules():
            resting += layers.idle_affine(probe.shown(path), module)
        for name, affine in resting:
            shape = tuple(affine.operator.output_shape)
            nodes.append(Node(len(nodes), name, affine, (0,), shape))
        self.nodes = tuple(nodes)
        self.affine_layers = self.nodes[1:]

    @property
    def parameters(self) -> int:
        """Numbers in all weights and biases, also of layers that are not affine."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def dtype(self) -> torch.dtype:
        floats = (p.dtype for p in self.module.parameters() if p.is_floating_point())
        return next(floats, torch.float32)

    @property
    def device(self) -> torch.device:
        return next((p.device for p in self.module.parameters()), torch.device("cpu"))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The modules that all data pass."""
        return self.chain.blocks

    is_chain = False
    not_a_chain_because = "its operations were not traced; its blocks form a chain"

    def next_layer(self, node: Node) -> Node | None:
        """The one layer that reads this one's output; None at the end or at branches."""
        following = self._next.get(node.index)
        return None if following is None else self.nodes[following]

    def descendants(self, index: int) -> frozenset[int]:
        """The layers whose outputs depend on this one's."""
        return self._after.get(index, frozenset())

    @torch.no_grad()
    def forward(self, x: Batch) -> Tensor:
        """The scores, [B, classes]."""
        return self.module(x)  # type: ignore[no-any-return]

    @torch.no_grad()
    def run(self, x: Batch, observe: Observer | None) -> Tensor:
        """The scores; `observe` sees every seen layer's input, A·input, and that plus bias."""
        if observe is None:
            return self.forward(x)

        def look(node: Node, given: Tensor, output: Tensor) -> None:
            observe(node, "input", given)
            observe(node, "linear", _without_bias(node, output))
            observe(node, "output", output)

        return self._passed(x, look)

    @torch.no_grad()
    def outputs(self, x: Batch) -> dict[int, Tensor]:
        """Every seen layer's output, a copy each, under its index."""
        found: dict[int, Tensor] = {}

        def look(node: Node, _: Tensor, output: Tensor) -> None:
            found[node.index] = output.clone()

        self._passed(x, look)
        return found

    @torch.no_grad()
    def rerun(
        self, x: Batch, source: Node, change: Change, visit: Callable[[Node, Tensor], None]
    ) -> None:
        """Put `change` of it in place of the input of layer `source`; show it and later layers."""
        reached = self.descendants(source.index) | {source.index}
        where = next(path for (path, _), node in self._calls.items() if node is source)
        counts: Counter[str] = Counter()

        def before(path: str, _: nn.Module) -> Any:
            if path != where:
                return None

            def replace(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
                counts[path] += 1
                if self._node(path, counts[path]) is not source:
                    return None
                if args:
                    return (change(args[0]), *args[1:]), named
                name = next(name for name in ("input", "x") if name in named)
                return (), {**named, name: change(named[name])}

            return replace

        def look(node: Node, _: Tensor, output: Tensor) -> None:
            if node.index in reached:
                visit(node, output)

        with probe.hooks(self.module, before, before=True):
            self._passed(x, look)

    def _node(self, path: str, at: int) -> Node | None:
        """The layer of a call; None if it is none of those that are seen."""
        if (path, at) not in self._known:
            said = f"the net calls {probe.shown(path)} more often on some batches than on others"
            raise Unsupported(f"{said}, so hooks cannot follow it; {_INSTEAD}")
        return self._calls.get((path, at))

    def _passed(self, x: Batch, look: Callable[[Node, Tensor, Tensor], None]) -> Tensor:
        counts: Counter[str] = Counter()
        watched, rows = {path for path, _ in self._calls}, length(x)

        def hook(path: str, _: nn.Module) -> Any:
            if path not in watched:
                return None

            def show(_: nn.Module, args: tuple[Any, ...], named: Any, output: Tensor) -> None:
                counts[path] += 1
                node, given = self._node(path, counts[path]), probe.first_input(args, named)
                if node is None or given is None:
                    return
                if len(given) != rows:
                    said = f"{probe.shown(path)} reads {len(given)} rows of a batch of {rows}"
                    raise Unsupported(f"{said}, so hooks cannot tell whose they are; {_INSTEAD}")
                look(node, given, output)

            return show

        with probe.hooks(self.module, hook):
            return self.module(x)  # type: ignore[no-any-return]


def _by_example(
    call: probe.Call, alone: Mapping[tuple[str, int], tuple[Shape, Shape]], rows: int
) -> bool:
    """Whether a call's first axis counts the examples: as many as the pass had, one on one."""
    if call.seen is not None and {len(one) for one in call.seen} != {rows}:
        return False
    reads, gives = alone.get((call.path, call.at), ((1, *call.reads), (1, *call.gives)))
    return (reads, gives) == ((1, *call.reads), (1, *call.gives))


def _without_bias(node: Node, output: Tensor) -> Tensor:
    bias = node.affine.bias
    if bias is None:
        return output
    if node.affine.kind == "linear":  # along the last axis, at every position
        return output - bias
    return output - bias.reshape(-1, *[1] * (output.ndim - 2))


def _order(
    nodes: tuple[Node, ...], calls: list[probe.Call], flow: Flow
) -> tuple[dict[int, frozenset[int]], dict[int, int]]:
    """By layer: which layers depend on it, and which alone reads it."""
    index = {node.name: node.index for node in nodes}
    numbers = {at: index[call.name] for at, call in enumerate(calls) if call.name in index}
    after: dict[int, set[int]] = {number: set() for number in numbers.values()}
    for at, number in numbers.items():
        for earlier in calls[at].after & numbers.keys():
            after[numbers[earlier]].add(number)
    place = {
        flow.place[calls[at].fn]: number
        for at, number in numbers.items()
        if calls[at].fn in flow.place
    }
    read_by = {number: flow.next_of(at, place) for at, number in place.items()}
    following = {number: place[at] for number, at in read_by.items() if at is not None}
    return {number: frozenset(later) for number, later in after.items()}, following


def check_same_layers(net: Any, other: Any, what: str = "the initialisation") -> None:
    """BadInput unless the two nets have layers of the same names and shapes."""

    def described(one: Any) -> list[tuple[str, Shape]]:
        return [(node.name, tuple(node.affine.operator.weight.shape)) for node in one.affine_layers]

    if described(net) != described(other):
        raise BadInput(f"{what} has other layers than the net; give its own start")

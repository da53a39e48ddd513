"""A module as a net of layers and blocks that hooks can read, change and differentiate.

It answers what `Network` answers to measures that need no graph: its affine layers with their true
maps, a pass with an observer, noise put into any layer. Blocks are the modules through whose
results all data pass, each with weights of its own: a chain, whatever branches inside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from cushion.errors import BadInput, Unsupported
from cushion.nets.batches import Batch
from cushion.nets.calling import evaluating
from cushion.nets.hooked import layers, probe
from cushion.nets.hooked.flow import Flow
from cushion.nets.network import Node, Observer
from cushion.nets.operations import Input
from cushion.nets.operations.operation import Shape
from cushion.nets.tracing.capture import check_state

Change: TypeAlias = Callable[[Tensor], Tensor]
_ROWS = 2  # of the pass that shows the layers


@dataclass(frozen=True, eq=False)
class Block:
    """One module of the chain; `shape` is that of one example's result."""

    index: int
    name: str
    kind: str
    shape: Shape
    call: tuple[str, int]  # path of the module, and which of its calls

    @property
    def places(self) -> int:
        """Positions that share the block's weights: of (C, H, W) H·W, of (T, D) T, of (D) 1."""
        if len(self.shape) == 2:
            return self.shape[0]
        return int(torch.Size(self.shape[1:]).numel())


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
            watched = probe.watch(self.module, _copied(rows), theirs)
            before, folded = watched.scores, False
            while probe.fold(self.module, watched.calls, watched.flow):  # one may follow another
                watched = probe.watch(self.module, _copied(rows))
                folded = True
            if folded and not _close(before, watched.scores):  # a layer is more than its kind says
                self.module = probe.replicate(model)
                watched = probe.watch(self.module, _copied(rows))
            alone = probe.lone_shapes(self.module, _copied(rows))
        self.module.requires_grad_(False)
        self.classes = watched.scores.shape[1]
        self.input_shape: Shape = () if isinstance(rows, dict) else tuple(rows.shape[1:])
        self.nodes: tuple[Node, ...] = (Node(0, "input", Input(), (), self.input_shape),)
        self.detaches = watched.detaches
        self._calls: dict[tuple[str, int], Node] = {}
        self._known = {(call.path, call.at) for call in watched.calls}
        apart = {call.name for call in watched.calls if not _by_example(call, alone)}
        self._add_layers(watched.calls, apart)
        self.blocks = self._blocks([c for c in watched.calls if c.name not in apart], watched, rows)
        self._after, self._next = _order(self.affine_layers, watched.calls, watched.flow)

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

    def _blocks(
        self, calls: Collection[probe.Call], watched: probe.Watched, rows: Batch
    ) -> tuple[Block, ...]:
        """For every result that carries everything on, the innermost module with weights giving it.

        Which results may is read off the graph of gradients. Each is then tried: where two rows
        swap what the module gave, they must swap their scores.
        """
        flow = watched.flow
        chosen: dict[int, probe.Call] = {}
        for call in calls:  # a module's call ends before that of the one around it
            place = flow.place.get(call.fn, -1)
            fits = place in flow.cuts and place not in chosen and call.gives
            if fits and _has_weights(call.module) and self._carries_all(call, rows):
                chosen[place] = call
        ordered = [chosen[place] for place in sorted(chosen)]
        return tuple(
            Block(at, call.name, type(call.module).__name__, call.gives, (call.path, call.at))
            for at, call in enumerate(ordered)
        )

    @torch.no_grad()
    def _carries_all(self, call: probe.Call, rows: Batch) -> bool:
        x, counts = _unlike(rows), Counter[str]()

        def hook(path: str, _: nn.Module) -> Any:
            if path != call.path:
                return None

            def swap(_: nn.Module, __: tuple[Any, ...], ___: Any, output: Any) -> Any:
                counts[path] += 1
                result = probe.first_tensor(output)
                if counts[path] != call.at or result is None:
                    return None
                return probe.with_first(output, result.flip(0))

            return swap

        plain = self.module(_copied(x))
        with probe.hooks(self.module, hook):
            swapped = self.module(_copied(x))
        return _close(plain.flip(0), swapped)

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
            raise Unsupported(f"{said}, so hooks cannot follow it; margins and norms need no hooks")
        return self._calls.get((path, at))

    def _passed(self, x: Batch, look: Callable[[Node, Tensor, Tensor], None]) -> Tensor:
        counts: Counter[str] = Counter()
        watched = {path for path, _ in self._calls}

        def hook(path: str, _: nn.Module) -> Any:
            if path not in watched:
                return None

            def show(_: nn.Module, args: tuple[Any, ...], named: Any, output: Tensor) -> None:
                counts[path] += 1
                node, given = self._node(path, counts[path]), probe.first_input(args, named)
                if node is not None and given is not None:
                    look(node, given, output)

            return show

        with probe.hooks(self.module, hook):
            return self.module(x)  # type: ignore[no-any-return]

    def block_outputs(self, x: Batch, changes: Mapping[int, Change] | None = None) -> list[Tensor]:
        """Every block's result, in order; those under whose index there is a change replaced by it.

        Gradients flow as the caller has set them.
        """
        found: dict[int, Tensor] = {}
        at = {block.call: block.index for block in self.blocks}
        paths = {path for path, _ in at}
        counts: Counter[str] = Counter()

        def hook(path: str, _: nn.Module) -> Any:
            if path not in paths:
                return None

            def record(_: nn.Module, __: tuple[Any, ...], ___: Any, output: Any) -> Any:
                counts[path] += 1
                index, result = at.get((path, counts[path])), probe.first_tensor(output)
                if index is None or result is None:
                    return None
                if changes and index in changes:
                    found[index] = changes[index](result)
                    # what comes next may write over what it reads
                    return probe.with_first(output, found[index].clone())
                found[index] = result.clone()
                return None

            return record

        with probe.hooks(self.module, hook):
            self.module(x)
        return [found[block.index] for block in self.blocks]

    def block_jvp(self, x: Batch, source: Block, tangent: Change) -> list[Tensor | None]:
        """J^{i,j} t for every block j, where t = tangent(x^i) at block i; None up to i.

        By forward differentiation: one pass for all j.
        """
        with torch.no_grad(), forward_ad.dual_level():

            def change(value: Tensor) -> Tensor:
                return forward_ad.make_dual(value, tangent(value))  # type: ignore[no-any-return, no-untyped-call]

            found = self.block_outputs(x, {source.index: change})
            parts = [forward_ad.unpack_dual(one).tangent for one in found]  # type: ignore[no-untyped-call]
        return [None if at <= source.index else part for at, part in enumerate(parts)]


def _copied(rows: Batch) -> Batch:
    if isinstance(rows, dict):
        return {name: part[:_ROWS].clone() for name, part in rows.items()}
    return rows[:_ROWS].clone()


def _unlike(rows: Batch) -> Batch:
    """The rows moved apart, so that no two are alike; tokens stay as they are."""
    if isinstance(rows, dict):
        return {name: part[:_ROWS] for name, part in rows.items()}
    if not rows.is_floating_point():
        return rows[:_ROWS]
    noise = torch.randn(rows[:_ROWS].shape, generator=torch.Generator().manual_seed(0)).to(rows)
    return rows[:_ROWS] + noise * (float(rows.float().std()) or 1.0)


def _by_example(call: probe.Call, alone: Mapping[tuple[str, int], tuple[Shape, Shape]]) -> bool:
    """Whether a call's first axis counts the examples: so many on two rows, one on one."""
    if call.seen is not None and {len(one) for one in call.seen} != {_ROWS}:
        return False
    reads, gives = alone.get((call.path, call.at), ((1, *call.reads), (1, *call.gives)))
    return (reads, gives) == ((1, *call.reads), (1, *call.gives))


def _close(before: Tensor, after: Tensor) -> bool:
    share = 0.1 if before.dtype.itemsize < 4 else 1e-3
    return float((before - after).abs().max()) <= share * float(before.abs().max())


def _without_bias(node: Node, output: Tensor) -> Tensor:
    bias = node.affine.bias
    if bias is None:
        return output
    if node.affine.kind == "linear":  # along the last axis, at every position
        return output - bias
    return output - bias.reshape(-1, *[1] * (output.ndim - 2))


def _has_weights(module: nn.Module) -> bool:
    return any(parameter.ndim > 1 for parameter in module.parameters())


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

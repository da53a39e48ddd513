"""A net at a batch: linearised (masks and choices are recorded once, then vectors pass through), or
run again from a layer whose output was changed.

J^{i,j} is the derivative of x^j (the output of affine layer j, bias included) with respect to x^i
at the batch's own activations; a ReLU at exactly 0 counts as inactive. In a net that is not a
chain, x^i is varied alone and everything that does not depend on it stays as it is.

Vectors come as [P, B, *shape]: P vectors for each of the batch's B examples. A start of shape [P,
1, *shape] is shared by all examples. What a `visit` function is shown lives only until it returns:
it must copy what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operations.operation import Derivative, Join, Masked, Shape, each

Visit: TypeAlias = Callable[[Node, Tensor], None]


class Linearisation:
    """A batch, recorded: `outputs` has x^i, [B, *shape], under affine nodes' indices; `scores`."""

    def __init__(self, net: Network, x: Tensor) -> None:
        self.net = net
        self.batch = len(x)
        self.outputs: dict[int, Tensor] = {}
        self._steps: dict[int, Derivative | None] = {}  # None: the identity
        values = {0: _channels_last(x)}
        for node in net.nodes[1:]:
            before = [values[i] for i in node.inputs]
            with torch.no_grad():
                values[node.index] = self._record(node, before)
            net.forget(values, node)
        self.scores = values[net.nodes[-1].index]

    def _record(self, node: Node, before: list[Tensor]) -> Tensor:
        if isinstance(node.op, Join):
            return node.op(*before)
        output, step = node.op.linearise(before[0])
        if isinstance(node.op, Affine):
            self.outputs[node.index] = output
        source = node.inputs[0]
        previous = self._steps.get(source) if len(self.net.users[source]) == 1 else None
        if isinstance(step, Masked) and type(previous) is Masked:
            step.mask *= previous.mask  # a ReLU just before a max-pool: one mask, not two
            self._steps[source] = None
        self._steps[node.index] = step
        return output

    def push(self, source: Node, t: Tensor, visit: Visit, *, last: int | None = None) -> None:
        """Show J^{i,j} t to `visit` for every affine j after `source` = i, up to node `last`."""
        alive = {source.index: t.expand(-1, self.batch, *t.shape[2:]).clone()}
        for node in self.net.nodes[source.index + 1 : None if last is None else last + 1]:
            before = [alive.get(i) for i in node.inputs]
            if any(part is not None for part in before):
                alive[node.index] = self._push_through(node, before)
                if isinstance(node.op, Affine):
                    visit(node, alive[node.index])
            self.net.forget(alive, node)

    def push_to_next(self, source: Node, t: Tensor) -> Tensor:
        """D_i t in a chain: vectors at x^i pass on to the next affine layer's input.

        After the last affine layer they pass to the logits. t: [P, B or 1, *shape]; it may be
        written into. What all examples share stays shared, [P, 1, ...], as long as no step depends
        on the example.
        """
        self.net.chain()
        for node in self.net.nodes[source.index + 1 :]:
            if isinstance(node.op, Affine):
                break
            step = self._steps[node.index]
            t = t if step is None else step.push(t)
        return t

    def _push_through(self, node: Node, before: list[Tensor | None]) -> Tensor:
        if isinstance(node.op, Join):
            return node.op.push(before, self._shapes(node))
        t, step = before[0], self._steps[node.index]
        assert t is not None
        # A value that another operation reads as well must survive this one.
        if len(self.net.users[node.inputs[0]]) > 1 and not isinstance(node.op, Affine):
            t = t.clone()
        return t if step is None else step.push(t)

    def pull(self, target: Node, t: Tensor, visit: Visit) -> None:
        """Show (J^{i,j})ᵀ t to `visit` for every affine i before `target` = j, the last first.

        t: [P, B or 1, *output_shape]. With t shared by all examples, the first product is done once
        for all.
        """
        index = target.inputs[0]
        alive = {index: each(target.affine.operator.adjoint, t)}
        for node in reversed(self.net.nodes[1 : index + 1]):
            t_node = alive.pop(node.index, None)
            if t_node is None or not self._affine_at_or_before[node.index]:
                continue
            if isinstance(node.op, Affine):
                visit(node, t_node.expand(-1, self.batch, *node.shape))
            if any(self._affine_at_or_before[i] for i in node.inputs):  # else nobody looks there
                for i, part in zip(node.inputs, self._pull_through(node, t_node), strict=True):
                    alive[i] = alive[i] + part if i in alive else part

    def _pull_through(self, node: Node, t: Tensor) -> list[Tensor]:
        if isinstance(node.op, Join):
            return node.op.pull(t, self._shapes(node))
        step = self._steps[node.index]
        return [t if step is None else step.pull(t)]

    def _shapes(self, node: Node) -> list[Shape]:
        return [self.net.nodes[i].shape for i in node.inputs]

    def pull_energy(self, target: Node) -> tuple[Node, Tensor] | None:
        """The affine layer i before `target`, and Σ over outputs of (J^{i,j})²: [B, *shape].

        In closed form from the columns' squared lengths of target's map; None unless each unit of
        x^i feeds one input of `target` at most (ReLU, disjoint pooling windows, reshapes), with no
        fork on the way.
        """
        source = feeding_layer(self.net, target)
        if source is None:
            return None
        t = target.affine.operator.column_energies()[None, None]
        index = target.inputs[0]
        while index != source.index:
            step = self._steps[index]
            t = t if step is None else step.pull_energy(t)
            index = self.net.nodes[index].inputs[0]
        return source, t.expand(1, self.batch, *source.shape)[0]

    @cached_property
    def _affine_at_or_before(self) -> tuple[bool, ...]:
        """For every node whether it is affine or depends on an affine node."""
        found: list[bool] = []
        for node in self.net.nodes:
            found.append(isinstance(node.op, Affine) or any(found[i] for i in node.inputs))
        return tuple(found)


def feeding_layer(net: Network, target: Node) -> Node | None:
    """The affine layer that alone feeds `target`, each unit at most one of its inputs, or None."""
    node = net.nodes[target.inputs[0]]
    while len(net.users[node.index]) == 1 and node.index != 0:
        if isinstance(node.op, Affine):
            return node
        if len(node.inputs) != 1 or not node.op.feeds_one(net.nodes[node.inputs[0]].shape):
            return None
        node = net.nodes[node.inputs[0]]
    return None


class Activations:
    """Every node's output for one batch, in `values` under its index: [B, *shape]."""

    def __init__(self, net: Network, x: Tensor) -> None:
        self.net = net
        self.values = {0: _channels_last(x)}
        with torch.no_grad():
            for node in net.nodes[1:]:
                self.values[node.index] = node.op(*(self.values[i] for i in node.inputs))

    @torch.no_grad()
    def rerun(self, source: Node, t: Tensor, visit: Visit) -> None:
        """Put t, [B, *shape], in place of the source's output; show what affine layers become.

        This is M^{i,j}(t) of Arora 2018, Section 3, for all j > i. What `visit` is shown is its own
        to keep.
        """
        changed = {source.index: t}
        for node in self.net.nodes[source.index + 1 :]:
            if not any(i in changed for i in node.inputs):
                continue
            inputs = [changed.get(i, self.values[i]) for i in node.inputs]
            changed[node.index] = node.op(*inputs)
            if isinstance(node.op, Affine):
                visit(node, changed[node.index])
            self.net.forget(changed, node)


def _channels_last(x: Tensor) -> Tensor:
    """Convolutions and sums over channels run markedly faster in this order."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x

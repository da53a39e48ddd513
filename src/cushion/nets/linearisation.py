"""A net linearised at a batch: its ReLU masks and max-pool choices are recorded once, then vectors
pass through them.

J^{i,j} is the derivative of x^j (the output of affine layer j, bias included) with respect to x^i
at the batch's own activations; a ReLU at exactly 0 counts as inactive. In a net that is not a
chain, x^i is varied alone and everything that does not depend on it stays as it is.

Vectors come as [P, B, *shape]: P vectors for each of the batch's B examples. A start of shape [P,
1, *shape] is shared by all examples. What a `visit` function is shown lives only until it returns:
it must copy what it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.nets.network import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    Affine,
    AvgPool,
    Cat,
    Flatten,
    MaxPool,
    Network,
    Node,
    ReLU,
    Shape,
    Unflatten,
)

Visit: TypeAlias = Callable[[Node, Tensor], None]


class Step(Protocol):
    """One operation between two affine layers, linearised. It may write into the tensor that it is
    given.
    """

    def push(self, t: Tensor) -> Tensor:
        """Q t."""

    def pull(self, t: Tensor) -> Tensor:
        """Qᵀ t."""

    def pull_energy(self, t: Tensor) -> Tensor:
        """(Q∘Q)ᵀ t, the columns' squared lengths weighted by t, if each input feeds one output at
        most.
        """


class Linearisation:
    """The recorded batch. `outputs` maps each affine node's index to x^i, [B, *shape]; `scores` are
    the logits.
    """

    def __init__(self, net: Network, x: Tensor) -> None:
        self.net = net
        self.batch = len(x)
        self.outputs: dict[int, Tensor] = {}
        self._steps: dict[int, Step | None] = {}  # None: the identity
        # Channels last: convolutions and sums over channels run markedly faster in this order.
        values = {0: x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x}
        for node in net.nodes[1:]:
            before = [values[i] for i in node.inputs]
            with torch.no_grad():
                values[node.index] = self._record(node, before)
            for i in node.inputs:
                if net.users[i][-1] == node.index:
                    values.pop(i, None)
        self.scores = values[net.nodes[-1].index]

    def _record(self, node: Node, before: list[Tensor]) -> Tensor:
        match node.op:
            case Affine():
                self.outputs[node.index] = node.op(before[0])
                return self.outputs[node.index]
            case ReLU():
                self._steps[node.index] = _Masked((before[0] > 0).to(before[0].dtype))
                return F.relu(before[0])
            case MaxPool() | AdaptiveMaxPool():
                pooled, chosen = _max_pool(node.op, before[0])
                window = disjoint_window(node.op, tuple(before[0].shape[1:]))
                if window is None:
                    self._steps[node.index] = _Chosen(chosen, tuple(before[0].shape[1:]))
                else:
                    self._steps[node.index] = _Window(
                        self._selected(node, chosen, before[0]), window
                    )
                return pooled
            case AvgPool() | AdaptiveAvgPool():
                shape = tuple(before[0].shape[1:])
                self._steps[node.index] = _Averaged(node.op, shape, disjoint_window(node.op, shape))
            case Flatten() | Unflatten():
                self._steps[node.index] = _Reshaped(tuple(before[0].shape[1:]), node.shape)
        return node.op(*before)  # type: ignore[operator]

    def _selected(self, node: Node, chosen: Tensor, x: Tensor) -> Tensor:
        """[B, C, H, W]: 1 where a max-pool takes its values. A ReLU just before it is taken in: one
        mask, not two.
        """
        selected = torch.zeros_like(x, memory_format=torch.contiguous_format).flatten(2)
        selected = selected.scatter_(2, chosen.flatten(2), 1.0).reshape(x.shape)
        before = self._steps.get(node.inputs[0])
        if isinstance(before, _Masked) and len(self.net.users[node.inputs[0]]) == 1:
            self._steps[node.inputs[0]] = None
            selected *= before.mask
        return selected.contiguous(memory_format=torch.channels_last)

    def push(self, source: Node, t: Tensor, visit: Visit, *, last: int | None = None) -> None:
        """Show J^{i,j} t to `visit` for every affine j after `source` = i, in order, up to node
        index `last`.
        """
        alive = {source.index: t.expand(-1, self.batch, *t.shape[2:]).clone()}
        for node in self.net.nodes[source.index + 1 : None if last is None else last + 1]:
            before = [alive.get(i) for i in node.inputs]
            if any(part is not None for part in before):
                alive[node.index] = self._push_through(node, before)
                if isinstance(node.op, Affine):
                    visit(node, alive[node.index])
            for i in node.inputs:
                if self.net.users[i][-1] == node.index:
                    alive.pop(i, None)

    def push_to_next(self, source: Node, t: Tensor) -> Tensor:
        """D_i t in a chain: vectors at x^i pass ReLU, pooling and reshapes to the next affine
        layer's input.

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
        present = [part for part in before if part is not None]
        match node.op:
            case Affine():
                return _each(node.op.operator.apply, present[0])
            case Add():
                return torch.stack(present).sum(0) if len(present) > 1 else present[0].clone()
            case Cat():
                shapes = [self.net.nodes[i].shape for i in node.inputs]
                zeros = present[0].new_zeros
                whole = [
                    zeros((*present[0].shape[:2], *shape)) if part is None else part
                    for part, shape in zip(before, shapes, strict=True)
                ]
                return torch.cat(whole, dim=2)
        step = self._steps[node.index]
        # A value that another operation reads as well must survive this one.
        t = present[0].clone() if len(self.net.users[node.inputs[0]]) > 1 else present[0]
        return t if step is None else step.push(t)

    def pull(self, target: Node, t: Tensor, visit: Visit) -> None:
        """Show (J^{i,j})ᵀ t to `visit` for every affine i before `target` = j, from the last to the
        first.

        t: [P, B or 1, *output_shape]. With t shared by all examples, the first product is done once
        for all.
        """
        self._pull(target.inputs[0], _each(target.affine.operator.adjoint, t), visit)

    def _pull(self, index: int, t: Tensor, visit: Visit) -> None:
        alive = {index: t}
        for node in reversed(self.net.nodes[1 : index + 1]):
            t_node = alive.pop(node.index, None)
            if t_node is None or not self._affine_at_or_before[node.index]:
                continue
            if isinstance(node.op, Affine):
                visit(
                    node,
                    t_node
                    if t_node.shape[1] == self.batch
                    else t_node.expand(-1, self.batch, *node.shape),
                )
            parts = self._pull_through(node, t_node)
            for i, part in zip(node.inputs, parts, strict=True):
                alive[i] = alive[i] + part if i in alive else part

    def _pull_through(self, node: Node, t: Tensor) -> list[Tensor]:
        match node.op:
            case Affine():
                if not self._affine_at_or_before[node.inputs[0]]:
                    return [t]  # nobody looks further back
                return [_each(node.op.operator.adjoint, t)]
            case Add():
                return [t, *(t.clone() for _ in node.inputs[1:])]
            case Cat():
                return list(
                    torch.split(t, [self.net.nodes[i].shape[0] for i in node.inputs], dim=2)
                )
        step = self._steps[node.index]
        return [t if step is None else step.pull(t)]

    def pull_energy(self, target: Node) -> tuple[Node, Tensor] | None:
        """The affine layer i before `target`, and Σ over outputs of (J^{i,j})² for each unit of
        x^i: [B, *shape].

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


class _Masked:
    """A ReLU: its mask, in the dtype of the vectors, because a product with booleans converts them
    each time.
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def push(self, t: Tensor) -> Tensor:
        # In place where the vectors are not shared: a fresh allocation costs several times the
        # product.
        return t.mul_(self.mask) if t.shape[1] == len(self.mask) else t * self.mask

    pull = push
    pull_energy = push


class _Window:
    """A max-pool with disjoint windows: at most one input of each window passes."""

    def __init__(self, selected: Tensor, window: tuple[int, int]) -> None:
        self.selected, self.window = selected, window
        size = zip(selected.shape[2:], window, strict=True)
        self.reach = tuple(
            length // side * side for length, side in size
        )  # beyond it no window reads

    def push(self, t: Tensor) -> Tensor:
        t = _Masked(self.selected).push(t)
        return _each(lambda z: F.avg_pool2d(z, self.window, divisor_override=1), t)

    def pull(self, t: Tensor) -> Tensor:
        """Each value at the place of its window that won: [P, B, C, h, w] -> [P, B, C, H, W]."""
        height, width = self.reach
        mask = self.selected[:, :, :height, :width].movedim(1, 3)  # [B, h·window, w·window, C]
        (high, wide), (batch, _, _, channels) = self.window, mask.shape
        mask = mask.reshape(batch, height // high, high, width // wide, wide, channels)
        spread = t.movedim(2, 4)[:, :, :, None, :, None] * mask
        whole = spread.flatten(4, 5).flatten(2, 3).movedim(4, 2)
        missing = (self.selected.shape[2] - height, self.selected.shape[3] - width)
        return F.pad(whole, (0, missing[1], 0, missing[0])) if any(missing) else whole

    pull_energy = pull


class _Chosen:
    """Any max-pool, by the index of each window's winner; windows may share a winner."""

    def __init__(self, chosen: Tensor, shape: Shape) -> None:
        self.chosen, self.shape, self.pooled = chosen.flatten(2), shape, tuple(chosen.shape[2:])

    def _indices(self, t: Tensor) -> tuple[Tensor, Tensor]:
        t = t.expand(-1, len(self.chosen), *t.shape[2:]).flatten(3)
        return t, self.chosen.expand(len(t), *self.chosen.shape)

    def push(self, t: Tensor) -> Tensor:
        t, chosen = self._indices(t)
        return torch.gather(t, 3, chosen).reshape(*t.shape[:3], *self.pooled)

    def pull(self, t: Tensor) -> Tensor:
        t, chosen = self._indices(t)
        whole = t.new_zeros((*t.shape[:3], math.prod(self.shape[1:])))
        return whole.scatter_add_(3, chosen, t).reshape(*t.shape[:3], *self.shape[1:])

    def pull_energy(self, t: Tensor) -> Tensor:
        raise AssertionError(f"windows that overlap have no closed form for {tuple(t.shape)}")


class _Averaged:
    """An average pool: linear already."""

    def __init__(
        self, op: AvgPool | AdaptiveAvgPool, shape: Shape, window: tuple[int, int] | None
    ) -> None:
        self.op, self.shape, self.window = op, shape, window

    def push(self, t: Tensor) -> Tensor:
        return _each(self.op, t)

    def pull(self, t: Tensor) -> Tensor:
        return _each(self._adjoint, t)

    def _adjoint(self, t: Tensor) -> Tensor:
        with torch.enable_grad():
            x = torch.zeros(
                (len(t), *self.shape), dtype=t.dtype, device=t.device, requires_grad=True
            )
            (adjoint,) = torch.autograd.grad(self.op(x), x, t)
        return adjoint

    def pull_energy(self, t: Tensor) -> Tensor:
        assert self.window is not None
        divisor = self.op.divisor if isinstance(self.op, AvgPool) else None
        return self.pull(t) / (divisor or math.prod(self.window))


class _Reshaped:
    def __init__(self, before: Shape, after: Shape) -> None:
        self.before, self.after = before, after

    def push(self, t: Tensor) -> Tensor:
        return t.reshape(*t.shape[:2], *self.after)

    def pull(self, t: Tensor) -> Tensor:
        return t.reshape(*t.shape[:2], *self.before)

    pull_energy = pull


def feeding_layer(net: Network, target: Node) -> Node | None:
    """The affine layer that alone feeds `target`, each of its units at most one input; None if
    there is none such.
    """
    node = net.nodes[target.inputs[0]]
    while len(net.users[node.index]) == 1 and node.index != 0:
        if isinstance(node.op, Affine):
            return node
        if len(node.inputs) != 1:
            return None
        pools = isinstance(node.op, (MaxPool, AvgPool, AdaptiveMaxPool, AdaptiveAvgPool))
        if pools and disjoint_window(node.op, net.nodes[node.inputs[0]].shape) is None:  # type: ignore[arg-type]
            return None
        node = net.nodes[node.inputs[0]]
    return None


def disjoint_window(
    op: MaxPool | AvgPool | AdaptiveMaxPool | AdaptiveAvgPool, shape: Shape
) -> tuple[int, int] | None:
    """The pooling window if all windows lie inside the map, side by side from its corner; else
    None.
    """
    height, width = shape[1:]
    if isinstance(op, (AdaptiveMaxPool, AdaptiveAvgPool)):
        if height % op.output[0] or width % op.output[1]:
            return None
        return height // op.output[0], width // op.output[1]
    partial = op.ceil_mode and (height % op.kernel[0] or width % op.kernel[1])
    spread = isinstance(op, MaxPool) and op.dilation != (1, 1)
    return (
        None if op.kernel != op.stride or op.padding != (0, 0) or partial or spread else op.kernel
    )


def _max_pool(op: MaxPool | AdaptiveMaxPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """The pooled map and, for each window, the flat index of the input that won."""
    if isinstance(op, AdaptiveMaxPool):
        pooled, chosen = F.adaptive_max_pool2d(x, op.output, return_indices=True)
    else:
        pooled, chosen = F.max_pool2d(
            x, op.kernel, op.stride, op.padding, op.dilation, op.ceil_mode, return_indices=True
        )
    return pooled, chosen


def _each(apply: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    """A batched map on [P, B, ...]."""
    out = apply(t.flatten(0, 1))
    return out.view(*t.shape[:2], *out.shape[1:])

"""The modules through whose results all data pass: a chain, whatever branches inside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from cushion.nets.batches import Batch
from cushion.nets.hooked import probe
from cushion.nets.hooked.flow import Flow
from cushion.nets.operations.operation import Shape

Change: TypeAlias = Callable[[Tensor], Tensor]
ROWS = 2  # of the passes that show what a net is made of


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


class Chain:
    """For every result that carries everything on, the innermost module with weights giving it.

    Which results may is read off the graph of gradients. Each is then tried: where two rows swap
    what the module gave, they must swap their scores.
    """

    def __init__(
        self, module: nn.Module, calls: Collection[probe.Call], flow: Flow, rows: Batch
    ) -> None:
        self._module, self._rows = module, _unlike(rows)
        # a module's call ends before that of the one around it
        places = ((flow.place.get(call.fn, -1), call) for call in calls)
        self._candidates = [
            (
                place,
                Block(0, call.name, type(call.module).__name__, call.gives, (call.path, call.at)),
            )
            for place, call in places
            if place in flow.cuts and call.gives and _has_weights(call.module)
        ]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """In the order in which data pass them; tried when they are asked for."""
        chosen: dict[int, Block] = {}
        for place, block in self._candidates:
            if place not in chosen and self._carries_all(block):
                chosen[place] = block
        return tuple(replace(chosen[at], index=i) for i, at in enumerate(sorted(chosen)))

    @torch.no_grad()
    def _carries_all(self, block: Block) -> bool:
        swap = {block.call: lambda value: value.flip(0)}
        plain, swapped = (self._changed(few(self._rows), how, {}) for how in ({}, swap))
        wanted = plain.flip(0)
        # beside what tells the rows apart, however little of the scores that is
        share, rounding = (0.1, 1e-2) if plain.dtype.itemsize < 4 else (1e-2, 1e-5)
        room = share * float((plain - wanted).abs().max()) + rounding * float(plain.abs().max())
        return float((wanted - swapped).abs().max()) <= room

    def outputs(self, x: Batch, changes: Mapping[int, Change] | None = None) -> list[Tensor]:
        """Every block's result, in order; those under whose index there is a change replaced by it.

        Gradients flow as the caller has set them.
        """
        found: dict[Any, Any] = dict.fromkeys(block.call for block in self.blocks)
        how = {self.blocks[index].call: change for index, change in (changes or {}).items()}
        self._changed(x, how, found)
        return [found[block.call] for block in self.blocks]

    def _changed(
        self, x: Batch, changes: Mapping[tuple[str, int], Change], found: dict[Any, Any]
    ) -> Tensor:
        """The scores with results of calls changed; those of the calls in `found` are put there."""
        paths = {path for path, _ in (*found, *changes)}
        counts: Counter[str] = Counter()

        def hook(path: str, _: nn.Module) -> Any:
            if path not in paths:
                return None

            def record(_: nn.Module, __: tuple[Any, ...], ___: Any, output: Any) -> Any:
                counts[path] += 1
                call, result = (path, counts[path]), probe.first_tensor(output)
                if result is None or (call not in found and call not in changes):
                    return None
                value = changes[call](result) if call in changes else result.clone()
                if call in found:
                    found[call] = value
                # what comes next may write over what it reads
                return probe.with_first(output, value.clone()) if call in changes else None

            return record

        with probe.hooks(self._module, hook):
            return self._module(x)  # type: ignore[no-any-return]

    def jvp(self, x: Batch, source: Block, tangent: Change) -> list[Tensor | None]:
        """J^{i,j} t for every block j, where t = tangent(x^i) at block i; None up to i.

        By forward differentiation: one pass for all j.
        """
        with torch.no_grad(), forward_ad.dual_level():

            def change(value: Tensor) -> Tensor:
                return forward_ad.make_dual(value, tangent(value))  # type: ignore[no-any-return, no-untyped-call]

            found = self.outputs(x, {source.index: change})
            parts = [forward_ad.unpack_dual(one).tangent for one in found]  # type: ignore[no-untyped-call]
        return [None if at <= source.index else part for at, part in enumerate(parts)]


def length(rows: Batch) -> int:
    """How many examples there are."""
    return len(next(iter(rows.values())) if isinstance(rows, dict) else rows)


def few(rows: Batch) -> Batch:
    """A copy of the first rows."""
    if isinstance(rows, dict):
        return {name: part[:ROWS].clone() for name, part in rows.items()}
    return rows[:ROWS].clone()


def same_scores(before: Tensor, after: Tensor) -> bool:
    """Whether two passes gave the same, but for rounding."""
    share = 0.1 if before.dtype.itemsize < 4 else 1e-3
    return float((before - after).abs().max()) <= share * float(before.abs().max())


def _unlike(rows: Batch) -> Batch:
    """The rows moved apart, so that no two are alike; tokens stay as they are."""
    if isinstance(rows, dict):
        return {name: part[:ROWS] for name, part in rows.items()}
    if not rows.is_floating_point():
        return rows[:ROWS]
    noise = torch.randn(rows[:ROWS].shape, generator=torch.Generator().manual_seed(0)).to(rows)
    return rows[:ROWS] + noise * (float(rows.float().std()) or 1.0)


def _has_weights(module: nn.Module) -> bool:
    return any(parameter.ndim > 1 for parameter in module.parameters())

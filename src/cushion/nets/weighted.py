"""A net by its weights: the maps of its modules as they lie there; nothing has to run.

What a module reads is not known here, so a convolution stands for its kernel as a matrix with a row
a filter: the norm of the map that it is depends on the size of its input and mostly exceeds this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from cushion.nets.batches import Batch
from cushion.nets.calling import place, precision
from cushion.nets.hooked.layers import CONVOLUTIONS, idle_affine, weight_of
from cushion.nets.hooked.probe import shown
from cushion.nets.network import Node
from cushion.nets.operations import Input
from cushion.nets.operations.affine import Affine
from cushion.nets.operators import Linear
from cushion.nets.scored import ScoredNet

_KINDS = {kind.__name__: kind for kind in (nn.Linear, nn.Embedding, *CONVOLUTIONS)}


class WeightsNet(ScoredNet):
    """The module's maps: dense layers, kernels, embeddings, attention's projections, recurrent
    layers; and its answers, where there are rows to ask it for.
    """

    not_a_chain_because = "only its weights were looked at"

    def __init__(self, module: nn.Module, rows: Batch | None = None) -> None:
        if rows is not None:
            super().__init__(module, rows)
            return
        self.module, self.input_shape, self.classes = module, (), 0
        self.parameters = sum(p.numel() for p in module.parameters())
        self.dtype, self.device = precision(module), place(module)

    @cached_property
    def affine_layers(self) -> tuple[Node, ...]:  # type: ignore[override]
        """A node a map, in the order of the modules; none says what it reads."""
        maps = enumerate(_maps(self.module), start=1)
        return tuple(
            Node(index, name, affine, (0,), tuple(affine.operator.output_shape))
            for index, (name, affine) in maps
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (Node(0, "input", Input(), (), self.input_shape), *self.affine_layers)


def _maps(module: nn.Module) -> Iterator[tuple[str, Affine]]:
    within = set()  # parts of modules that use their weights themselves
    for path, part in module.named_modules():
        maps = list(idle_affine(shown(path), part))
        if maps and isinstance(part, nn.MultiheadAttention):
            within.add(f"{path}.out_proj")
        if not maps and path not in within and (own := _at_rest(part)) is not None:
            maps = [(shown(path), own)]
        yield from maps


def _at_rest(module: Any) -> Affine | None:
    """What a module with weights is, as far as its numbers say it."""
    kind: Any = type(module)
    weight, bias = weight_of(module), getattr(module, "bias", None)
    if isinstance(module, torch.jit.ScriptModule):  # a program knows the name of what it was
        kind = _KINDS.get(getattr(module, "original_name", ""))
        weight = None if kind is None else module.weight
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        return None
    if (weight.ndim == 2) == issubclass(kind, CONVOLUTIONS):  # another class of that name
        return None
    weight = weight.detach()
    own = bias.detach() if isinstance(bias, Tensor) else None
    if kind is nn.Embedding:
        return Affine(Linear(weight.T.contiguous()), None, "embedding")
    if issubclass(kind, CONVOLUTIONS):
        return Affine(Linear(weight.flatten(1)), own, f"{kind.__name__.lower()} kernel")
    return Affine(Linear(weight), own, "linear")

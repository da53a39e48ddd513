"""Architectures of integer nets as plain data: what a search trains, before any number is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cushion.certificates.format.layers import (
    Conv,
    Dense,
    Feature,
    Layer,
    Pool,
    feature_after,
    stored_shape,
)
from cushion.certificates.format.sources import Values
from cushion.errors import BadInput, Malformed


@dataclass(frozen=True)
class ConvBlock:
    """A convolution with ReLU; `outputs` counts stored filters, of which `symmetry` positions each
    are used.

    A depthwise one has no biases: the pointwise ones that follow it have some, and every bias costs
    bits.
    """

    outputs: int  # ignored where depthwise: as many as come in
    side: int
    stride: int = 1
    padding: int = 0
    depthwise: bool = False
    symmetry: int = 1


@dataclass(frozen=True)
class PoolBlock:
    kind: str  # "max" | "sum"
    size: int


@dataclass(frozen=True)
class DenseBlock:
    """A dense layer; without `outputs` it is the last one and gives one score a class."""

    outputs: int | None = None
    invariant: bool = False  # ignores the symmetry that its input carries


Block = ConvBlock | PoolBlock | DenseBlock
Blueprint = tuple[Block, ...]


@dataclass(frozen=True)
class Slot:
    """One block in a net: what enters it, the layer it is with all numbers zero, what leaves it."""

    block: Block
    before: Feature
    layer: Layer
    after: Feature

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape of its stored numbers; () for pooling."""
        return () if isinstance(self.layer, Pool) else self.layer.source.shape

    @property
    def biased(self) -> bool:
        """Whether its outputs have biases."""
        return bool(self.stored) and not (
            isinstance(self.block, ConvBlock) and self.block.depthwise
        )


def lay_out(blueprint: Blueprint, shape: tuple[int, int, int], classes: int) -> list[Slot]:
    """Every block with its shapes on inputs of the given shape; BadInput where one does not fit."""
    feature = Feature(shape)
    slots = []
    for block in blueprint:
        try:
            layer = _blank(block, feature, classes)
            after = feature_after(feature, layer)
        except Malformed as problem:
            raise BadInput(f"{block} does not fit a blueprint: {problem}") from None
        slots.append(Slot(block, feature, layer, after))
        feature = after
    return slots


def _blank(block: Block, before: Feature, classes: int) -> Layer:
    """The block as a layer of the format, all numbers zero."""
    if isinstance(block, PoolBlock):
        return Pool(block.kind, block.size)
    if isinstance(block, DenseBlock):
        outputs = block.outputs or classes
        order = before.symmetry if block.invariant else 1
        stored: tuple[int, ...] = (outputs, math.prod(before.shape))
        if order > 1:
            stored = (outputs, before.shape[0] // order, *before.shape[1:])
        return Dense(_zeros(stored), None, 0, 0, order)
    outputs = before.shape[0] // before.symmetry if block.depthwise else block.outputs
    groups = 0 if block.depthwise else 1
    stored = stored_shape(before, outputs, block.side, groups, block.symmetry)
    where = (block.stride, block.padding, groups, block.symmetry)
    return Conv(_zeros(stored), None, 0, 0, *where)


def _zeros(shape: tuple[int, ...]) -> Values:
    return Values(np.broadcast_to(np.int64(0), shape))

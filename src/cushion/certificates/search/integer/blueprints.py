"""Architectures of integer nets as plain data: what a search trains, before any number is known."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.certificates.format.integer_net import Feature, stored_shape
from cushion.errors import BadInput


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
    """One block in a net: what enters it, the shape of its stored numbers, what leaves it."""

    block: Block
    before: Feature
    stored: tuple[int, ...]  # () for pooling
    after: Feature

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
        stored: tuple[int, ...] = ()
        if isinstance(block, DenseBlock):
            outputs = block.outputs or classes
            stored = (outputs, *_flat(feature, block.invariant))
            after = Feature((outputs,))
        else:
            if len(feature.shape) != 3:
                raise BadInput(
                    "a convolution or pooling cannot follow a dense layer in a blueprint"
                )
            channels, height, width = feature.shape
            if isinstance(block, PoolBlock):
                after = Feature(
                    (channels, height // block.size, width // block.size), feature.symmetry
                )
            else:
                outputs = channels // feature.symmetry if block.depthwise else block.outputs
                groups = 0 if block.depthwise else 1
                stored = stored_shape(feature, outputs, block.side, groups, block.symmetry)
                sides = (
                    (n + 2 * block.padding - block.side) // block.stride + 1
                    for n in (height, width)
                )
                after = Feature((outputs * block.symmetry, *sides), block.symmetry)
        if min(after.shape) < 1:
            raise BadInput(f"nothing is left of a {feature.shape} feature map behind {block}")
        slots.append(Slot(block, feature, stored, after))
        feature = after
    return slots


def _flat(feature: Feature, invariant: bool) -> tuple[int, ...]:
    if invariant and feature.symmetry > 1:
        return (feature.shape[0] // feature.symmetry, *feature.shape[1:])
    size = 1
    for extent in feature.shape:
        size *= extent
    return (size,)

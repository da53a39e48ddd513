"""Architectures of integer nets as plain data, before any number is known, and the plans by which a
search trains them: blueprints by the data's shape, grids, densities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.layers import (
    Conv,
    Dense,
    Feature,
    Layer,
    Pool,
    dense_shape,
    feature_after,
    stored_shape,
)
from cushion.certificates.format.limits import MOST_WEIGHTS, Shape, Stage, check_sizes, stages
from cushion.certificates.format.sources import Values
from cushion.certificates.search.sizes import square_summed, summed_shape
from cushion.errors import BadInput, Malformed

_AS_LONG_AS_TIME_ALLOWS = 10**7
_COARSE = 7  # side of the image that is looked at first


@dataclass(frozen=True)
class ConvBlock:
    """A convolution with ReLU; `outputs` counts stored filters, each used in `symmetry` positions.

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
class DenseBlock:
    """A dense layer; without `outputs` it is the last one and gives one score a class."""

    outputs: int | None = None
    invariant: bool = False  # ignores the symmetry that its input carries


Block = ConvBlock | Pool | DenseBlock
Blueprint = tuple[Block, ...]


def lay_out(blueprint: Blueprint, shape: Shape, classes: int) -> list[Stage]:
    """Every block as a layer with all numbers zero, between the shapes that it has on such inputs;
    BadInput where one does not fit.
    """
    feature = Feature(shape)
    layers: list[Layer] = []
    for block in blueprint:
        try:
            layers.append(_blank(block, feature, classes))
            feature = feature_after(feature, layers[-1])
        except Malformed as problem:
            raise BadInput(f"{block} does not fit a blueprint: {problem}") from None
    return list(stages(shape, tuple(layers)))


def is_biased(layer: Layer) -> bool:
    """Whether a layer's outputs have biases."""
    return isinstance(layer, Dense) or (isinstance(layer, Conv) and layer.groups > 0)


def _blank(block: Block, before: Feature, classes: int) -> Layer:
    """The block as a layer of the format, all numbers zero."""
    if isinstance(block, Pool):
        return block
    if isinstance(block, DenseBlock):
        order = before.symmetry if block.invariant else 1
        shape = dense_shape(before, block.outputs or classes, order)
        return Dense(_zeros(shape), None, 0, 0, order)
    outputs = before.shape[0] // before.symmetry if block.depthwise else block.outputs
    groups = 0 if block.depthwise else 1
    stored = stored_shape(before, outputs, block.side, groups, block.symmetry)
    where = (block.stride, block.padding, groups, block.symmetry)
    return Conv(_zeros(stored), None, 0, 0, *where)


def _zeros(shape: tuple[int, ...]) -> Values:
    return Values(np.broadcast_to(np.int64(0), shape))


@dataclass(frozen=True)
class Plan:
    """One try. Density and spread decide the bits: many weights coarsely, or few finely."""

    blueprint: Blueprint
    density: float  # the part of the weights that pruning leaves
    spread: float  # root mean square of the kept weights, in grid steps, before they settle on it
    steps: int
    levels: int = 31
    input_shift: int = 0  # how many of an input's eight bits are left unread
    # above 0, weights are rounded from the start and their bits cost so many times what they are
    # worth to the bound (`search.squeeze`), instead of learning, pruning and settling
    price: float = 0.0
    rate: float = 0.004  # learning rate of the weights while they settle, in units of the spread
    warm: float = 0.65  # the part of the time that learning and pruning get
    share: float = 1.0  # the part of the search's time that a try may take
    polish: float = 0.15  # the part of a try's time that the last layer gets in the end
    square: int = 1  # side of the squares of pixels that are summed before the blueprint's net


def plans(shape: Shape, classes: int = 2) -> list[Plan]:
    """Plans for this shape: first short tries, to have something to show, then the real one."""
    found = _convolutional_plans(shape) if min(shape[1:]) >= 16 else _dense_plans(shape, classes)
    return [plan for plan in found if _fits(plan, shape, classes)]


def _convolutional_plans(shape: Shape) -> list[Plan]:
    square = square_summed(shape)
    # Strokes: every filter in eight positions, which the last layer may tell apart.
    real = Plan(convolutional(3, 4, 4, 8), 0.052, 2.5, _AS_LONG_AS_TIME_ALLOWS, square=square)
    if shape[0] > 1:
        colour = _colour(summed_shape(shape, square))
        real = replace(real, blueprint=colour, density=0.2, spread=4.0)
    # on a coarse image, which takes seconds
    coarse = max(1, min(shape[1:]) // _COARSE)
    first = replace(_LINEAR, price=6.0, share=0.05, square=coarse)
    return [first, replace(real, steps=1500, share=0.1), real]


def _dense_plans(shape: Shape, classes: int) -> list[Plan]:
    if min(shape[1:]) >= 6:
        return [replace(_LINEAR, price=price) for price in (6.0, 7.0, 8.0, 5.0)]
    rows = [(_strided(shape, classes), 0.25, 4.0, 2)]  # too long a row for a dense layer
    tables = [
        Plan(blueprint, density, spread, 3000, input_shift=shift, polish=0.3)
        for blueprint, density, spread, shift in (*_TABLES, *rows)
    ]
    fitting = [plan for plan in tables if _fits(plan, shape, classes)]
    return fitting[: len(_TABLES)]


def _fits(plan: Plan, shape: Shape, classes: int) -> bool:
    """Whether the format allows such a net."""
    before: Blueprint = (Pool("sum", plan.square),) if plan.square > 1 else ()
    try:
        laid_out = lay_out((*before, *plan.blueprint), shape, classes)
        check_sizes(shape, Bytes(0), tuple(stage.layer for stage in laid_out))
    except (BadInput, Malformed):
        return False
    return True


def _hidden(*widths: int) -> Blueprint:
    return (*map(DenseBlock, widths), DenseBlock())


# Blueprint, density, spread, input shift: some of each, as a table may need hidden units, fine
# inputs, or neither.
_TABLES = (
    (_hidden(), 0.25, 2.0, 2),
    (_hidden(8), 0.5, 4.0, 2),
    (_hidden(), 0.25, 2.0, 6),
    (_hidden(16), 0.25, 4.0, 2),
    (_hidden(4), 0.5, 4.0, 2),
    (_hidden(8, 8), 0.3, 4.0, 2),
    (_hidden(), 0.5, 1.0, 4),
    (_hidden(24), 0.25, 4.0, 2),
)


# Weights that are rounded from the start, on few inputs, each of few bits.
_LINEAR = Plan((DenseBlock(),), 1.0, 0.7, 3000, 3, input_shift=4, rate=0.07, polish=0.5)


def _strided(shape: Shape, classes: int) -> Blueprint:
    """A long row in pieces, of each two numbers, and the scores."""
    side = 2 + 4 * math.prod(shape) * classes // MOST_WEIGHTS
    return (ConvBlock(2, side, stride=side, padding=side - 1), DenseBlock())


def convolutional(first: int, second: int, third: int, symmetry: int = 1) -> Blueprint:
    """Three convolutions, the first of them halving the image, two poolings and the scores."""
    return (
        ConvBlock(first, 5, stride=2, padding=2, symmetry=symmetry),
        ConvBlock(second, 3, padding=1, symmetry=symmetry),
        Pool("max", 2),
        ConvBlock(third, 3, padding=1, symmetry=symmetry),
        Pool("max", 2),
        DenseBlock(),
    )


def _colour(shape: Shape) -> Blueprint:
    """Natural images: every filter also in its mirror image, and scores that ignore which."""
    each = ConvBlock(0, 3, padding=1, depthwise=True, symmetry=2)
    return (
        ConvBlock(8, 4, stride=2, padding=1, symmetry=2),
        Pool("max", 2),
        each,
        ConvBlock(16, 1, symmetry=2),
        each,
        ConvBlock(24, 1, symmetry=2),
        Pool("max", 2),
        each,
        ConvBlock(24, 1, symmetry=2),
        Pool("sum", min(shape[1:]) // 8),
        DenseBlock(invariant=True),
    )

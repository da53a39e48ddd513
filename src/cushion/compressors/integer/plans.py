"""What the search tries, in order: blueprints for the shape of the data, the grid, and the price of a bit."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.compressors.integer.blueprints import Blueprint, ConvBlock, DenseBlock, PoolBlock

Shape = tuple[int, int, int]
_AS_LONG_AS_TIME_ALLOWS = 10**7


@dataclass(frozen=True)
class Plan:
    """One try: a blueprint, its grid, and how it is trained.

    price: of a bit, in units of what it is worth to the bound at the present error and length; above 1 because training
    follows the price slowly, so short tries need a higher one. spread: root mean square of the kept weights, in grid
    steps, when rounding begins. rate: learning rate of the weights, in units of the spread. warm: the part of the time
    that real weights with batch normalisation get. density: the part of the weights that pruning leaves by then.
    share: the part of the search's time that a try may take.
    """

    blueprint: Blueprint
    levels: int
    input_shift: int
    price: float
    steps: int
    spread: float = 1.0
    rate: float = 0.03
    warm: float = 0.0
    density: float = 1.0
    share: float = 1.0


def plans(shape: Shape) -> list[Plan]:
    """Plans for inputs of this shape: first a short try, so that there is something to show, then the real one."""
    if min(shape[1:]) >= 16:
        blueprint = _grey(shape) if shape[0] == 1 else _colour(shape)
        warm = 0.0 if shape[0] == 1 else 0.2
        return [
            Plan(blueprint, 15, 0, 8.0, 1500, warm=warm, share=0.1),
            Plan(blueprint, 15, 0, 2.5, _AS_LONG_AS_TIME_ALLOWS, warm=warm),
        ]
    stacks: list[Blueprint] = [(DenseBlock(),), (DenseBlock(16), DenseBlock())]
    if min(shape[1:]) >= 6:
        stacks = [(DenseBlock(),), (ConvBlock(3, 3, padding=1, symmetry=2), PoolBlock("max", 2), DenseBlock())]
    return [Plan(blueprint, 7, 4, price, 3000) for price in (4.0, 8.0, 2.0) for blueprint in stacks]


def _grey(shape: Shape) -> Blueprint:
    """Strokes and outlines: every filter in eight positions, the last layer free to tell them apart."""
    side = min(shape[1:])
    last = ((side + 1) // 2) // 4
    return (
        ConvBlock(2, 5, stride=2, padding=2, symmetry=8),
        ConvBlock(3, 3, padding=1, symmetry=8),
        PoolBlock("max", 2),
        ConvBlock(3, 3, padding=1, symmetry=8),
        PoolBlock("max", 2),
        ConvBlock(0, last, depthwise=True, symmetry=8),
        DenseBlock(),
    )


def _colour(shape: Shape) -> Blueprint:
    """Natural images look alike in a mirror: every filter in two positions, and scores that ignore which."""
    last = min(shape[1:]) // 8
    return (
        ConvBlock(8, 4, stride=2, padding=1, symmetry=2),
        PoolBlock("max", 2),
        ConvBlock(0, 3, padding=1, depthwise=True, symmetry=2),
        ConvBlock(16, 1, symmetry=2),
        ConvBlock(0, 3, padding=1, depthwise=True, symmetry=2),
        ConvBlock(24, 1, symmetry=2),
        PoolBlock("max", 2),
        ConvBlock(0, 3, padding=1, depthwise=True, symmetry=2),
        ConvBlock(24, 1, symmetry=2),
        PoolBlock("sum", last),
        DenseBlock(invariant=True),
    )

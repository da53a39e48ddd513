"""What the search tries, in order: blueprints for the shape of the data, and the price of a bit."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.compressors.integer.blueprints import Blueprint, ConvBlock, DenseBlock, PoolBlock

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """One try: a blueprint, its grid, the right shift of byte inputs, and what a bit costs.

    price: weight of the rate, in units of what a bit is worth to the bound itself at the present error and length.
    steps: length of the schedule, if time allows.
    """

    blueprint: Blueprint
    levels: int
    input_shift: int
    price: float
    steps: int


def plans(shape: Shape) -> list[Plan]:
    """Plans for inputs of this shape, the most promising first."""
    side = min(shape[1:])
    if side >= 16:
        blueprints = [_large(shape, 2), _large(shape, 1)]
    elif side >= 6:
        blueprints = [(DenseBlock(),), _small(2)]
    else:
        blueprints = [(DenseBlock(),), (DenseBlock(16), DenseBlock())]
    return [Plan(blueprint, 7, 4, price, 3000) for price in (4.0, 8.0, 2.0) for blueprint in blueprints]


def _small(order: int) -> Blueprint:
    return (ConvBlock(4, 3, padding=1, symmetry=order), PoolBlock("max", 2), DenseBlock())


def _large(shape: Shape, order: int) -> Blueprint:
    wide = 1 if shape[0] == 1 else 2
    return (
        ConvBlock(3 * wide, 5, stride=2, padding=2, symmetry=order),
        ConvBlock(5 * wide, 3, padding=1, symmetry=order),
        PoolBlock("max", 2),
        ConvBlock(6 * wide, 3, padding=1, symmetry=order),
        PoolBlock("max", 2),
        DenseBlock(),
    )

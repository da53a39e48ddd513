"""What the search tries, in order: blueprints by the data's shape, grids, densities."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.certificates.search.integer.blueprints import (
    Blueprint,
    ConvBlock,
    DenseBlock,
    PoolBlock,
)
from cushion.certificates.search.sample import Shape

_AS_LONG_AS_TIME_ALLOWS = 10**7


@dataclass(frozen=True)
class Plan:
    """One try: a blueprint, its grid, and how it is trained.

    density: the part of the weights that pruning leaves. spread: root mean square of the kept
    weights, in grid steps, before they settle on it. Together they decide the bits: many weights
    coarsely, or few finely. rate: learning rate of the weights while they settle, in units of the
    spread. warm: the part of the time that learning and pruning get. share: the part of the
    search's time that a try may take. polish: the part of a try's time that the last layer gets in
    the end. price: above 0, weights are rounded from the start and their bits cost so many times
    what they are worth to the bound (`training.squeeze`), instead of learning, pruning and
    settling. input_shift: how many of an input's eight bits are left unread.
    """

    blueprint: Blueprint
    density: float
    spread: float
    steps: int
    levels: int = 31
    input_shift: int = 0
    price: float = 0.0
    rate: float = 0.004
    warm: float = 0.65
    share: float = 1.0
    polish: float = 0.15


def plans(shape: Shape) -> list[Plan]:
    """Plans for this shape: first a short try, to have something to show, then the real one."""
    if min(shape[1:]) >= 16:
        blueprint, density, spread = (
            (_grey(), 0.052, 2.5) if shape[0] == 1 else (_colour(shape), 0.2, 4.0)
        )
        return [
            Plan(blueprint, density, spread, 1500, share=0.1),
            Plan(blueprint, density, spread, _AS_LONG_AS_TIME_ALLOWS),
        ]
    if min(shape[1:]) >= 6:
        linear: Blueprint = (DenseBlock(),)
        return [
            Plan(
                linear, 1.0, 0.7, 3000, levels=3, input_shift=4, rate=0.07, price=price, polish=0.5
            )
            for price in (6.0, 7.0, 8.0, 5.0)
        ]
    return [
        Plan(
            (*map(DenseBlock, widths), DenseBlock()),
            density,
            spread,
            3000,
            input_shift=shift,
            polish=0.3,
        )
        for widths, density, spread, shift in _TABLES
    ]


# Hidden widths, density, spread, input shift: some of each, as a table may need hidden units, fine
# inputs, or neither.
_TABLES: tuple[tuple[tuple[int, ...], float, float, int], ...] = (
    ((), 0.25, 2.0, 2),
    ((8,), 0.5, 4.0, 2),
    ((), 0.25, 2.0, 6),
    ((16,), 0.25, 4.0, 2),
    ((4,), 0.5, 4.0, 2),
    ((8, 8), 0.3, 4.0, 2),
    ((), 0.5, 1.0, 4),
    ((24,), 0.25, 4.0, 2),
)


def _grey() -> Blueprint:
    """Strokes: every filter in eight positions, which the last layer may tell apart."""
    return (
        ConvBlock(3, 5, stride=2, padding=2, symmetry=8),
        ConvBlock(4, 3, padding=1, symmetry=8),
        PoolBlock("max", 2),
        ConvBlock(4, 3, padding=1, symmetry=8),
        PoolBlock("max", 2),
        DenseBlock(),
    )


def _colour(shape: Shape) -> Blueprint:
    """Natural images: every filter also in its mirror image, and scores that ignore which."""
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

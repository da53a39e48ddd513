"""The small nets that the corpus certifies, and the user's net f that one part of it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.certificates.samples import noise

from cushion.certificates.format.inputs import Bytes, Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.posterior import Factor, Posterior
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Values,
)


def whole(values: Any) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def small(name: str, shape: tuple[int, ...], most: int) -> NDArray[np.int64]:
    """Whole numbers in -most..most that the name decides."""
    return (noise(name, int(np.prod(shape))) % (2 * most + 1) - most).reshape(shape)


def on_halves(*layers: Any, shift: int = 2) -> IntegerNet:
    return IntegerNet((1, 2, 2), Bytes(shift), layers)


def difference(a: int = 1) -> IntegerNet:
    """Compares the two values of the first column; a = -1 answers the opposite, in as many bits."""
    return on_halves(Dense(Grid(whole([[a, 0, -a, 0], [-a, 0, a, 0]]), 1), None, 0, 0))


def masked(seed: int) -> IntegerNet:
    """A seeded mask that keeps the first column's signs."""
    return on_halves(Dense(SeededMask(whole([[1, 0, 1, 0], [1, 0, 1, 0]]), seed, 1), None, 0, 0))


def thousand_classes() -> IntegerNet:
    nothing = np.zeros((1000, 4), dtype=np.int64)
    return on_halves(Dense(SeededNoise(nothing, 5, 1, 3), None, 0, 0), shift=0)


def grouped() -> IntegerNet:
    return IntegerNet(
        (2, 6, 6),
        Bytes(3),
        (
            Conv(
                Grid(small("grouped", (4, 1, 3, 3), 2), 2),
                whole([0, 3, -3, 1]),
                1,
                2,
                2,
                1,
                groups=2,
            ),
            Conv(Grid(small("depthwise", (4, 1, 2, 2), 1), 1), None, 0, 1, groups=0),
            Dense(Grid(small("grouped head", (3, 16), 1), 1), None, 0, 0),
        ),
    )


def pooled() -> IntegerNet:
    return IntegerNet(
        (2, 6, 6),
        Bytes(4),
        (
            Pool("max", 2),
            Conv(Values(small("pooled", (2, 2, 1, 1), 3)), None, 0, 0),
            Pool("sum", 3),
            Dense(Values(small("pooled head", (3, 2), 9)), whole([4, 0, -4]), 3, 0),
        ),
    )


def symmetric(order: int, sides: tuple[int, int] = (6, 6)) -> IntegerNet:
    """A lifting and a regular convolution and an invariant dense layer."""
    return IntegerNet(
        (1, *sides),
        Bytes(5),
        (
            Conv(
                Grid(small("lifting", (2, 1, 3, 3), 1), 1),
                whole([1, -1]),
                0,
                2,
                1,
                1,
                symmetry=order,
            ),
            Pool("max", 2),
            Conv(
                Grid(small("regular", (1, 2, order, 2, 2), 1), 1), None, 0, 1, 1, 1, symmetry=order
            ),
            Dense(
                Grid(small("invariant", (3, 1, sides[0] // 2 + 1, sides[1] // 2 + 1), 1), 1),
                None,
                0,
                0,
                symmetry=order,
            ),
        ),
    )


def floats(own: bool) -> IntegerNet:
    quantiser = Floats(8, (8, 2, 16), (0, -3, 7)) if own else Floats(6, (6,), (-2,))
    weight = Values(whole([[1, 0, 0], [0, 0, 0]]))
    return IntegerNet(
        (1, 1, 3), quantiser, (Dense(weight, whole([-34 if not own else -128, 0]), 0, 0),)
    )


def long_net() -> IntegerNet:
    """About three thousand bits of weights that mean nothing."""
    return IntegerNet(
        (1, 1, 140), Bytes(0), (Dense(Values(small("long", (2, 140), 100)), None, 0, 0),)
    )


def layered(source: Callable[[tuple[int, int], int], Any]) -> IntegerNet:
    """Two dense layers whose numbers come from the same kind of source."""
    first = Dense(source((3, 4), 1), whole([1, 2, 3]), 2, 3)
    return on_halves(first, Dense(source((2, 3), 2), None, 0, 0))


def posterior(seed: int = 0) -> Posterior:
    """A Gaussian difference of the first column's values."""
    means = whole([[24, seed, -24, 0], [-24, 0, 24, 0]])
    net = on_halves(Dense(Values(np.zeros((2, 4), dtype=np.int64)), whole([0, 0]), 2, 0))
    variances = np.full((2, 4), 1, dtype=np.int64)
    return Posterior(
        net,
        (
            Factor(1, "weights", 6, means, variances),
            Factor(1, "biases", 4, whole([0, 0]), whole([3, 3])),
        ),
    )


def convolutional_posterior() -> Posterior:
    net = IntegerNet(
        (2, 6, 6),
        Bytes(4),
        (
            Conv(Values(np.zeros((1, 2, 2, 2), dtype=np.int64)), None, 0, 3, 2, 0, symmetry=2),
            Pool("max", 3),
            Dense(Values(np.zeros((3, 2), dtype=np.int64)), None, 0, 0),
        ),
    )
    return Posterior(
        net,
        (
            Factor(
                1,
                "weights",
                8,
                small("q convolution", (1, 2, 2, 2), 60),
                small("q widths", (1, 2, 2, 2), 3),
            ),
            Factor(3, "weights", 9, small("q head", (3, 2), 90), small("q head widths", (3, 2), 4)),
        ),
    )


SOURCES: dict[str, Callable[[tuple[int, int], int], Any]] = {
    "grid": lambda shape, place: Grid(small(f"grid {place}", shape, 3), 3),
    "values": lambda shape, place: Values(small(f"values {place}", shape, 40)),
    "mask": lambda shape, place: SeededMask(small(f"mask {place}", shape, 1) ** 2, 11, place),
    "projection": lambda shape, place: SeededProjection(
        small(f"q {place}", (3,), 9), shape, 2**32 - 1, place, 2, 1
    ),
    "noise": lambda shape, place: SeededNoise(small(f"noise {place}", shape, 1), 0, place, 2),
    "sign-projection": lambda shape, place: SignProjection(
        small(f"signs {place}", (67,), 9), shape, 7, place, 2
    ),
    "product": lambda shape, place: Product(
        small(f"factors {place}", (2 * sum(shape),), 9), shape, 2, 1
    ),
}

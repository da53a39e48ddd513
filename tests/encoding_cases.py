"""Integer nets as data: a strategy that draws every part of the grammar, and a few small ones that
tests share.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from cushion.certificates.format.inputs import Bytes, Floats, Input
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import (
    Conv,
    Dense,
    Feature,
    Layer,
    Pool,
    feature_after,
    stored_shape,
)
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededNoise,
    SeededProjection,
    SignProjection,
    Source,
    Values,
)

Rng = np.random.Generator


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, dtype=np.int64)


def grid(values: Any, levels: int = 1) -> Grid:
    return Grid(np.array(values, dtype=np.int64), levels)


def tiny() -> IntegerNet:
    weight = grid([[1, 0, -1, 2], [0, 0, 1, -2]], 2)
    return IntegerNet((1, 2, 2), Bytes(3), (Dense(weight, np.array([0, 5]), 0, 0),))


def head(inputs: int, outputs: int = 2) -> Dense:
    """A plain last layer of ones on a row, or on a map, of so many inputs."""
    return Dense(Grid(ones(outputs, inputs), 1), None, 0, 0)


def product(rng: Rng, shape: tuple[int, ...], rank: int, shift: int) -> Product:
    """Factors of small numbers."""
    return Product(
        rng.integers(-9, 10, rank * (shape[0] + math.prod(shape[1:]))), shape, rank, shift
    )


@st.composite
def sources(draw: st.DrawFn, rng: Rng, shape: tuple[int, ...], place: int) -> Source:
    seed = draw(st.sampled_from([0, 1, 77, 2**32 - 1]))
    kind = draw(
        st.sampled_from(
            [Grid, Values, SeededMask, SeededProjection, SeededNoise, SignProjection, Product]
        )
    )
    if kind is Grid:
        levels = draw(st.integers(1, 5))
        return Grid(rng.integers(-levels, levels + 1, shape), levels)
    if kind is SeededMask:
        return SeededMask(rng.integers(0, 2, shape), seed, place)
    if kind is SeededProjection:
        coefficients = rng.integers(-50, 51, draw(st.integers(1, 4)))
        return SeededProjection(
            coefficients, shape, seed, place, draw(st.integers(0, 6)), draw(st.integers(0, 3))
        )
    if kind is SignProjection:
        coefficients = rng.integers(-20, 21, draw(st.sampled_from([1, 5, 8, 64, 70])))
        return SignProjection(coefficients, shape, seed, place, draw(st.integers(0, 6)))
    if kind is Product:
        return product(rng, shape, draw(st.integers(1, 3)), draw(st.integers(0, 4)))
    sparse = rng.integers(-40, 41, shape) * (rng.random(shape) < 0.3)
    return (
        Values(sparse)
        if kind is Values
        else SeededNoise(sparse, seed, place, draw(st.integers(1, 3)))
    )


@st.composite
def biases(draw: st.DrawFn, rng: Rng, outputs: int) -> tuple[np.ndarray | None, int]:
    if not draw(st.booleans()):
        return None, 0
    return rng.integers(-300, 300, outputs), draw(st.integers(0, 5))


@st.composite
def convolutions(draw: st.DrawFn, rng: Rng, before: Feature, place: int) -> Conv:
    k = draw(st.integers(1, min(3, *before.shape[1:])))
    symmetry = draw(st.sampled_from([1, 2, 4, 8, before.symmetry]))
    regular = symmetry > 1 and before.symmetry == symmetry
    channels = before.shape[0] // symmetry if regular else before.shape[0]
    groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    outputs = groups * draw(st.integers(1, 2))
    if (regular or symmetry == 1) and draw(st.booleans()):
        groups, outputs = 0, channels
    shape = stored_shape(before, outputs, k, groups, symmetry)
    bias, bias_shift = draw(biases(rng, outputs))
    source = draw(sources(rng, shape, place))
    stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, k - 1))
    return Conv(
        source, bias, bias_shift, draw(st.integers(0, 6)), stride, padding, groups, symmetry
    )


@st.composite
def inputs(draw: st.DrawFn, rng: Rng, features: int) -> Input:
    if draw(st.booleans()):
        return Bytes(draw(st.integers(0, 7)))
    count = features if draw(st.booleans()) else 1
    exponents, offsets = rng.integers(-3, 9, count).tolist(), rng.integers(-40, 41, count).tolist()
    return Floats(draw(st.integers(1, 12)), tuple(exponents), tuple(offsets))


@st.composite
def nets(draw: st.DrawFn) -> IntegerNet:
    """Small nets in which every layer, source, symmetry and input of the grammar occurs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    square = draw(st.integers(3, 7))
    sides = (
        (square, square)
        if draw(st.integers(0, 3))
        else (draw(st.integers(1, 7)), draw(st.integers(1, 7)))
    )
    start = (draw(st.integers(1, 3)), *sides)
    feature, layers = Feature(start), []

    def add(layer: Layer) -> None:
        nonlocal feature
        feature = feature_after(feature, layer)
        layers.append(layer)

    for _ in range(draw(st.sampled_from([1, 2, 3, 0]))):
        if min(feature.shape[1:]) >= 2 and draw(st.integers(0, 3)) == 0:
            add(
                Pool(
                    draw(st.sampled_from(["max", "sum"])),
                    draw(st.integers(2, min(3, *feature.shape[1:]))),
                )
            )
        elif feature.shape[0] <= 16:
            add(draw(convolutions(rng, feature, len(layers) + 1)))
    for outputs in [5] * draw(st.integers(0, 1)) + [3]:
        last = outputs == 3
        invariant = feature.symmetry == 2 or (
            feature.symmetry > 2 and feature.shape[1] == feature.shape[2]
        )
        symmetry = feature.symmetry if invariant and draw(st.integers(0, 3)) else 1
        shape: tuple[int, ...] = (outputs, math.prod(feature.shape))
        if symmetry > 1:
            shape = (outputs, feature.shape[0] // symmetry, *feature.shape[1:])
        bias, bias_shift = draw(biases(rng, outputs))
        shift = 0 if last else draw(st.integers(0, 4))
        add(Dense(draw(sources(rng, shape, len(layers) + 1)), bias, bias_shift, shift, symmetry))
    return IntegerNet(start, draw(inputs(rng, math.prod(start))), tuple(layers))


def examples(net: IntegerNet, n: int, seed: int = 0) -> np.ndarray:
    """[n, *input_shape] that the net can read; floats include the odd ones."""
    rng = np.random.default_rng(seed)
    if isinstance(net.input, Bytes):
        return rng.integers(0, 256, (n, *net.input_shape), dtype=np.uint8)
    x = (rng.standard_normal((n, *net.input_shape)) * 2.0 ** rng.integers(-6, 12)).astype(
        np.float32
    )
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-45], dtype=np.float32)
    return np.where(rng.random(x.shape) < 0.2, rng.choice(odd, x.shape), x)


def same(a: IntegerNet, b: IntegerNet) -> bool:
    """Whether two nets have the same parts, down to every stored number and seed."""
    return _parts(a) == _parts(b)


def _parts(net: IntegerNet) -> list[object]:
    found: list[object] = [tuple(net.input_shape), net.input]
    for layer in net.layers:
        pieces = dict(vars(layer))
        source = pieces.pop("source", None)
        pieces.pop("weight", None)  # a cached value, not a part
        if source is not None:
            # names of their own: a layer and its source may both have a shift
            inner = {
                f"source {name}": value for name, value in vars(source).items() if name != "numbers"
            }
            pieces |= {"source": type(source).__name__, **inner, "source shape": source.shape}
        found.append(type(layer).__name__)
        found.append(
            {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in pieces.items()}
        )
    return found

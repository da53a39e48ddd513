"""The uncompressed front of a message: input, quantiser and one header a layer (FORMAT.md, section
3).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.claims import LedgerItem
from cushion.certificates.format.inputs import (
    MOST_EXPONENT,
    MOST_OFFSET,
    MOST_WIDTH,
    Bytes,
    Floats,
    Input,
)
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
from cushion.certificates.format.limits import (
    MOST_ACTIVATIONS,
    MOST_AMPLITUDE,
    MOST_BIAS_BITS,
    MOST_SHIFT,
    MOST_WEIGHTS,
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
from cushion.certificates.format.symmetry import ORDERS
from cushion.errors import Malformed

VERSION = 2
MOST_LAYERS = 64
MOST_LEVELS = 127
MOST_SEED = 2**32
MOST_SIDE = 2**20
MOST_KERNEL = 1024
_DENSE, _CONV, _MAX, _SUM = range(4)
_SOURCES: tuple[type[Source], ...] = (
    Grid,
    Values,
    SeededMask,
    SeededProjection,
    SeededNoise,
    SignProjection,
    Product,
)

Shape = tuple[int, int, int]


class Bill:
    """What a writer's bits were spent on, item by item."""

    def __init__(self, writer: BitWriter) -> None:
        self._writer = writer
        self._charged = 0
        self.items: list[LedgerItem] = []

    def charge(self, item: str, meaning: str, now: int | None = None) -> None:
        """All bits up to now (the writer's own length) that nothing was charged with yet."""
        now = len(self._writer) if now is None else now
        self.items.append(LedgerItem(item, now - self._charged, meaning))
        self._charged = now


def write_front(writer: BitWriter, net: IntegerNet) -> Bill:
    """Version, input, depth and the header of every layer."""
    bill = Bill(writer)
    writer.gamma(VERSION)
    bill.charge("format version", "all versions share one prefix code")
    write_input(writer, net.input_shape, net.input)
    bill.charge("input", describe_input(net.input_shape, net.input))
    writer.bounded(len(net.layers), MOST_LAYERS)
    bill.charge("depth", "number of layers")
    feature = Feature(tuple(net.input_shape))
    for place, layer in enumerate(net.layers, 1):
        write_layer(writer, layer, feature, last=place == len(net.layers))
        bill.charge(f"layer {place}: kind", describe_layer(layer))
        feature = feature_after(feature, layer)
    return bill


def read_front(
    reader: BitReader, room: int, takes: Callable[[Layer], int]
) -> tuple[Shape, Input, tuple[Layer, ...], int]:
    """(input shape, quantiser, layers with coded numbers still zero, what is left of the room).

    takes(layer): of the room for numbers, after which no larger layer is allocated.
    """
    version = reader.gamma()
    if version != VERSION:
        raise Malformed(
            f"format version {version} is not known to this decoder (it knows {VERSION})",
            reader.position,
        )
    shape, quantiser = read_input(reader)
    depth = reader.bounded(MOST_LAYERS)
    layers: list[Layer] = []
    feature = Feature(shape)
    for place in range(1, depth + 1):
        layer = read_layer(reader, feature, place, last=place == depth, room=room)
        room -= takes(layer)
        feature = feature_after(feature, layer)
        layers.append(layer)
    return shape, quantiser, tuple(layers), room


def write_input(writer: BitWriter, shape: Shape, quantiser: Input) -> None:
    for side in shape:
        writer.bounded(side, MOST_SIDE)
    if isinstance(quantiser, Bytes):
        writer.fixed(0, 1)
        writer.bounded(quantiser.shift + 1, 8)
        return
    writer.fixed(1, 1)
    writer.bounded(quantiser.width, MOST_WIDTH)
    own = len(quantiser.exponents) > 1
    writer.fixed(int(own), 1)
    for exponent, offset in zip(quantiser.exponents, quantiser.offsets, strict=True):
        writer.signed(exponent, MOST_EXPONENT)
        writer.signed(offset, MOST_OFFSET)


def read_input(reader: BitReader) -> tuple[Shape, Input]:
    shape = (reader.bounded(MOST_SIDE), reader.bounded(MOST_SIDE), reader.bounded(MOST_SIDE))
    if not reader.fixed(1):
        return shape, Bytes(reader.bounded(8) - 1)
    width = reader.bounded(MOST_WIDTH)
    own = reader.fixed(1)
    features = math.prod(shape)
    if own and not 2 <= features <= min(
        reader.length, MOST_ACTIVATIONS
    ):  # each needs bits of its own
        raise Malformed(
            f"quantisers for {features} features do not fit the message", reader.position
        )
    pairs = [
        (reader.signed(MOST_EXPONENT), reader.signed(MOST_OFFSET))
        for _ in range(features if own else 1)
    ]
    return shape, Floats(width, tuple(e for e, _ in pairs), tuple(o for _, o in pairs))


def describe_input(shape: Shape, quantiser: Input) -> str:
    sides = "x".join(map(str, shape))
    if isinstance(quantiser, Bytes):
        return f"{sides} bytes, shifted right by {quantiser.shift}"
    each = "one quantiser for all" if len(quantiser.exponents) == 1 else "a quantiser for each"
    return f"{sides} floats, to {quantiser.width} bits by {each}"


def write_layer(writer: BitWriter, layer: Layer, before: Feature, last: bool) -> None:
    if isinstance(layer, Pool):
        writer.fixed(_MAX if layer.kind == "max" else _SUM, 2)
        writer.bounded(layer.size - 1, MOST_SIDE)
        return
    writer.fixed(_DENSE if isinstance(layer, Dense) else _CONV, 2)
    writer.bounded(layer.source.shape[0], MOST_WEIGHTS)
    if isinstance(layer, Conv):
        writer.bounded(layer.source.shape[-1], MOST_KERNEL)
        writer.bounded(layer.stride, MOST_KERNEL)
        writer.bounded(layer.padding + 1, MOST_KERNEL)
        writer.bounded(layer.groups + 1, MOST_WEIGHTS)
        writer.fixed(ORDERS.index(layer.symmetry), 2)
    elif before.symmetry > 1:
        writer.fixed(int(layer.symmetry > 1), 1)
    _write_source(writer, layer.source)
    writer.fixed(int(layer.bias is not None), 1)
    if layer.bias is not None:
        writer.bounded(layer.bias_shift + 1, MOST_BIAS_BITS + 1)
    elif layer.bias_shift:
        raise Malformed("a layer without biases has no bias shift")
    if not last:
        writer.bounded(layer.shift + 1, MOST_SHIFT + 1)
    elif layer.shift:
        raise Malformed("the last layer's scores are not shifted")


def read_layer(reader: BitReader, before: Feature, place: int, last: bool, room: int) -> Layer:
    """One layer with its coded numbers still zero; sizes are checked before anything is
    allocated.
    """
    kind = reader.fixed(2)
    if kind in (_MAX, _SUM):
        return Pool("max" if kind == _MAX else "sum", reader.bounded(MOST_SIDE) + 1)
    outputs = reader.bounded(MOST_WEIGHTS)
    if kind == _CONV:
        if len(before.shape) != 3:
            raise Malformed("a convolution or pooling cannot follow a dense layer", reader.position)
        side, stride = reader.bounded(MOST_KERNEL), reader.bounded(MOST_KERNEL)
        padding, groups = reader.bounded(MOST_KERNEL) - 1, reader.bounded(MOST_WEIGHTS) - 1
        symmetry = ORDERS[reader.fixed(2)]
        shape = stored_shape(before, outputs, side, groups, symmetry)
    else:
        symmetry = before.symmetry if before.symmetry > 1 and reader.fixed(1) else 1
        shape = (outputs, math.prod(before.shape))
        if symmetry > 1:
            shape = (outputs, before.shape[0] // symmetry, *before.shape[1:])
    source = _read_source(reader, shape, place, room)
    has_bias = reader.fixed(1)
    bias_shift = reader.bounded(MOST_BIAS_BITS + 1) - 1 if has_bias else 0
    shift = 0 if last else reader.bounded(MOST_SHIFT + 1) - 1
    bias = np.zeros(outputs, dtype=np.int64) if has_bias else None
    if kind == _CONV:
        return Conv(source, bias, bias_shift, shift, stride, padding, groups, symmetry)
    return Dense(source, bias, bias_shift, shift, symmetry)


def _write_source(writer: BitWriter, source: Source) -> None:
    writer.gamma(_SOURCES.index(type(source)) + 1)
    if isinstance(source, Grid):
        writer.bounded(source.levels, MOST_LEVELS)
    elif isinstance(source, Product):
        writer.bounded(source.rank, MOST_WEIGHTS)
        writer.bounded(source.shift + 1, MOST_SHIFT + 1)
    elif not isinstance(source, Values):
        writer.bounded(source.seed + 1, MOST_SEED)
        if isinstance(source, SeededProjection | SignProjection):
            writer.bounded(len(source.coefficients), MOST_WEIGHTS)
            writer.bounded(source.shift + 1, MOST_SHIFT + 1)
        if isinstance(source, SeededProjection):
            writer.bounded(source.amplitude + 1, MOST_AMPLITUDE + 1)
        elif isinstance(source, SeededNoise):
            writer.bounded(source.amplitude, MOST_AMPLITUDE)


def _read_source(reader: BitReader, shape: tuple[int, ...], place: int, room: int) -> Source:
    kind = _SOURCES[reader.bounded(len(_SOURCES)) - 1]
    if math.prod(shape) > room:
        raise Malformed(
            f"more than the {MOST_WEIGHTS} weights that the format allows", reader.position
        )
    if kind is Grid:
        return Grid(_zeros(shape), reader.bounded(MOST_LEVELS))
    if kind is Values:
        return Values(_zeros(shape))
    if kind is Product:
        rank = reader.bounded(MOST_WEIGHTS)
        factors = rank * (shape[0] + math.prod(shape[1:]))
        if math.prod(shape) + factors > room:
            raise Malformed(
                f"more than the {MOST_WEIGHTS} weights that the format allows", reader.position
            )
        return Product(_zeros((factors,)), shape, rank, reader.bounded(MOST_SHIFT + 1) - 1)
    seed = reader.bounded(MOST_SEED) - 1
    if kind is SeededMask:
        return SeededMask(_zeros(shape), seed, place)
    if kind is SeededNoise:
        return SeededNoise(_zeros(shape), seed, place, reader.bounded(MOST_AMPLITUDE))
    coefficients = reader.bounded(MOST_WEIGHTS)
    shift = reader.bounded(MOST_SHIFT + 1) - 1
    if kind is SignProjection:
        return SignProjection(_zeros((coefficients,)), shape, seed, place, shift)
    amplitude = reader.bounded(MOST_AMPLITUDE + 1) - 1
    return SeededProjection(_zeros((coefficients,)), shape, seed, place, shift, amplitude)


def _zeros(shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.zeros(shape, dtype=np.int64)


def describe_layer(layer: Layer) -> str:
    if isinstance(layer, Pool):
        return f"{layer.kind} pooling {layer.size}x{layer.size}"
    words = [_describe_source(layer.source)]
    if layer.symmetry > 1:
        words.append(f"symmetry of order {layer.symmetry}")
    if layer.shift:
        words.append(f"ReLU and shift by {layer.shift}")
    outputs, side = layer.source.shape[0], layer.source.shape[-1]
    if isinstance(layer, Dense):
        return ", ".join([f"dense to {outputs}", *words])
    kind = "depthwise convolution" if layer.groups == 0 else "convolution"
    if layer.groups > 1:
        words.insert(0, f"{layer.groups} groups")
    head = (
        f"{kind} {side}x{side} to {outputs * layer.symmetry} channels, stride {layer.stride}, "
        f"padding {layer.padding}"
    )
    return ", ".join([head, *words])


def _describe_source(source: Source) -> str:
    if isinstance(source, Grid):
        return f"grid -{source.levels}..{source.levels}"
    if isinstance(source, Values):
        return "a mask and values"
    if isinstance(source, SeededMask):
        return f"a mask of the signs of seed {source.seed}"
    if isinstance(source, SeededNoise):
        return f"values on top of the noise of seed {source.seed} times {source.amplitude}"
    if isinstance(source, Product):
        return f"a product of rank {source.rank}, shifted by {source.shift}"
    if isinstance(source, SignProjection):
        return f"Matrix-Project with {len(source.coefficients)} sign matrices of seed {source.seed}"
    return f"{len(source.coefficients)} coefficients of the sign matrices of seed {source.seed}"

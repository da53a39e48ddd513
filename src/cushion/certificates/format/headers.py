"""The uncompressed front of a message: input and one header a layer (FORMAT.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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
# What stands in the header of each source, in the order of its code: (field, least, most). The
# coefficients are named by their number.
_SEED = ("seed", 0, MOST_SEED - 1)
_COUNT = ("coefficients", 1, MOST_WEIGHTS)
_SHIFT = ("shift", 0, MOST_SHIFT)
_FIELDS: dict[type[Source], tuple[tuple[str, int, int], ...]] = {
    Grid: (("levels", 1, MOST_LEVELS),),
    Values: (),
    SeededMask: (_SEED,),
    SeededProjection: (_SEED, _COUNT, _SHIFT, ("amplitude", 0, MOST_AMPLITUDE)),
    SeededNoise: (_SEED, ("amplitude", 1, MOST_AMPLITUDE)),
    SignProjection: (_SEED, _COUNT, _SHIFT),
    Product: (("rank", 1, MOST_WEIGHTS), _SHIFT),
}
_KINDS = tuple(_FIELDS)
_MEANINGS = {
    Grid: "grid -{levels}..{levels}",
    Values: "a mask and values",
    SeededMask: "a mask of the signs of seed {seed}",
    SeededProjection: "{coefficients} coefficients of the sign matrices of seed {seed}",
    SeededNoise: "values on top of the noise of seed {seed} times {amplitude}",
    SignProjection: "Matrix-Project with {coefficients} sign matrices of seed {seed}",
    Product: "a product of rank {rank}, shifted by {shift}",
}

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
    """One layer, its coded numbers zero; sizes are checked before anything is allocated."""
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


def _header_of(source: Source) -> dict[str, int]:
    """The fields that stand in the header of a source."""
    found = {name: getattr(source, name) for name, _, _ in _FIELDS[type(source)]}
    if isinstance(source, SeededProjection | SignProjection):
        found["coefficients"] = len(source.coefficients)
    return found


def _write_source(writer: BitWriter, source: Source) -> None:
    writer.gamma(_KINDS.index(type(source)) + 1)
    header = _header_of(source)
    for name, least, most in _FIELDS[type(source)]:
        writer.bounded(header[name] - least + 1, most - least + 1)


def _read_source(reader: BitReader, shape: tuple[int, ...], place: int, room: int) -> Source:
    kind: Any = _KINDS[reader.bounded(len(_KINDS)) - 1]
    header: dict[str, Any] = {
        name: reader.bounded(most - least + 1) + least - 1 for name, least, most in _FIELDS[kind]
    }
    used, coded = math.prod(shape), shape
    if kind is Product:
        coded = (header["rank"] * (shape[0] + math.prod(shape[1:])),)
        used += coded[0]
    elif "coefficients" in header:
        coded = (header.pop("coefficients"),)
    if used > room:
        raise Malformed(
            f"more than the {MOST_WEIGHTS} weights that the format allows", reader.position
        )
    if "seed" in header:
        header["layer"] = place
    if coded is not shape:
        header["shape"] = shape
    source: Source = kind(np.zeros(coded, dtype=np.int64), **header)
    return source


def describe_layer(layer: Layer) -> str:
    if isinstance(layer, Pool):
        return f"{layer.kind} pooling {layer.size}x{layer.size}"
    words = [_MEANINGS[type(layer.source)].format(**_header_of(layer.source))]
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

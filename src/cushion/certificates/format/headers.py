"""The uncompressed front of a message: input and one header a layer (FORMAT.md, section 3)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cushion.certificates.format import inputs, limits, sources
from cushion.certificates.format.bits import Bits
from cushion.certificates.format.claims import LedgerItem
from cushion.certificates.format.inputs import Bytes, Floats, Input
from cushion.certificates.format.integer_net import IntegerNet
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
from cushion.certificates.format.limits import MOST_WEIGHTS, Shape
from cushion.certificates.format.sources import Source
from cushion.certificates.format.symmetry import ORDERS
from cushion.errors import Malformed

VERSION = 2
MOST_LAYERS = 64
MOST_LEVELS = 127
MOST_SEED = 2**32
MOST_SIDE = 2**20
MOST_KERNEL = 1024
_KINDS = ("dense", "convolution", "max", "sum")
# What stands in the header of each source, in the order of its code, (field, least, most), and what
# the ledger says of it.
_SEED = ("seed", 0, MOST_SEED - 1)
_COUNT = ("count", 1, MOST_WEIGHTS)
_SHIFT = ("shift", 0, limits.MOST_SHIFT)
_AMPLITUDE = ("amplitude", 0, limits.MOST_AMPLITUDE)
_SOURCES: dict[type[Source], tuple[str, tuple[tuple[str, int, int], ...]]] = {
    sources.Grid: ("grid -{0.levels}..{0.levels}", (("levels", 1, MOST_LEVELS),)),
    sources.Values: ("a mask and values", ()),
    sources.SeededMask: ("a mask of the signs of seed {0.seed}", (_SEED,)),
    sources.SeededProjection: (
        "{0.count} coefficients of the sign matrices of seed {0.seed}",
        (_SEED, _COUNT, _SHIFT, _AMPLITUDE),
    ),
    sources.SeededNoise: (
        "values on top of the noise of seed {0.seed} times {0.amplitude}",
        (_SEED, ("amplitude", 1, limits.MOST_AMPLITUDE)),
    ),
    sources.SignProjection: (
        "Matrix-Project with {0.count} sign matrices of seed {0.seed}",
        (_SEED, _COUNT, _SHIFT),
    ),
    sources.Product: (
        "a product of rank {0.rank}, shifted by {0.shift}",
        (("rank", 1, MOST_WEIGHTS), _SHIFT),
    ),
}


class Bill:
    """What the bits of a message were spent on, item by item."""

    def __init__(self, bits: Bits) -> None:
        self._bits, self._charged = bits, 0
        self.items: list[LedgerItem] = []

    def charge(self, item: str, meaning: str, now: int | None = None) -> None:
        """All bits up to now (the present position) that nothing was charged with yet."""
        now = self._bits.position if now is None else now
        self.items.append(LedgerItem(item, now - self._charged, meaning))
        self._charged = now


class Front(NamedTuple):
    """layers: read, their coded numbers are still zero. room: what is left of it for numbers."""

    shape: Shape
    input: Input
    layers: tuple[Layer, ...]
    room: int
    bill: Bill


def code_front(
    bits: Bits, net: IntegerNet | None, room: int, takes: Callable[[Layer], int]
) -> Front:
    """Version, input, depth and the header of every layer: written, or read where there is no net.

    takes(layer): of the room for numbers, after which no larger layer is allocated.
    """
    bill = Bill(bits)
    version = bits.gamma(VERSION)
    if version != VERSION:
        raise Malformed(f"format version {version}, not {VERSION} as known here", bits.position)
    bill.charge("format version", "all versions share one prefix code")
    shape, quantiser = code_input(bits, *((net.input_shape, net.input) if net else (None, None)))
    bill.charge("input", describe_input(shape, quantiser))
    depth = bits.bounded(len(net.layers) if net else 1, MOST_LAYERS)
    bill.charge("depth", "number of layers")
    layers: list[Layer] = []
    feature = Feature(shape)
    for place in range(1, depth + 1):
        given = net.layers[place - 1] if net else None
        layer = code_layer(bits, given, feature, place, last=place == depth, room=room)
        bill.charge(f"layer {place}: kind", describe_layer(layer))
        room -= takes(layer)
        feature = feature_after(feature, layer)
        layers.append(layer)
    return Front(shape, quantiser, tuple(layers), room, bill)


def code_input(bits: Bits, shape: Shape | None, quantiser: Input | None) -> tuple[Shape, Input]:
    first, second, third = (bits.bounded(side, MOST_SIDE) for side in shape or (1, 1, 1))
    shape = (first, second, third)
    if not bits.fixed(int(isinstance(quantiser, Floats)), 1):
        return shape, Bytes(bits.bounded(getattr(quantiser, "shift", 0) + 1, 8) - 1)
    given = quantiser if isinstance(quantiser, Floats) else None
    width = bits.bounded(given.width if given else 1, inputs.MOST_WIDTH)
    features = math.prod(shape)
    own = bits.fixed(int(given is not None and len(given.exponents) > 1), 1)
    if own and not 2 <= features <= limits.MOST_ACTIVATIONS:
        raise Malformed(f"quantisers for {features} features do not fit a message", bits.position)
    known = zip(given.exponents, given.offsets, strict=True) if given else itertools.repeat((0, 0))
    pairs = [
        (bits.signed(exponent, inputs.MOST_EXPONENT), bits.signed(offset, inputs.MOST_OFFSET))
        for exponent, offset in itertools.islice(known, features if own else 1)
    ]
    return shape, Floats(width, tuple(e for e, _ in pairs), tuple(o for _, o in pairs))


def describe_input(shape: Shape, quantiser: Input) -> str:
    sides = "x".join(map(str, shape))
    if isinstance(quantiser, Bytes):
        return f"{sides} bytes, shifted right by {quantiser.shift}"
    each = "one quantiser for all" if len(quantiser.exponents) == 1 else "a quantiser for each"
    return f"{sides} floats, to {quantiser.width} bits by {each}"


def code_layer(
    bits: Bits, layer: Layer | None, before: Feature, place: int, last: bool, room: int
) -> Layer:
    """One layer; read, its coded numbers are zero, and sizes are checked before it is allocated."""

    def field(name: str, least: int, most: int) -> int:
        return _field(bits, layer, name, least, most)

    kind = _KINDS[bits.fixed(_KINDS.index(getattr(layer, "kind", "dense")), 2)]
    if kind in ("max", "sum"):
        return Pool(kind, field("size", 2, MOST_SIDE + 1))
    outputs = field("outputs", 1, MOST_WEIGHTS)
    symmetry = getattr(layer, "symmetry", 1)
    if kind == "convolution":
        if len(before.shape) != 3:
            raise Malformed("a convolution or pooling cannot follow a dense layer", bits.position)
        side, stride = field("side", 1, MOST_KERNEL), field("stride", 1, MOST_KERNEL)
        padding, groups = field("padding", 0, MOST_KERNEL - 1), field("groups", 0, MOST_WEIGHTS - 1)
        symmetry = ORDERS[bits.fixed(ORDERS.index(symmetry), 2)]
        shape = stored_shape(before, outputs, side, groups, symmetry)
    else:
        invariant = before.symmetry > 1 and bits.fixed(int(symmetry > 1), 1)
        symmetry = before.symmetry if invariant else 1
        shape = dense_shape(before, outputs, symmetry)
    source = _code_source(bits, getattr(layer, "source", None), shape, place, room)
    biased = bits.fixed(int(getattr(layer, "bias", None) is not None), 1)
    bias_shift = field("bias_shift", 0, limits.MOST_BIAS_BITS) if biased else 0
    shift = 0 if last else field("shift", 0, limits.MOST_SHIFT)
    if isinstance(layer, Dense | Conv):
        if (bias_shift, shift) != (layer.bias_shift, layer.shift):
            raise Malformed("the last layer is not shifted, and without biases is no bias shift")
        return layer
    numbers = (source, np.zeros(outputs, dtype=np.int64) if biased else None, bias_shift, shift)
    if kind == "convolution":
        return Conv(*numbers, stride, padding, groups, symmetry)
    return Dense(*numbers, symmetry)


def _field(bits: Bits, of: object, name: str, least: int, most: int) -> int:
    return bits.bounded(getattr(of, name, least) - least + 1, most - least + 1) + least - 1


def _code_source(
    bits: Bits, source: Source | None, shape: tuple[int, ...], place: int, room: int
) -> Source:
    kinds: list[Any] = list(_SOURCES)
    kind = kinds[bits.bounded(kinds.index(type(source)) + 1 if source else 1, len(kinds)) - 1]
    header: dict[str, Any] = {
        name: _field(bits, source, name, least, most) for name, least, most in _SOURCES[kind][1]
    }
    if source is not None:
        return source
    used, coded = math.prod(shape), shape
    if kind is sources.Product:
        coded = (header["rank"] * (shape[0] + math.prod(shape[1:])),)
        used += coded[0]
    elif "count" in header:
        coded = (header.pop("count"),)
    if used > room:
        raise Malformed(f"more weights than the {MOST_WEIGHTS} of the format", bits.position)
    if "seed" in header:
        header["layer"] = place
    if coded is not shape:
        header["shape"] = shape
    made: Source = kind(np.zeros(coded, dtype=np.int64), **header)
    return made


def describe_layer(layer: Layer) -> str:
    if isinstance(layer, Pool):
        return f"{layer.kind} pooling {layer.size}x{layer.size}"
    words = [_SOURCES[type(layer.source)][0].format(layer.source)]
    if layer.symmetry > 1:
        words.append(f"symmetry of order {layer.symmetry}")
    if layer.shift:
        words.append(f"ReLU and shift by {layer.shift}")
    if isinstance(layer, Dense):
        return ", ".join([f"dense to {layer.outputs}", *words])
    kind = layer.kind if layer.groups else "depthwise convolution"
    if layer.groups > 1:
        words.insert(0, f"{layer.groups} groups")
    head = (
        f"{kind} {layer.side}x{layer.side} to {layer.outputs * layer.symmetry} channels, "
        f"stride {layer.stride}, padding {layer.padding}"
    )
    return ", ".join([head, *words])

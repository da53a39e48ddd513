"""An integer net as a message of a prefix code, and back; the message's length is what a
certificate pays.

The layout is FORMAT.md's. Everything the decoder reads is inside the message and counted: format
version, input shape and quantiser, architecture, seeds, grids, shifts, biases, weights. Decoding is
strict: the net that was read is encoded again and must give the same bits, so there is exactly one
message for a net and no room for trailing bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cushion.certificates.format.arithmetic import ArithmeticDecoder, ArithmeticEncoder
from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.claims import LedgerItem
from cushion.certificates.format.headers import (
    describe_input,
    describe_layer,
    read_input,
    read_layer,
    write_input,
    write_layer,
)
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Feature, Layer, Pool, feature_after
from cushion.certificates.format.limits import MOST_WEIGHTS, check_sizes, numbers_of
from cushion.certificates.format.numbers import (
    Coder,
    NumberContexts,
    Reading,
    Writing,
    code_flag,
    code_small,
    code_wide,
)
from cushion.certificates.format.sources import (
    Grid,
    Product,
    SeededMask,
    SeededProjection,
    SignProjection,
    Source,
    coded_numbers,
)
from cushion.errors import Malformed

VERSION = 2
MOST_LAYERS = 64
MOST_BITS = 2**22


@dataclass(frozen=True)
class Message:
    """The encoded net: `bits` is the paid length, `data` its bytes (zero-padded), the ledger sums
    to `bits`.
    """

    bits: int
    data: bytes
    ledger: tuple[LedgerItem, ...]


def encode(net: IntegerNet) -> Message:
    """Encode a net; the result decodes to exactly this net. Raises Malformed for one outside the
    grammar.
    """
    writer = BitWriter()
    ledger: list[LedgerItem] = []

    def charge(item: str, meaning: str, now: int) -> None:
        ledger.append(LedgerItem(item, now - sum(paid.bits for paid in ledger), meaning))

    writer.gamma(VERSION)
    charge("format version", "all versions share one prefix code", len(writer))
    write_input(writer, net.input_shape, net.input)
    charge("input", describe_input(net.input_shape, net.input), len(writer))
    writer.bounded(len(net.layers), MOST_LAYERS)
    charge("depth", "number of layers", len(writer))
    feature = Feature(tuple(net.input_shape))
    for index, layer in enumerate(net.layers):
        write_layer(writer, layer, feature, last=index + 1 == len(net.layers))
        charge(f"layer {index + 1}: kind", describe_layer(layer), len(writer))
        feature = feature_after(feature, layer)
    stream = ArithmeticEncoder(writer)
    for index, numbers, meaning in _coded(net.layers, Writing(stream)):
        charge(f"layer {index + 1}: {numbers}", meaning, stream.written)
    stream.finish()
    charge(
        "end of the coded stream",
        "the last bits name an interval inside the final one",
        len(writer),
    )
    if len(writer) > MOST_BITS:
        raise Malformed(
            f"a message of {len(writer)} bits is longer than the {MOST_BITS} that the format allows"
        )
    return Message(len(writer), writer.to_bytes(), tuple(ledger))


def decode(data: bytes, bits: int) -> IntegerNet:
    """The net of a message; as strict as `read`."""
    return read(data, bits)[0]


def read(data: bytes, bits: int) -> tuple[IntegerNet, tuple[LedgerItem, ...]]:
    """Net and ledger. Malformed unless `data` is, to the last bit, the message of the net that it
    describes.
    """
    if bits > MOST_BITS:
        raise Malformed(
            f"a message of {bits} bits is longer than the {MOST_BITS} that the format allows"
        )
    reader = BitReader(data, bits)
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
    room = MOST_WEIGHTS
    for index in range(depth):
        layer = read_layer(reader, feature, index + 1, last=index + 1 == depth, room=room)
        room -= numbers_of(layer)
        feature = feature_after(feature, layer)
        layers.append(layer)
    check_sizes(
        shape, quantiser, tuple(layers)
    )  # refuses sizes beyond the limits before any number is read
    for _ in _coded(tuple(layers), Reading(ArithmeticDecoder(reader))):
        pass
    net = IntegerNet(shape, quantiser, tuple(layers))  # proves the range, or refuses
    again = encode(net)
    if again.bits != bits or again.data != data:
        raise Malformed(
            "the message is not the canonical one of its net (trailing or altered bits)"
        )
    return net, again.ledger


def _coded(layers: tuple[Layer, ...], coder: Coder) -> Iterator[tuple[int, str, str]]:
    """Walk the coded stream, writing the layers' numbers or filling them in; yields (layer, what,
    meaning).
    """
    reading = isinstance(coder, Reading)
    for index, layer in enumerate(layers):
        if isinstance(layer, Pool):
            continue
        source = layer.source
        flat = coded_numbers(source).reshape(-1)
        contexts = NumberContexts()
        given = [None] * flat.size if reading else flat.tolist()
        if isinstance(source, Grid):
            coded = [code_small(coder, value, source.levels, contexts) for value in given]
            meaning = f"{flat.size} weights in -{source.levels}..{source.levels}, adaptively coded"
        elif isinstance(source, SeededMask):
            coded = [code_flag(coder, value, contexts) for value in given]
            meaning = f"which of {flat.size} seeded signs are kept"
        else:
            coded = [code_wide(coder, value, contexts) for value in given]
            meaning = f"{flat.size} {_wide_numbers(source)}, adaptively coded"
        if reading:
            flat[:] = coded
        yield index, "weights", meaning
        if layer.bias is not None:
            contexts = NumberContexts()
            coded = [
                code_wide(coder, value, contexts)
                for value in ([None] * layer.bias.size if reading else layer.bias.tolist())
            ]
            if reading:
                layer.bias[:] = np.array(coded, dtype=np.int64)
            yield index, "biases", f"{layer.bias.size} biases in steps of {2**layer.bias_shift}"


def _wide_numbers(source: Source) -> str:
    """What the wide numbers of a source are."""
    if isinstance(source, SeededProjection | SignProjection):
        return "coefficients"
    return (
        "numbers of two factors" if isinstance(source, Product) else "weights (most of them none)"
    )

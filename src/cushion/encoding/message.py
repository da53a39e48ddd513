"""An integer net as a message of a prefix code, and back; the message's length is what a certificate pays.

The layout is FORMAT.md's. Everything the decoder reads is inside the message and counted: format version, input
shape, architecture, grids, shifts, biases, weights. Decoding is strict: the net that was read is encoded again
and must give the same bits, so there is exactly one message for a net and no room for trailing bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cushion.encoding.arithmetic import ArithmeticDecoder, ArithmeticEncoder, Context
from cushion.encoding.bits import BitReader, BitWriter
from cushion.encoding.integer_net import (
    MOST_SHIFT,
    MOST_WEIGHTS,
    Conv,
    Dense,
    IntegerNet,
    Layer,
    Pool,
    shape_after,
)
from cushion.errors import Malformed
from cushion.records import LedgerItem

VERSION = 1
MOST_LAYERS = 64
MOST_LEVELS = 127
_MOST_BIAS_BITS = 40
_DENSE, _CONV, _MAX, _SUM = range(4)


@dataclass(frozen=True)
class Message:
    """The encoded net: `bits` is the paid length, `data` its bytes (zero-padded), the ledger sums to `bits`."""

    bits: int
    data: bytes
    ledger: tuple[LedgerItem, ...]


class NumberContexts:
    """The adaptive decisions behind one family of integers (a layer's weights, or its biases)."""

    def __init__(self) -> None:
        self.zero = Context()
        self.sign = Context()
        self.more: dict[int, Context] = {}

    def step(self, index: int) -> Context:
        return self.more.setdefault(index, Context())


def encode(net: IntegerNet) -> Message:
    """Encode a net; the result decodes to exactly this net. Raises Malformed for one outside the grammar."""
    writer = BitWriter()
    ledger: list[LedgerItem] = []

    def charge(item: str, meaning: str, since: int, now: int) -> int:
        ledger.append(LedgerItem(item, now - since, meaning))
        return now

    writer.gamma(VERSION)
    mark = charge("format version", "all versions share one prefix code", 0, len(writer))
    for side in net.input_shape:
        writer.gamma(side)
    writer.gamma(net.input_shift + 1)
    mark = charge("input", "channels, height, width and the right shift of the uint8 inputs", mark, len(writer))
    if len(net.layers) > MOST_LAYERS:
        raise Malformed(f"{len(net.layers)} layers are more than the {MOST_LAYERS} that the format allows")
    writer.gamma(len(net.layers))
    mark = charge("depth", "number of layers", mark, len(writer))
    for index, layer in enumerate(net.layers):
        _write_header(writer, layer, last=index + 1 == len(net.layers))
        mark = charge(f"layer {index + 1}: kind", _describe(layer), mark, len(writer))
    coder = ArithmeticEncoder(writer)
    for index, layer in enumerate(net.layers):
        if isinstance(layer, Pool):
            continue
        weights = NumberContexts()
        for value in layer.weight.reshape(-1).tolist():
            _encode_weight(coder, value, layer.levels, weights)
        meaning = f"{layer.weight.size} weights in -{layer.levels}..{layer.levels}, adaptively coded"
        mark = charge(f"layer {index + 1}: weights", meaning, mark, coder.written)
        if layer.bias is not None:
            biases = NumberContexts()
            for value in layer.bias.tolist():
                _encode_bias(coder, value, biases)
            mark = charge(f"layer {index + 1}: biases", f"{layer.bias.size} biases", mark, coder.written)
    coder.finish()
    charge("end of the coded stream", "the last bits name an interval inside the final one", mark, len(writer))
    return Message(len(writer), writer.to_bytes(), tuple(ledger))


def decode(data: bytes, bits: int) -> IntegerNet:
    """The net of a message; as strict as `read`."""
    return read(data, bits)[0]


def read(data: bytes, bits: int) -> tuple[IntegerNet, tuple[LedgerItem, ...]]:
    """Net and ledger. Malformed unless `data` is, to the last bit, the message of the net that it describes."""
    reader = BitReader(data, bits)
    version = reader.gamma()
    if version != VERSION:
        raise Malformed(f"format version {version} is not known to this decoder (it knows {VERSION})", reader.position)
    shape = (_bounded(reader, 2**20), _bounded(reader, 2**20), _bounded(reader, 2**20))
    input_shift = _bounded(reader, 8) - 1
    depth = _bounded(reader, MOST_LAYERS)
    layers: list[Layer] = []
    feature: tuple[int, ...] = shape
    count = 0
    for index in range(depth):
        layer = _read_header(reader, feature, last=index + 1 == depth, room=MOST_WEIGHTS - count)
        if not isinstance(layer, Pool):
            count += layer.weight.size + (0 if layer.bias is None else layer.bias.size)
        feature = shape_after(feature, layer)
        layers.append(layer)
    IntegerNet(shape, input_shift, tuple(layers))  # with all weights zero: refuses shapes beyond the limits early
    decoder = ArithmeticDecoder(reader)
    for layer in layers:
        if isinstance(layer, Pool):
            continue
        weights = NumberContexts()
        layer.weight.reshape(-1)[:] = [_decode_weight(decoder, layer.levels, weights) for _ in range(layer.weight.size)]
        if layer.bias is not None:
            biases = NumberContexts()
            layer.bias[:] = [_decode_bias(decoder, biases) for _ in range(layer.bias.size)]
    net = IntegerNet(shape, input_shift, tuple(layers))  # proves the range, or refuses
    again = encode(net)
    if again.bits != bits or again.data != data:
        raise Malformed("the message is not the canonical one of its net (trailing or altered bits)")
    return net, again.ledger


def _write_header(writer: BitWriter, layer: Layer, last: bool) -> None:
    if isinstance(layer, Pool):
        writer.fixed(_MAX if layer.kind == "max" else _SUM, 2)
        writer.gamma(layer.size - 1)
        return
    if layer.levels > MOST_LEVELS:
        raise Malformed(f"{layer.levels} levels are more than the {MOST_LEVELS} that the format allows")
    writer.fixed(_DENSE if isinstance(layer, Dense) else _CONV, 2)
    writer.gamma(len(layer.weight))
    if isinstance(layer, Conv):
        writer.gamma(layer.weight.shape[2])
        writer.gamma(layer.stride)
        writer.gamma(layer.padding + 1)
    writer.gamma(layer.levels)
    writer.fixed(int(layer.bias is not None), 1)
    if not last:
        writer.gamma(layer.shift + 1)
    elif layer.shift:
        raise Malformed("the last layer's scores are not shifted")


def _read_header(reader: BitReader, feature: tuple[int, ...], last: bool, room: int) -> Layer:
    """One layer with its weights still zero; sizes are checked before anything is allocated."""
    kind = reader.fixed(2)
    if kind in (_MAX, _SUM):
        return Pool("max" if kind == _MAX else "sum", _bounded(reader, 2**20) + 1)
    outputs = _bounded(reader, MOST_WEIGHTS)
    shape: tuple[int, ...]
    if kind == _CONV:
        side, stride, padding = _bounded(reader, 1024), _bounded(reader, 1024), _bounded(reader, 1024) - 1
        shape = (outputs, feature[0], side, side)
    else:
        shape = (outputs, int(np.prod(feature)))
    levels = _bounded(reader, MOST_LEVELS)
    has_bias = reader.fixed(1)
    shift = 0 if last else _bounded(reader, MOST_SHIFT + 1) - 1
    size = 1
    for extent in shape:
        size *= extent
    if size + outputs * has_bias > room:
        raise Malformed(f"more than the {MOST_WEIGHTS} weights that the format allows", reader.position)
    weight = np.zeros(shape, dtype=np.int64)
    bias = np.zeros(outputs, dtype=np.int64) if has_bias else None
    if kind == _CONV:
        return Conv(weight, bias, levels, shift, stride, padding)
    return Dense(weight, bias, levels, shift)


def _bounded(reader: BitReader, most: int) -> int:
    value = reader.gamma()
    if value > most:
        raise Malformed(f"a field of {value} is beyond the format's limit of {most}", reader.position)
    return value


def _describe(layer: Layer) -> str:
    if isinstance(layer, Pool):
        return f"{layer.kind} pooling {layer.size}x{layer.size}"
    shift = "" if layer.shift == 0 else f", ReLU and shift by {layer.shift}"
    if isinstance(layer, Dense):
        return f"dense to {len(layer.weight)}, grid -{layer.levels}..{layer.levels}{shift}"
    side = layer.weight.shape[2]
    return (
        f"convolution {side}x{side} to {len(layer.weight)} channels, stride {layer.stride}, "
        f"padding {layer.padding}, grid -{layer.levels}..{layer.levels}{shift}"
    )


def _encode_weight(coder: ArithmeticEncoder, value: int, levels: int, contexts: NumberContexts) -> None:
    """Zero or not, the sign, then the magnitude in unary; the largest needs no closing zero."""
    coder.encode(int(value != 0), contexts.zero)
    if value == 0:
        return
    coder.encode(int(value < 0), contexts.sign)
    for step in range(1, levels):
        more = int(abs(value) > step)
        coder.encode(more, contexts.step(step))
        if not more:
            return


def _decode_weight(decoder: ArithmeticDecoder, levels: int, contexts: NumberContexts) -> int:
    if not decoder.decode(contexts.zero):
        return 0
    negative = decoder.decode(contexts.sign)
    magnitude = 1
    while magnitude < levels and decoder.decode(contexts.step(magnitude)):
        magnitude += 1
    return -magnitude if negative else magnitude


def _encode_bias(coder: ArithmeticEncoder, value: int, contexts: NumberContexts) -> None:
    """Zero or not, the sign, the magnitude's bit length in unary, then the bits below its leading one."""
    coder.encode(int(value != 0), contexts.zero)
    if value == 0:
        return
    coder.encode(int(value < 0), contexts.sign)
    width = abs(value).bit_length()
    if width > _MOST_BIAS_BITS:
        raise Malformed(f"a bias of {value} is larger than the format allows")
    for step in range(1, width + 1):
        coder.encode(int(step < width), contexts.step(step))
    for shift in range(width - 2, -1, -1):
        coder.encode(abs(value) >> shift & 1, Context())  # a fresh context: exactly one bit, even odds


def _decode_bias(decoder: ArithmeticDecoder, contexts: NumberContexts) -> int:
    if not decoder.decode(contexts.zero):
        return 0
    negative = decoder.decode(contexts.sign)
    width = 1
    while decoder.decode(contexts.step(width)):
        width += 1
        if width > _MOST_BIAS_BITS:
            raise Malformed("a bias in the message is larger than the format allows")
    magnitude = 1
    for _ in range(width - 1):
        magnitude = magnitude << 1 | decoder.decode(Context())
    return -magnitude if negative else magnitude

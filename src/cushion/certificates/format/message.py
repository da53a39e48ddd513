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
from cushion.certificates.format.headers import read_front, write_front
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Layer, Pool
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

MOST_BITS = 2**22


@dataclass(frozen=True)
class Message:
    """`bits` is the paid length, to which the ledger sums; `data` its bytes, zero-padded."""

    bits: int
    data: bytes
    ledger: tuple[LedgerItem, ...]


def encode(net: IntegerNet) -> Message:
    """The message that decodes to exactly this net; Malformed for one outside the grammar."""
    writer = BitWriter()
    bill = write_front(writer, net)
    stream = ArithmeticEncoder(writer)
    for place, numbers, meaning in _coded(net.layers, Writing(stream)):
        bill.charge(f"layer {place}: {numbers}", meaning, stream.written)
    stream.finish()
    bill.charge("end of the coded stream", "the last bits name an interval inside the final one")
    if len(writer) > MOST_BITS:
        raise Malformed(
            f"a message of {len(writer)} bits is longer than the {MOST_BITS} that the format allows"
        )
    return Message(len(writer), writer.to_bytes(), tuple(bill.items))


def decode(data: bytes, bits: int) -> IntegerNet:
    """The net of a message; as strict as `read`."""
    return read(data, bits)[0]


def read(data: bytes, bits: int) -> tuple[IntegerNet, tuple[LedgerItem, ...]]:
    """Net and ledger; Malformed unless `data` is, to the last bit, the message of that net."""
    if bits > MOST_BITS:
        raise Malformed(
            f"a message of {bits} bits is longer than the {MOST_BITS} that the format allows"
        )
    reader = BitReader(data, bits)
    shape, quantiser, layers, _ = read_front(reader, MOST_WEIGHTS, numbers_of)
    check_sizes(shape, quantiser, layers)  # refuses what is beyond the limits before it is read
    for _ in _coded(layers, Reading(ArithmeticDecoder(reader))):
        pass
    net = IntegerNet(shape, quantiser, layers)  # proves the range, or refuses
    again = encode(net)
    if again.bits != bits or again.data != data:
        raise Malformed(
            "the message is not the canonical one of its net (trailing or altered bits)"
        )
    return net, again.ledger


def _coded(layers: tuple[Layer, ...], coder: Coder) -> Iterator[tuple[int, str, str]]:
    """Write the layers' numbers or fill them in; yields (layer from 1, what, meaning)."""
    reading = isinstance(coder, Reading)
    for place, layer in enumerate(layers, 1):
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
        yield place, "weights", meaning
        if layer.bias is not None:
            contexts = NumberContexts()
            coded = [
                code_wide(coder, value, contexts)
                for value in ([None] * layer.bias.size if reading else layer.bias.tolist())
            ]
            if reading:
                layer.bias[:] = np.array(coded, dtype=np.int64)
            yield place, "biases", f"{layer.bias.size} biases in steps of {2**layer.bias_shift}"


def _wide_numbers(source: Source) -> str:
    """What the wide numbers of a source are."""
    if isinstance(source, SeededProjection | SignProjection):
        return "coefficients"
    return (
        "numbers of two factors" if isinstance(source, Product) else "weights (most of them none)"
    )

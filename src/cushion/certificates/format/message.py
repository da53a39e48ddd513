"""An integer net as a message of a prefix code, whose length a certificate pays, and back.

The layout is FORMAT.md's. Everything the decoder reads is inside the message and counted: format
version, input shape and quantiser, architecture, seeds, grids, shifts, biases, weights. Decoding is
strict: the net that was read is encoded again and must give the same bits, so there is exactly one
message for a net and no room for trailing bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from cushion.certificates.format import arithmetic, sources
from cushion.certificates.format.arithmetic import ArithmeticDecoder, ArithmeticEncoder, Coder
from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.claims import LedgerItem
from cushion.certificates.format.headers import code_front
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Layer, Pool
from cushion.certificates.format.limits import MOST_WEIGHTS, check_sizes, numbers_of
from cushion.errors import Malformed

MOST_BITS = 2**22
_WIDE = {
    sources.SeededProjection: "coefficients",
    sources.SignProjection: "coefficients",
    sources.Product: "numbers of two factors",
}


@dataclass(frozen=True)
class Message:
    """`bits` is the paid length, to which the ledger sums; `data` its bytes, zero-padded."""

    bits: int
    data: bytes
    ledger: tuple[LedgerItem, ...]


def encode(net: IntegerNet) -> Message:
    """The message that decodes to exactly this net; Malformed for one outside the grammar."""
    writer = BitWriter()
    bill = code_front(writer, net, MOST_WEIGHTS, numbers_of).bill
    stream = ArithmeticEncoder(writer, arithmetic.MOST_DECISIONS)
    for item, meaning in _coded(net.layers, stream):
        bill.charge(item, meaning, stream.written)
    stream.finish()
    bill.charge("end of the coded stream", "the last bits name an interval inside the final one")
    _check_length(len(writer))
    return Message(len(writer), writer.to_bytes(), tuple(bill.items))


def decode(data: bytes, bits: int) -> IntegerNet:
    """The net of a message; as strict as `read`."""
    return read(data, bits)[0]


def read(data: bytes, bits: int) -> tuple[IntegerNet, tuple[LedgerItem, ...]]:
    """Net and ledger; Malformed unless `data` is, to the last bit, the message of that net."""
    _check_length(bits)
    reader = BitReader(data, bits)
    shape, quantiser, layers, _, _ = code_front(reader, None, MOST_WEIGHTS, numbers_of)
    check_sizes(shape, quantiser, layers)  # refuses what is beyond the limits before it is read
    for _ in _coded(layers, ArithmeticDecoder(reader, arithmetic.MOST_DECISIONS)):
        pass
    net = IntegerNet(shape, quantiser, layers)  # proves the range, or refuses
    again = encode(net)
    check_canonical(data, bits, again, "net")
    return net, again.ledger


def check_canonical(data: bytes, bits: int, again: Message, what: str) -> None:
    """Malformed unless what was read encodes to the very same message."""
    if again.bits != bits or again.data != data:
        raise Malformed(f"the message is not the canonical one of its {what} (altered bits)")


def _check_length(bits: int) -> None:
    if bits > MOST_BITS:
        raise Malformed(f"{bits} bits are longer than the {MOST_BITS} that a message has")


def _coded(layers: tuple[Layer, ...], coder: Coder) -> Iterator[tuple[str, str]]:
    """Write the layers' numbers or fill them in; yields (item, meaning)."""

    def walk(numbers: sources.Integers, code: Callable[..., int]) -> None:
        contexts: arithmetic.Contexts = defaultdict(arithmetic.Context)
        flat = numbers.reshape(-1)
        coded = [code(coder, value, contexts) for value in flat.tolist()]
        if isinstance(coder, ArithmeticDecoder):
            flat[:] = coded

    for place, layer in enumerate(layers, 1):
        if isinstance(layer, Pool):
            continue
        source, n = layer.source, layer.source.coded.size
        if isinstance(source, sources.Grid):
            levels = source.levels
            walk(source.coded, partial(arithmetic.code_small, levels=levels))
            meaning = f"{n} weights in -{levels}..{levels}, adaptively coded"
        elif isinstance(source, sources.SeededMask):
            walk(source.coded, arithmetic.code_flag)
            meaning = f"which of {n} seeded signs are kept"
        else:
            walk(source.coded, arithmetic.code_wide)
            wide = _WIDE.get(type(source), "weights (most of them none)")
            meaning = f"{n} {wide}, adaptively coded"
        yield f"layer {place}: weights", meaning
        if layer.bias is not None:
            walk(layer.bias, arithmetic.code_wide)
            meaning = f"{layer.biases} biases in steps of {2**layer.bias_shift}"
            yield f"layer {place}: biases", meaning

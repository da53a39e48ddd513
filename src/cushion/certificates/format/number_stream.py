"""Fields and arrays of whole numbers as one message of a prefix code, and back.

For compressed nets whose architecture is known to both sides. Three parts: the fields, each the
Elias gamma word of field + 1; how many bits each number has (0 for zero, at most 40), one
arithmetic-coded stream for all arrays; for each number that is not zero its sign (1: negative) and
the bits below its leading one, as they are: they are as good as random. Of an array that is told as
a matrix (`matrix_code`) all is in the stream. A decoder that knows the arrays' shapes finds the end
of each part, so no message begins another: its length may be charged by an Occam bound
(docs/derivations.md, section 1).

Bit lengths are unary: decision j, "more than j bits", is made under context j, and the one after
the 40th is left out. Every array starts with 40 fresh contexts. They are those of `arithmetic`, but
where both counts together exceed 2^12, each is halved (rounded down, and made odd). So no decision
is surer than 1 - 2^-12, each costs 2^-12 bits or more, and a short message cannot claim numbers
without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format import arithmetic
from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.matrix_code import code_matrix
from cushion.errors import Malformed

Integers = NDArray[np.int64]
MOST_FIELD = 2**40
MOST_NUMBER_BITS = 40
MOST_NUMBERS = 2**25  # in one message: more take minutes to code
_MOST_COUNT = 2**12


@dataclass(frozen=True)
class Coded:
    """The message, and what each array took of its bits; the fields and the end took the rest."""

    data: bytes
    bits: int
    arrays: tuple[int, ...]


def encode_numbers(
    fields: Sequence[int], arrays: Sequence[Integers], matrices: Sequence[bool] = ()
) -> Coded:
    """fields: whole numbers from 0 on. arrays: of any shape, each number below 2^40 in size.
    matrices: which of them are told as matrices (none, if not given).
    """
    if sum(array.size for array in arrays) > MOST_NUMBERS:
        raise Malformed(f"a message holds at most {MOST_NUMBERS} numbers; store fewer of the net's")
    writer = BitWriter()
    for field in fields:
        writer.bounded(field + 1, MOST_FIELD)
    stream = arithmetic.ArithmeticEncoder(writer)
    taken, raw, before = [], [], stream.written
    for array, told in zip(arrays, matrices or [False] * len(arrays), strict=True):
        lengths = _bit_lengths(array)
        if told:
            code_matrix(stream, array, array.shape)
            lengths = lengths[:0]
        else:
            _code_lengths(stream, lengths)
        raw.append(_raw_bits(array.reshape(-1)[: len(lengths)], lengths))
        taken.append(stream.written - before + raw[-1].size)
        before = stream.written
    stream.finish()
    for bits in raw:
        writer.raw(bits)
    return Coded(writer.to_bytes(), len(writer), tuple(taken))


def estimate_bits(
    fields: Sequence[int],
    arrays: Sequence[Integers],
    matrices: Sequence[bool] = (),  # noqa: ARG001
) -> float:
    """About what `encode_numbers` writes, from counts alone, to compare messages before one is
    made: right to a few parts in a thousand (counts are halved, and the coder rounds), and too much
    for matrices, whose code sees more.
    """
    total = float(sum(2 * (field + 1).bit_length() - 1 for field in fields))  # Elias gamma
    for array in arrays:
        lengths = np.bincount(_bit_lengths(array), minlength=MOST_NUMBER_BITS + 1)
        beyond = np.concatenate((np.cumsum(lengths[::-1])[::-1], [0]))  # numbers of at least j bits
        for n, k in zip(beyond[:MOST_NUMBER_BITS].tolist(), beyond[1:].tolist(), strict=False):
            total += arithmetic.adaptive_length(n - k, k)
        total += float((np.arange(MOST_NUMBER_BITS + 1) * lengths).sum())
    return total


class NumberReader:
    """Reads a message of `encode_numbers`: all fields with `field`, then all arrays at once."""

    def __init__(self, data: bytes, bits: int) -> None:
        self._data, self._bits = data, bits
        self._reader = BitReader(data, bits)

    def field(self, most: int = MOST_FIELD - 1) -> int:
        """The next field, at most `most`."""
        return self._reader.bounded(1, most + 1) - 1

    def arrays(
        self, shapes: Sequence[Sequence[int]], matrices: Sequence[bool] = ()
    ) -> list[Integers]:
        """Arrays of these shapes, in order; Malformed where the message holds others."""
        sizes = [math.prod(shape) for shape in shapes]
        # each number is a decision, of 2^-12 bits or more
        if sum(sizes) > min(MOST_NUMBERS, _MOST_COUNT * self._bits):
            raise Malformed(f"{sum(sizes)} numbers do not fit a message of {self._bits} bits")
        decoder = arithmetic.ArithmeticDecoder(self._reader)
        told = matrices or [False] * len(sizes)
        parts = zip(shapes, sizes, told, strict=True)
        read = [
            code_matrix(decoder, None, shape)
            if whole
            else _code_lengths(decoder, np.zeros(size, dtype=np.int64))
            for shape, size, whole in parts
        ]
        lengths = [
            one[:0].reshape(-1) if whole else one for one, whole in zip(read, told, strict=True)
        ]
        ends = np.cumsum([part.sum() for part in lengths], dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        if total > self._bits:
            raise Malformed("the message of stored numbers ends too early", self._bits)
        every = np.unpackbits(np.frombuffer(self._data, dtype=np.uint8))[: self._bits]
        raws = np.split(every[self._bits - total :], ends[:-1])
        plain = [_numbers(raw, part) for raw, part in zip(raws, lengths, strict=False)]
        found = zip(read, plain, shapes, told, strict=True)
        return [a if whole else b.reshape(tuple(shape)) for a, b, shape, whole in found]


def check_canonical(data: bytes, bits: int, again: Coded) -> None:
    """Malformed unless what was read encodes to the very same message."""
    if again.bits != bits or again.data != data:
        raise Malformed("the stored numbers are not in their canonical message (altered bits)")


def _bit_lengths(array: Integers) -> Integers:
    """Of each magnitude: [n]; Malformed beyond the limit."""
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if max(high, -low) >= 2**MOST_NUMBER_BITS:
        raise Malformed(f"a stored number has more than {MOST_NUMBER_BITS} bits")
    magnitudes = np.abs(array.reshape(-1)).astype(np.float64)  # exact: below 2^53
    return np.frexp(magnitudes)[1].astype(np.int64)  # 2^(w-1) ≤ magnitude < 2^w


def _code_lengths(coder: arithmetic.Coder, lengths: Integers) -> Integers:
    contexts = [arithmetic.Context(_MOST_COUNT) for _ in range(MOST_NUMBER_BITS)]
    found = []
    for given in lengths.tolist():
        length = 0
        while length < MOST_NUMBER_BITS and coder.decide(int(given > length), contexts[length]):
            length += 1
        found.append(length)
    return np.array(found, dtype=np.int64)


def _raw_bits(numbers: Integers, lengths: Integers) -> NDArray[np.uint8]:
    """[Σ lengths] of each number but zeros: sign (1: negative), bits below the leading one."""
    starts = np.cumsum(lengths) - lengths
    bits = np.zeros(int(lengths.sum()), dtype=np.uint8)
    some = lengths > 0
    bits[starts[some]] = numbers[some] < 0
    magnitudes = np.abs(numbers)
    for place in range(1, int(lengths.max(initial=0))):
        some = lengths > place
        bits[starts[some] + place] = magnitudes[some] >> (lengths[some] - 1 - place) & 1
    return bits


def _numbers(bits: NDArray[np.uint8], lengths: Integers) -> Integers:
    """What `_raw_bits` came from."""
    starts = np.cumsum(lengths) - lengths
    magnitudes = (lengths > 0).astype(np.int64)
    for place in range(1, int(lengths.max(initial=0))):
        some = lengths > place
        magnitudes[some] = magnitudes[some] << 1 | bits[starts[some] + place]
    negative = np.zeros(len(lengths), dtype=bool)
    negative[lengths > 0] = bits[starts[lengths > 0]] == 1
    return np.where(negative, -magnitudes, magnitudes)

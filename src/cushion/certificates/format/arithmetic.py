"""Adaptive binary arithmetic coding of numbers (Witten, Neal and Cleary 1987), exact in integers.

A context holds two counts. After n0 zeros and n1 ones it gives the next bit the Krichevsky-Trofimov
odds (2·n0 + 1) : (2·n1 + 1): never zero, so every machine decodes the same symbols. The stream ends
with the two bits (plus pending ones) that name a dyadic interval inside the final interval, so no
stream of the same number of symbols is a prefix of another: together with the header that fixes
that number, the message is a prefix code.

As in `bits`, an encoder writes the decision it is given; a decoder ignores it and returns its own.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.errors import Malformed

Integers = NDArray[np.int64]
MOST_VALUE_BITS = 40
# in one message: adaptive decisions can cost next to no bits, but they cost time
MOST_DECISIONS = 4 * 10**6
_WIDTH = 32
_TOP = (1 << _WIDTH) - 1
_HALF = 1 << (_WIDTH - 1)
_QUARTER = 1 << (_WIDTH - 2)


class Context:
    """Adaptive counts of one kind of decision; `zero` and `total` are twice the KT estimates.

    Beyond a total of `most`, both counts are halved (rounded down, and made odd).
    """

    __slots__ = ("most", "total", "zero")

    def __init__(self, most: float = math.inf) -> None:
        self.zero, self.total, self.most = 1, 2, most

    def seen(self, bit: int) -> None:
        self.total += 2
        if not bit:
            self.zero += 2
        if self.total > self.most:
            one = (self.total - self.zero) // 2 | 1
            self.zero = self.zero // 2 | 1
            self.total = self.zero + one


# the decisions behind one family of whole numbers (a layer's weights, or its biases)
Contexts = defaultdict[str | int, Context]


class Coder:
    """The interval that decisions narrow; `most`: how many of them there may be."""

    def __init__(self, most: float = math.inf) -> None:
        self._low, self._high, self._left = 0, _TOP, most
        self._code = -1  # what a decoder has read: a decision is 1 where it lies above the split

    def decide(self, bit: int, context: Context) -> int:
        bit = self.decide_at(bit, context.zero, context.total)
        context.seen(bit)
        return bit

    def decide_at(self, bit: int, zero: int, total: int) -> int:
        """One decision, 0 with the odds zero : total - zero."""
        self._left -= 1
        if self._left < 0:
            raise Malformed(f"more than the {MOST_DECISIONS} decisions that the format allows")
        low, high = self._low, self._high
        split = low + (high - low + 1) * zero // total - 1
        if self._code >= 0:
            bit = int(self._code > split)
        if bit:
            low = split + 1
        else:
            high = split
        while True:
            if high < _HALF:
                offset = 0
            elif low >= _HALF:
                offset = _HALF
            elif low >= _QUARTER and high < 3 * _QUARTER:
                offset = _QUARTER
            else:
                self._low, self._high = low, high
                return bit
            low = 2 * (low - offset)
            high = 2 * (high - offset) + 1
            self._doubled(offset)

    def _doubled(self, offset: int) -> None:
        """The interval was moved down by the offset and doubled: a bit of it is known."""
        raise NotImplementedError


class ArithmeticEncoder(Coder):
    """Writes decisions to a BitWriter. Call `finish` exactly once."""

    def __init__(self, writer: BitWriter, most: float = math.inf) -> None:
        super().__init__(most)
        self._writer, self._pending = writer, 0

    @property
    def written(self) -> int:
        """Bits that are already decided, pending ones included."""
        return len(self._writer) + self._pending

    def _doubled(self, offset: int) -> None:
        if offset == _QUARTER:
            self._pending += 1
            return
        bit = self._writer.put(int(offset == _HALF))
        while self._pending:
            self._writer.put(1 - bit)
            self._pending -= 1

    def finish(self) -> None:
        """End inside the current interval: [1/4, 1/2) or [1/2, 3/4) of the register fits."""
        self._pending += 1
        self._doubled(0 if self._low < _QUARTER else _HALF)


class ArithmeticDecoder(Coder):
    """Reads decisions back, looking beyond the end: re-encoding (`message`) settles the length."""

    def __init__(self, reader: BitReader, most: float = math.inf) -> None:
        super().__init__(most)
        self._reader, self._code = reader, 0
        for _ in range(_WIDTH):
            self._doubled(0)

    def _doubled(self, offset: int) -> None:
        self._code = 2 * (self._code - offset) + self._reader.ahead()


def code_flag(coder: Coder, value: int, contexts: Contexts) -> int:
    """0 or 1."""
    return coder.decide(value, contexts["zero"])


def code_small(coder: Coder, value: int, contexts: Contexts, levels: int) -> int:
    """In -levels..levels: zero or not, sign, magnitude in unary (open at the largest)."""
    if not coder.decide(int(value != 0), contexts["zero"]):
        return 0
    negative = coder.decide(int(value < 0), contexts["sign"])
    magnitude = 1
    while magnitude < levels and coder.decide(int(abs(value) > magnitude), contexts[magnitude]):
        magnitude += 1
    return -magnitude if negative else magnitude


def code_wide(coder: Coder, value: int, contexts: Contexts) -> int:
    """Up to 40 bits: zero or not, sign, bit length in unary, bits below the leading one."""
    if not coder.decide(int(value != 0), contexts["zero"]):
        return 0
    negative = coder.decide(int(value < 0), contexts["sign"])
    size, width = abs(value), 1
    while coder.decide(int(size.bit_length() > width), contexts[width]):
        width += 1
        if width > MOST_VALUE_BITS:
            raise Malformed("a number in the message is larger than the format allows")
    magnitude = 1
    for place in range(width - 2, -1, -1):  # each under a fresh context: exactly one bit, even odds
        magnitude = magnitude << 1 | coder.decide(size >> place & 1, Context())
    return -magnitude if negative else magnitude


# ---- how long coded numbers are, from their counts alone (FORMAT.md, section 3.2), up to the
# rounding of the whole stream's end. The adaptive code gives the same length to any order of the
# same decisions, so a change of one number changes a handful of counts: far cheaper than encoding
# the message again.


def grid_length(weight: Integers, levels: int) -> float:
    """Numbers of a grid: zero or not, sign, magnitude in unary."""
    sizes = np.bincount(np.abs(weight).reshape(-1), minlength=levels + 1)
    return counted_length(sizes, int((weight < 0).sum()))


def counted_length(sizes: Integers, negative: int) -> float:
    """The same from counts. sizes: how many numbers have each magnitude, to the largest."""
    above = np.cumsum(sizes[::-1])[::-1].tolist()  # how many have at least each
    total = adaptive_length(int(sizes[0]), above[0] - int(sizes[0]))
    if len(sizes) > 1:
        total += adaptive_length(negative, above[1] - negative)
    for size in range(1, len(sizes) - 1):
        total += adaptive_length(int(sizes[size]), above[size] - int(sizes[size]))
    return total


def bias_length(bias: Integers, shift: int) -> float:
    """Biases in steps of 2^shift: the flag, the shift, and wide numbers."""
    if not bias.any():
        return 1.0
    widths = np.array([int(value).bit_length() for value in np.abs(bias)])
    # A wide number's bit length is coded like a magnitude on a grid that has one more level than
    # any of them.
    counts = np.bincount(widths, minlength=int(widths.max()) + 2)
    field = 2 * int(shift + 1).bit_length() - 1
    below = float(np.maximum(widths - 1, 0).sum())  # the bits below the leading ones
    return 1.0 + field + counted_length(counts, int((bias < 0).sum())) + below


def adaptive_length(zeros: int, ones: int) -> float:
    """Bits that the Krichevsky-Trofimov estimator gives to so many zeros and ones, in any order.

    log2 of π·n!/(Γ(k+½)·Γ(n-k+½)) for k ones among n.
    """
    nats = math.lgamma(zeros + ones + 1) + math.log(math.pi)
    return (nats - math.lgamma(zeros + 0.5) - math.lgamma(ones + 0.5)) / math.log(2.0)

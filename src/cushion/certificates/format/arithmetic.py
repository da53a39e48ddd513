"""Adaptive binary arithmetic coding with integer probabilities (Witten, Neal and Cleary 1987).

A context holds two counts. After n0 zeros and n1 ones it gives the next bit the Krichevsky-Trofimov
odds (2·n0 + 1) : (2·n1 + 1): never zero, exact in integers, so every machine decodes the same
symbols. The stream ends with the two bits (plus pending ones) that name a dyadic interval inside
the final interval, so no stream of the same number of symbols is a prefix of another: together with
the header that fixes that number, the message is a prefix code.
"""

from __future__ import annotations

from cushion.certificates.format.bits import BitReader, BitWriter

_WIDTH = 32
_TOP = (1 << _WIDTH) - 1
_HALF = 1 << (_WIDTH - 1)
_QUARTER = 1 << (_WIDTH - 2)


class Context:
    """Adaptive counts of one kind of decision; `zero` and `total` are twice the KT estimates."""

    __slots__ = ("total", "zero")

    def __init__(self) -> None:
        self.zero = 1
        self.total = 2

    def seen(self, bit: int) -> None:
        self.total += 2
        if not bit:
            self.zero += 2


class ArithmeticEncoder:
    """Writes decisions to a BitWriter. Call `finish` exactly once."""

    def __init__(self, writer: BitWriter) -> None:
        self._writer = writer
        self._low, self._high, self._pending = 0, _TOP, 0

    @property
    def written(self) -> int:
        """Bits that are already decided, pending ones included."""
        return len(self._writer) + self._pending

    def encode(self, bit: int, context: Context) -> None:
        low, high = self._low, self._high
        split = low + (high - low + 1) * context.zero // context.total - 1
        if bit:
            low = split + 1
        else:
            high = split
        context.seen(bit)
        while True:
            if high < _HALF:
                self._emit(0)
                offset = 0
            elif low >= _HALF:
                self._emit(1)
                offset = _HALF
            elif low >= _QUARTER and high < 3 * _QUARTER:
                self._pending += 1
                offset = _QUARTER
            else:
                self._low, self._high = low, high
                return
            low = 2 * (low - offset)
            high = 2 * (high - offset) + 1

    def finish(self) -> None:
        """End inside the current interval: [1/4, 1/2) or [1/2, 3/4) of the register fits."""
        self._pending += 1
        self._emit(0 if self._low < _QUARTER else 1)

    def _emit(self, bit: int) -> None:
        self._writer.put(bit)
        for _ in range(self._pending):
            self._writer.put(1 - bit)
        self._pending = 0


class ArithmeticDecoder:
    """Reads decisions back, looking beyond the end: re-encoding (`message`) settles the length."""

    def __init__(self, reader: BitReader) -> None:
        self._reader = reader
        self._low, self._high, self._code = 0, _TOP, 0
        for _ in range(_WIDTH):
            self._code = self._code << 1 | reader.get_or_zero()

    def decode(self, context: Context) -> int:
        low, high = self._low, self._high
        split = low + (high - low + 1) * context.zero // context.total - 1
        bit = int(self._code > split)
        if bit:
            low = split + 1
        else:
            high = split
        context.seen(bit)
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
            self._code = 2 * (self._code - offset) + self._reader.get_or_zero()

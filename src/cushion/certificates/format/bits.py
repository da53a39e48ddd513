"""Bit strings: writing, strict reading, and Elias' gamma code for open-ended whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cushion.errors import Malformed

_LOOK_AHEAD = 30  # a decoder of 32 bits, less the two that end every stream
# leading zeros accepted in a gamma word; no field of the format comes near 2^40
_LONGEST_GAMMA = 40


class BitWriter:
    """Collects single bits, most significant first."""

    def __init__(self) -> None:
        self._bits = bytearray()  # one byte per bit: simple, and messages are short

    def __len__(self) -> int:
        return len(self._bits)

    def put(self, bit: int) -> None:
        self._bits.append(bit)

    def raw(self, bits: NDArray[np.uint8]) -> None:
        """Write many bits at once: [n] zeros and ones."""
        self._bits.extend(bits.tobytes())

    def fixed(self, value: int, width: int) -> None:
        """Write `value` in exactly `width` bits."""
        if not 0 <= value < 1 << width:
            raise ValueError(f"{value} does not fit {width} bits")
        for shift in range(width - 1, -1, -1):
            self.put(value >> shift & 1)

    def gamma(self, value: int) -> None:
        """Elias gamma code of a whole number ≥ 1: 2⌊log2 value⌋ + 1 bits."""
        if value < 1:
            raise ValueError(f"the gamma code starts at 1, not {value}")
        width = value.bit_length()
        self.fixed(0, width - 1)
        self.fixed(value, width)

    def bounded(self, value: int, most: int) -> None:
        """Gamma code of a number in 1..most; Malformed beyond, which could not be read."""
        if not 1 <= value <= most:
            raise Malformed(f"a field of {value} is beyond the format's limits of 1 and {most}")
        self.gamma(value)

    def signed(self, value: int, most: int) -> None:
        """Gamma code of a number in -most..most: 0, 1, -1, 2, -2, ... as 1, 2, 3, 4, 5, ..."""
        self.bounded(2 * value if value > 0 else 1 - 2 * value, 2 * most + 1)

    def to_bytes(self) -> bytes:
        """The bits, padded with zeros to whole bytes; the padding is not part of the message."""
        return np.packbits(np.frombuffer(self._bits, dtype=np.uint8)).tobytes()


class BitReader:
    """Reads what BitWriter wrote; running past the end is Malformed, with the bit position."""

    def __init__(self, data: bytes, length: int) -> None:
        if len(data) != (length + 7) // 8:
            raise Malformed(
                f"a message of {length} bits fills {(length + 7) // 8} bytes, not {len(data)}"
            )
        if length % 8 and data[-1] & ((1 << (-length % 8)) - 1):
            raise Malformed("the bits that pad the message to a whole byte must be zero", length)
        self._data = data
        self.length = length
        self.position = 0

    def get(self) -> int:
        if self.position >= self.length:
            raise Malformed("the message ends too early", self.position)
        bit = self._data[self.position >> 3] >> (7 - (self.position & 7)) & 1
        self.position += 1
        return bit

    def get_or_zero(self) -> int:
        """Like `get`, but zeros past the end: the decoder looks up to 30 bits ahead."""
        if self.position < self.length:
            return self.get()
        if self.position >= self.length + _LOOK_AHEAD:
            raise Malformed("the message ends too early", self.length)
        self.position += 1
        return 0

    def fixed(self, width: int) -> int:
        value = 0
        for _ in range(width):
            value = value << 1 | self.get()
        return value

    def gamma(self) -> int:
        zeros = 0
        while self.get() == 0:
            zeros += 1
            if zeros > _LONGEST_GAMMA:
                raise Malformed("a number in the message is absurdly long", self.position)
        return 1 << zeros | self.fixed(zeros)

    def bounded(self, most: int) -> int:
        """A gamma word of at most `most`."""
        value = self.gamma()
        if value > most:
            raise Malformed(
                f"a field of {value} is beyond the format's limit of {most}", self.position
            )
        return value

    def signed(self, most: int) -> int:
        """What BitWriter.signed wrote, in -most..most."""
        code = self.bounded(2 * most + 1)
        return code >> 1 if code % 2 == 0 else -(code >> 1)

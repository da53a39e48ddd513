"""Bit strings and codes for whole numbers, the same walk for writing and for strict reading.

A writer writes the value that it is given. A reader ignores it and returns the one that it finds,
so that each code below is written once and both directions agree by construction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cushion.errors import Malformed

_LOOK_AHEAD = 30  # a decoder of 32 bits, less the two that end every stream
# leading zeros accepted in a gamma word; no field of the format comes near 2^40
_LONGEST_GAMMA = 40


class Bits:
    """Single bits, most significant first; `position` is how many have passed."""

    position: int

    def put(self, bit: int) -> int:
        raise NotImplementedError

    def fixed(self, value: int, width: int) -> int:
        """A number in exactly `width` bits."""
        found = 0
        for shift in range(width - 1, -1, -1):
            found = found << 1 | self.put(value >> shift & 1)
        return found

    def gamma(self, value: int = 1) -> int:
        """Elias' gamma code of a whole number ≥ 1: 2⌊log2 value⌋ + 1 bits."""
        zeros = 0
        while not self.put(int(value >> zeros == 1)):
            zeros += 1
            if zeros > _LONGEST_GAMMA:
                raise Malformed("a number in the message is absurdly long", self.position)
        return 1 << zeros | self.fixed(value, zeros)

    def bounded(self, value: int, most: int) -> int:
        """Gamma code of a number in 1..most."""
        if 1 <= value <= most:
            value = self.gamma(value)
        if not 1 <= value <= most:
            raise Malformed(f"a field of {value} is beyond the limits 1 and {most}", self.position)
        return value

    def signed(self, value: int, most: int) -> int:
        """Gamma code of a number in -most..most: 0, 1, -1, 2, -2, ... as 1, 2, 3, 4, 5, ..."""
        code = self.bounded(2 * value if value > 0 else 1 - 2 * value, 2 * most + 1)
        return code >> 1 if code % 2 == 0 else -(code >> 1)


class BitWriter(Bits):
    def __init__(self) -> None:
        self._bits = bytearray()  # one byte per bit: simple, and messages are short

    def __len__(self) -> int:
        return len(self._bits)

    @property
    def position(self) -> int:  # type: ignore[override]
        return len(self._bits)

    def put(self, bit: int) -> int:
        self._bits.append(bit)
        return bit

    def raw(self, bits: NDArray[np.uint8]) -> None:
        """Write many bits at once: [n] zeros and ones."""
        self._bits.extend(bits.tobytes())

    def to_bytes(self) -> bytes:
        """The bits, padded with zeros to whole bytes; the padding is not part of the message."""
        return np.packbits(np.frombuffer(self._bits, dtype=np.uint8)).tobytes()


class BitReader(Bits):
    """Reads what BitWriter wrote; running past the end is Malformed, with the bit position."""

    def __init__(self, data: bytes, length: int) -> None:
        if len(data) != (length + 7) // 8:
            raise Malformed(f"{length} bits fill {(length + 7) // 8} bytes, not {len(data)}")
        if length % 8 and data[-1] & ((1 << (-length % 8)) - 1):
            raise Malformed("the bits that pad the message to a whole byte must be zero", length)
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=length)
        self._bits, self._length, self.position = bits.tobytes(), length, 0
        self._bits += bytes(_LOOK_AHEAD)

    def put(self, bit: int = 0) -> int:  # noqa: ARG002
        if self.position >= self._length:
            raise Malformed("the message ends too early", self._length)
        return self.ahead()

    def ahead(self) -> int:
        """The next bit, but zeros past the end: the decoder looks up to 30 bits ahead."""
        try:
            bit = self._bits[self.position]
        except IndexError:
            raise Malformed("the message ends too early", self._length) from None
        self.position += 1
        return bit

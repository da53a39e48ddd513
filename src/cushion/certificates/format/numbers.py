"""How single numbers are coded: decisions under adaptive contexts, the same walk for writing and
for reading.

A `Coder` either encodes the decision it is given or decodes one and returns it, so that each code
below is written once and both directions agree by construction.
"""

from __future__ import annotations

from typing import Protocol

from cushion.certificates.format.arithmetic import ArithmeticDecoder, ArithmeticEncoder, Context
from cushion.errors import Malformed

MOST_VALUE_BITS = 40
# in one message: adaptive decisions can cost next to no bits, but they cost time
MOST_DECISIONS = 4 * 10**6


class Coder(Protocol):
    def decide(self, bit: int | None, context: Context) -> int:
        """Write `bit`, or read one if there is none to write; the decision either way."""


class _Counted:
    def __init__(self) -> None:
        self._made = 0

    def count(self) -> None:
        self._made += 1
        if self._made > MOST_DECISIONS:
            raise Malformed(
                f"a message of more than the {MOST_DECISIONS} decisions that the format allows"
            )


class Writing(_Counted):
    def __init__(self, coder: ArithmeticEncoder) -> None:
        super().__init__()
        self._coder = coder

    def decide(self, bit: int | None, context: Context) -> int:
        assert bit is not None
        self.count()
        self._coder.encode(bit, context)
        return bit


class Reading(_Counted):
    def __init__(self, coder: ArithmeticDecoder) -> None:
        super().__init__()
        self._coder = coder

    def decide(self, bit: int | None, context: Context) -> int:  # noqa: ARG002
        self.count()
        return self._coder.decode(context)


class NumberContexts:
    """The adaptive decisions behind one family of integers (a layer's weights, or its biases)."""

    def __init__(self) -> None:
        self.zero = Context()
        self.sign = Context()
        self.more: dict[int, Context] = {}

    def step(self, index: int) -> Context:
        return self.more.setdefault(index, Context())


def code_flag(coder: Coder, value: int | None, contexts: NumberContexts) -> int:
    """0 or 1."""
    return coder.decide(value, contexts.zero)


def code_small(coder: Coder, value: int | None, levels: int, contexts: NumberContexts) -> int:
    """In -levels..levels: zero or not, sign, magnitude in unary (open at the largest)."""
    if not coder.decide(None if value is None else int(value != 0), contexts.zero):
        return 0
    negative = coder.decide(None if value is None else int(value < 0), contexts.sign)
    magnitude = 1
    while magnitude < levels and coder.decide(
        None if value is None else int(abs(value) > magnitude), contexts.step(magnitude)
    ):
        magnitude += 1
    return -magnitude if negative else magnitude


def code_wide(coder: Coder, value: int | None, contexts: NumberContexts) -> int:
    """Up to 40 bits: zero or not, sign, bit length in unary, bits below the leading one."""
    size = None if value is None else abs(value)
    if size is not None and size.bit_length() > MOST_VALUE_BITS:
        raise Malformed(f"a number of {value} is larger than the format allows")
    if not coder.decide(None if size is None else int(size != 0), contexts.zero):
        return 0
    negative = coder.decide(None if value is None else int(value < 0), contexts.sign)
    width = 1
    while coder.decide(
        None if size is None else int(size.bit_length() > width), contexts.step(width)
    ):
        width += 1
        if width > MOST_VALUE_BITS:
            raise Malformed("a number in the message is larger than the format allows")
    magnitude = 1
    for place in range(width - 2, -1, -1):  # each under a fresh context: exactly one bit, even odds
        magnitude = magnitude << 1 | coder.decide(
            None if size is None else size >> place & 1, Context()
        )
    return -magnitude if negative else magnitude

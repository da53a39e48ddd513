"""A matrix of whole numbers, many of them zero, as decisions of an arithmetic coder.

[out, in, taps]: a dense layer's weight has one tap, a kernel one a place. First which rows and
which columns hold a number at all; then for each number that lies in both whether it is zero, with
odds mixed from how often numbers of its row, its column, its tap, the matrix, and numbers with the
same four neighbours were not; of those its sign, its bit length, and the bits below the leading
one, all adaptive but the bits behind the first two below it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.arithmetic import Coder, Context
from cushion.certificates.format.mixing import Mixer
from cushion.errors import Malformed

Integers = NDArray[np.int64]
MOST_NUMBER_BITS = 40
_WEIGHTS = (16384, 26214, 13107, -19661, 39322)  # of row, column, tap, matrix, neighbours
_ADAPTIVE = 2  # bits below the leading one


def code_matrix(coder: Coder, values: Integers | None, shape: Sequence[int]) -> Integers:
    """The matrix of this shape, [out, in, ...]; a decoder, given None, returns what it reads."""
    outputs, inputs, taps = shape[0], shape[1], math.prod(shape[2:])
    given = np.zeros((outputs, inputs, taps), np.int64)
    if values is not None:
        given = values.reshape(given.shape)
    live = [_flags(coder, given, over) for over in ((1, 2), (0, 2), (0, 1))]
    width = shape[-1] if len(shape) > 2 else 0
    found = _code_live(coder, given[live[0]][:, live[1]], live[2], width)
    result = np.zeros_like(given)
    result[np.ix_(live[0], live[1])] = found
    return result.reshape(tuple(shape))


def _flags(coder: Coder, given: Integers, over: tuple[int, int]) -> list[int]:
    """The rows, columns or taps that hold a number."""
    context, flags = Context(), np.any(given, axis=over).tolist()
    return [at for at, flag in enumerate(flags) if coder.decide(int(flag), context)]


def _code_live(coder: Coder, given: Integers, live: Sequence[int], width: int) -> Integers:
    """[rows, columns, taps] of which these taps may hold numbers; the tap above is `width` away."""
    rows, inputs, taps = given.shape
    decide = Mixer(coder, _WEIGHTS).decide
    sizes = defaultdict[object, Context](Context)
    whole = [0, 0]
    of_column, of_tap, around = ([[0, 0] for _ in range(n)] for n in (inputs, taps, 16))
    found = np.zeros_like(given)
    above = [[0] * taps for _ in range(inputs)]
    for at in range(rows):
        of_row, now = [0, 0], []
        left = [0] * taps
        for column, numbers in enumerate(given[at].tolist()):
            here, over, counts = [0] * taps, above[column], of_column[column]
            for tap in live:
                number = numbers[tap]
                seen = 2 * (over[tap] != 0) + (left[tap] != 0)
                if tap:
                    seen += 4 * (here[tap - 1] != 0)
                    if tap >= width:
                        seen += 8 * (here[tap - width] != 0)
                if decide(number != 0, of_row, counts, of_tap[tap], whole, around[seen]):
                    here[tap] = _code_size(coder, number, sizes)
            now.append(here)
            left = here
        found[at] = np.array(now, np.int64).reshape(inputs, taps)
        above = now
    return found


def _code_size(coder: Coder, number: int, sizes: defaultdict[object, Context]) -> int:
    """A number that is not zero."""
    negative = coder.decide(int(number < 0), sizes["sign"])
    size, length = abs(number), 1
    while coder.decide(int(size.bit_length() > length), sizes[length]):
        length += 1
        if length > MOST_NUMBER_BITS:
            raise Malformed(f"a stored number has more than {MOST_NUMBER_BITS} bits")
    found = 1
    for place in range(length - 2, -1, -1):
        adaptive = length - 2 - place < _ADAPTIVE
        context = sizes[length, found] if adaptive else Context()
        found = found << 1 | coder.decide(size >> place & 1, context)
    return -found if negative else found

"""How large a set is to a search: the image that it reads, the rows that it holds, time and memory.

No torch, so that the command line can say all of it before anything starts.
"""

from __future__ import annotations

import math

from cushion.certificates.format.limits import Shape
from cushion.data.dataset import Dataset

_SIDE = 28  # of a large image, what at least is left of its side
_LEAST_SIDE = 16  # of an image that convolutions read
# numbers of the sample in memory: 0.5 GB, or 1 GB where sums of pixels need four bytes
_HELD = 2**28
_USUAL = 5.0  # minutes, for as much to learn from as MNIST has
_MNIST = 60_000 * 784 * math.log2(10)
_READ = 1e9  # numbers read from the disk, quantised and summed, some times over, in a minute
_MOST_MINUTES = 15.0
_LIBRARIES = 7e8  # bytes, with a batch or two


def image_shape(data: Dataset) -> Shape:
    """(channels, height, width); what is no image is one row of values."""
    return data.shape if len(data.shape) == 3 else (1, 1, math.prod(data.shape))


def square_summed(shape: Shape) -> int:
    """Side of the squares of pixels that are summed before a net reads an image; 1: none are.

    Sum pooling costs a few bits, whatever the image's size, and no weight.

    >>> square_summed((3, 224, 224)), square_summed((3, 32, 32)), square_summed((1, 1, 5000))
    (8, 1, 1)
    """
    height, width = shape[1:]
    return max(1, min(math.isqrt(height * width) // _SIDE, min(height, width) // _LEAST_SIDE))


def summed_shape(shape: Shape, square: int) -> Shape:
    """The image of sums; a remainder at the edge is dropped."""
    return shape[0], shape[1] // square, shape[2] // square


def rows_held(data: Dataset, square: int) -> int:
    """How many examples a search trains on: as many as memory allows. It judges on all of them."""
    return max(1, min(len(data), _HELD // math.prod(summed_shape(image_shape(data), square))))


def usual_minutes(data: Dataset) -> float:
    """The time of a search that is told none: 1 to 15 minutes, by rows, numbers and classes.

    Grows with the root of what there is to learn from, and with what there is to read.
    """
    shape = image_shape(data)
    numbers = len(data) * math.prod(summed_shape(shape, square_summed(shape)))
    minutes = _USUAL * math.sqrt(numbers * math.log2(data.classes) / _MNIST)
    read = len(data) * math.prod(data.shape) / _READ
    return float(round(min(_MOST_MINUTES, max(1.0, minutes + read))))


def memory_needed(data: Dataset) -> float:
    """Bytes, about: the libraries, the rows held, and the features of those that are polished."""
    square = square_summed(shape := image_shape(data))
    numbers = rows_held(data, square) * math.prod(summed_shape(shape, square))
    polished = min(2**25, len(data) * (288 + 2 * data.classes))
    return _LIBRARIES + 2 * numbers * (1 if square == 1 else 2) + 16 * polished

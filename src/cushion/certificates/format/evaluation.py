"""Exact layers on whole numbers held in floats: sums of products in any order, no transforms.

Only plain matrix products and sums are used (no Winograd, no FFT), so that the range proof of
`integer_net` makes every partial sum exact and the result independent of threads, batches and
machines. Feature maps are [n, h, w, channels] here: a window's row is then one run of memory, so
that gathering windows costs little beside the products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Values = NDArray[Any]
Integers = NDArray[np.int64]
Step = Callable[[Values], Values]
_VALUES = 2**23  # that all threads may hold at once: about 100 MB
# batches waiting for a thread: each takes memory, and an interrupt has to sit them out
_IN_LINE = 512


def for_each(starts: range, work: Callable[[int], None], values: int, progress: bool) -> None:
    """work(start) for every start, on as many threads as the matrix library was allowed, if memory
    allows them too.

    values: what one call of work holds at its widest point.

    The library itself gets one thread: its own threads wait for each other in every product, which
    on busy cores costs ten times what they save.
    """
    from cushion.progress import working

    library = ThreadpoolController().select(user_api="blas")
    threads = max([1, *(pool["num_threads"] for pool in library.info())])
    threads = max(1, min(threads, _VALUES // values))
    with (
        library.limit(limits=1),
        ThreadPoolExecutor(threads) as pool,
        working("counting errors", len(starts), "batch", hidden=not progress) as bar,
    ):
        for first in range(0, len(starts), _IN_LINE):
            for _ in pool.map(work, starts[first : first + _IN_LINE]):
                bar.advance()


def convolution(weight: Integers, stride: int, pad: int, floats: type[np.floating[Any]]) -> Step:
    """weight: [out, in/groups, k, k]; the step takes [n, h, w, in] to [n, h', w', out]."""
    out, depth, k, _ = weight.shape
    # [k, k, in/groups, out]
    taps = np.ascontiguousarray(weight.transpose(2, 3, 1, 0).astype(floats))

    def step(values: Values) -> Values:
        groups = values.shape[3] // depth
        if pad:
            values = padded(values, pad)
        if depth == 1 and out == groups:
            return _depthwise(values, taps[:, :, 0], stride)
        split = windows(values, k, stride, groups)
        n, h, w = split.shape[:3]
        columns = split.transpose(5, 0, 1, 2, 3, 4, 6).reshape(groups, n * h * w, k * k * depth)
        filters = by_group(taps, groups)
        sums: Values = (columns @ filters).transpose(1, 0, 2).reshape(n, h, w, out)
        return sums

    return step


def padded(values: Values, pad: int) -> Values:
    """[n, h, w, c] with zeros around each map."""
    return np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))


def windows(values: Values, k: int, stride: int, groups: int) -> Values:
    """[n, h, w, channels] -> [n, h', w', k, k, groups, channels/groups], a view."""
    found = np.lib.stride_tricks.sliding_window_view(values, (k, k), axis=(1, 2))
    found = found[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    return found.reshape(*found.shape[:5], groups, -1)


def by_group(taps: Values, groups: int) -> Values:
    """[k, k, in/groups, out] -> [groups, k·k·in/groups, out/groups]"""
    return taps.reshape(math.prod(taps.shape[:3]), groups, -1).transpose(1, 0, 2)


def _depthwise(values: Values, taps: Values, stride: int) -> Values:
    """values: [n, h, w, c], taps: [k, k, c]: one filter a channel, summed tap by tap."""
    k = len(taps)
    h, w = ((side - k) // stride + 1 for side in values.shape[1:3])
    total = np.zeros((len(values), h, w, values.shape[3]), dtype=values.dtype)
    for row in range(k):
        rows = values[:, row : row + (h - 1) * stride + 1 : stride]
        for column in range(k):
            part = rows[:, :, column : column + (w - 1) * stride + 1 : stride]
            total += part * taps[row, column]
    return total


def dense(weight: Integers, before: tuple[int, ...], floats: type[np.floating[Any]]) -> Step:
    """weight: [out, in], in over channels, rows, columns of maps `before` -> [n, out]."""
    if len(before) == 3:
        weight = weight.reshape(len(weight), *before).transpose(0, 2, 3, 1)
    matrix = np.ascontiguousarray(weight.reshape(len(weight), -1).T.astype(floats))
    return lambda values: values.reshape(len(values), -1) @ matrix


def addition(bias: Integers, floats: type[np.floating[Any]]) -> Step:
    """Adds [out] to the last axis, in place."""
    row = bias.astype(floats)
    return lambda values: np.add(values, row, out=values)


def rectifier(shift: int) -> Step:
    """max(x, 0) >> shift, in place; exact: a power of two only moves the exponent."""

    def step(values: Values) -> Values:
        np.maximum(values, 0, out=values)
        if shift:
            np.multiply(values, values.dtype.type(2.0**-shift), out=values)
            np.floor(values, out=values)
        return values

    return step


def pooling(kind: str, size: int) -> Step:
    """[n, h, w, c] -> the maximum or sum of size × size windows: rows, then columns."""
    combine = np.maximum if kind == "max" else np.add

    def step(values: Values) -> Values:
        h, w = (side // size * size for side in values.shape[1:3])
        rows = values[:, 0:h:size]
        for offset in range(1, size):
            rows = combine(rows, values[:, offset:h:size])
        columns = rows[:, :, 0:w:size]
        for offset in range(1, size):
            columns = combine(columns, rows[:, :, offset:w:size])
        return columns

    return step

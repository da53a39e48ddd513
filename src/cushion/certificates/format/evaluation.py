"""Exact layers on whole numbers held in floats: sums of products in any order, no transforms.

Many nets of one architecture may be evaluated at once, each on as many inputs as the others. Arrays
of numbers have an axis of N nets in front; the values of N nets on e inputs each are N·e rows, net
by net. (A net drawn for a single row would spend its time on being made.)

Only plain matrix products and sums are used (no Winograd, no FFT), so that the range proof of
`integer_net` makes every partial sum exact and the result independent of threads, batches and
machines. Feature maps are [n, h, w, channels] here: a window's row is then one run of memory, so
that gathering windows costs little beside the products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from cushion.certificates.format.layers import Conv, Dense, Feature, Pool
from cushion.certificates.format.limits import Stage

Values = NDArray[Any]
Integers = NDArray[np.int64]
# of a layer in the order of the products, [N, groups, values read, outputs/groups], and its biases
# as they are added, [N, outputs]
Numbers = tuple[Values, Values | None]
_VALUES = 2**23  # that all threads may hold at once: about 100 MB
# batches waiting for a thread: each takes memory, and an interrupt has to sit them out
_IN_LINE = 512


def for_each(starts: range, work: Callable[[int], None], values: int, progress: bool) -> None:
    """work(start) for every start, on as many threads as the matrix library was allowed, if memory
    allows them too. values: what one call of work holds at its widest point.

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


def evaluate(stages: Sequence[Stage], values: Values, numbers: Iterable[Numbers]) -> Integers:
    """[N·e, h, w, channels] -> [N·e, classes] scores. numbers: of each layer that has some."""
    held = iter(numbers)
    for stage in stages:
        layer = stage.layer
        if isinstance(layer, Pool):
            values = _pooled(values, layer)
            continue
        filters, offsets = next(held)
        values = (_product if isinstance(layer, Dense) else _convolution)(values, filters, layer)
        if offsets is not None:
            rows = values.reshape(len(offsets), -1, offsets.shape[1])
            values = np.add(rows, offsets[:, None], out=rows).reshape(values.shape)
        if stage is not stages[-1]:  # ReLU and shift: a power of two only moves the exponent
            np.maximum(values, 0, out=values)
            if layer.shift:
                np.multiply(values, values.dtype.type(2.0**-layer.shift), out=values)
                np.floor(values, out=values)
    return values.astype(np.int64)


def arranged(weight: Integers, before: Feature) -> Integers:
    """[out, in] or [out, in/groups, k, k] -> [groups, values read, out/groups]."""
    if weight.ndim == 2:
        if len(before.shape) == 3:  # stored over channels, rows, columns
            weight = weight.reshape(len(weight), *before.shape).transpose(0, 2, 3, 1)
        return weight.reshape(len(weight), -1).T[None]
    groups = before.shape[0] // weight.shape[1]
    taps = weight.transpose(2, 3, 1, 0).reshape(math.prod(weight.shape[1:]), groups, -1)
    return taps.transpose(1, 0, 2)


def _product(values: Values, filters: Values, _: Dense | Conv) -> Values:
    nets, _, inputs, outputs = filters.shape
    sums: Values = values.reshape(nets, -1, inputs) @ filters[:, 0]
    return sums.reshape(-1, outputs)


def _convolution(values: Values, filters: Values, layer: Dense | Conv) -> Values:
    assert isinstance(layer, Conv)
    k, stride, pad = layer.side, layer.stride, layer.padding
    nets, groups, read, each = filters.shape
    if pad:
        values = np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    if each == 1 and read == k * k:
        return _depthwise(values, filters[..., 0], k, stride)
    found = np.lib.stride_tricks.sliding_window_view(values, (k, k), axis=(1, 2))
    found = found[:, ::stride, ::stride]
    rows, h, w = found.shape[:3]
    split = found.reshape(nets, -1, h, w, groups, read // (k * k), k, k)
    columns = split.transpose(0, 4, 1, 2, 3, 6, 7, 5).reshape(nets, groups, -1, read)
    sums: Values = columns @ filters
    return sums.transpose(0, 2, 1, 3).reshape(rows, h, w, groups * each)


def _depthwise(values: Values, filters: Values, k: int, stride: int) -> Values:
    """values: [N·e, h, w, c], filters: [N, c, k·k]: one filter a channel, summed tap by tap."""
    h, w = ((side - k) // stride + 1 for side in values.shape[1:3])
    nets, channels, _ = filters.shape
    total = np.zeros((nets, len(values) // nets, h, w, channels), dtype=values.dtype)
    split = values.reshape(nets, -1, *values.shape[1:])
    for tap in range(k * k):
        row, column = divmod(tap, k)
        rows = split[:, :, row : row + (h - 1) * stride + 1 : stride]
        part = rows[:, :, :, column : column + (w - 1) * stride + 1 : stride]
        total += part * filters[:, None, None, None, :, tap]
    return total.reshape(-1, h, w, channels)


def _pooled(values: Values, layer: Pool) -> Values:
    """[n, h, w, c] -> the maximum or sum of size × size windows: rows, then columns."""
    combine, size = np.maximum if layer.kind == "max" else np.add, layer.size
    h, w = (side // size * size for side in values.shape[1:3])
    rows = values[:, 0:h:size]
    for offset in range(1, size):
        rows = combine(rows, values[:, offset:h:size])
    columns = rows[:, :, 0:w:size]
    for offset in range(1, size):
        columns = combine(columns, rows[:, :, offset:w:size])
    return columns

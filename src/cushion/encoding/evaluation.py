"""Exact convolution and pooling on whole numbers held in floats: sums of products in any order, no transforms.

Only plain matrix products and sums are used (no Winograd, no FFT), so that the range proof of `integer_net` makes every
partial sum exact and the result independent of threads, batches and machines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


def convolve(
    values: Values, weight: NDArray[np.int64], bias: NDArray[np.int64] | None, stride: int, pad: int
) -> Values:
    """values: [n, in, h, w]; weight: [out, in/groups, k, k] -> [n, out, h', w']; groups follow from the shapes."""
    out, depth, k, _ = weight.shape
    groups = values.shape[1] // depth
    weight = weight.astype(values.dtype)
    padded = np.pad(values, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    if depth == 1 and out == groups:
        maps = _depthwise(padded, weight[:, 0], stride)
    else:
        windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(2, 3))
        windows = windows[:, :, ::stride, ::stride]  # [n, in, h', w', k, k]
        parts = [
            _product(windows[:, g * depth : (g + 1) * depth], weight[g * out // groups : (g + 1) * out // groups])
            for g in range(groups)
        ]
        maps = parts[0] if groups == 1 else np.concatenate(parts, axis=1)
    return maps if bias is None else maps + bias.astype(values.dtype)[:, None, None]


def _product(windows: Values, weight: Values) -> Values:
    """windows: [n, in, h, w, k, k] -> [n, out, h, w] as one matrix product."""
    n, channels, h, w, k, _ = windows.shape
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, channels * k * k)
    flat = columns @ weight.reshape(len(weight), -1).T
    return flat.reshape(n, h, w, len(weight)).transpose(0, 3, 1, 2)


def _depthwise(padded: Values, weight: Values, stride: int) -> Values:
    """padded: [n, c, h, w], weight: [c, k, k]: one filter a channel, summed tap by tap."""
    k = weight.shape[-1]
    h, w = ((side - k) // stride + 1 for side in padded.shape[2:])
    total = np.zeros((*padded.shape[:2], h, w), dtype=padded.dtype)
    for row in range(k):
        for column in range(k):
            tap = padded[
                :, :, row : row + (h - 1) * stride + 1 : stride, column : column + (w - 1) * stride + 1 : stride
            ]
            total += tap * weight[:, row, column, None, None]
    return total


def pool(values: Values, kind: str, size: int) -> Values:
    """values: [n, c, h, w] -> size × size windows side by side, their maximum or sum."""
    h, w = (side // size for side in values.shape[2:])
    result: Values | None = None
    for row in range(size):
        for column in range(size):
            tap = values[:, :, row : h * size : size, column : w * size : size]
            result = tap if result is None else np.maximum(result, tap) if kind == "max" else result + tap
    assert result is not None
    return result

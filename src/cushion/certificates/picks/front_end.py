"""Rows as vectors of whole numbers that no sample was fitted to (FORMAT.md, section 11.2).

Every front end gives *energies*: blocks of whole numbers ≥ 0, each block with a share of the whole.
`spread` takes their square roots, block by block, so that a row's squares sum to less than
2^24 whatever it holds. Dot products of two rows, and all their partial sums in any order, are then
whole numbers below 2^24: exact in single precision on every machine.

Pictures: differences of neighbours, rectified in eight directions, summed over cells (first order);
of these maps, at three scales, the sizes of the differences in four directions, summed over cells
(second order); and the brightness and colours of the cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]  # whole numbers below 2^24, so exact
WHOLE = 2**24 - 1  # a row's squares sum to at most this
MOST_SIDE = 35  # of a picture; larger ones are averaged over squares first
_CELLS, _COARSE = 8, 4  # cells a side of grey pictures: first order, second order
_COLOUR_CELLS = 5
_ROOT = ((7, 0), (5, 5), (0, 7), (-5, 5))  # directions of about the same length
_EIGHT = (*_ROOT, *((-a, -b) for a, b in _ROOT))
_SCALES = (1, 2, 4)


class Block(NamedTuple):
    """Energies [n, d] ≥ 0, and their share of a row's whole."""

    energies: Floats
    share: int


def spread(blocks: Sequence[Block]) -> Floats:
    """[n, sum of d]: ⌊√⌊E·A/T⌋⌋ for each energy E, T the sum of its block (at least 1) in its row
    and A = ⌊share·WHOLE / all shares⌋. The squares of a block sum to at most A.
    """
    total = sum(block.share for block in blocks)
    parts = []
    for energies, share in blocks:
        part = energies.astype(np.int64)
        sums = np.maximum(part.sum(axis=1, keepdims=True), 1)
        part *= share * WHOLE // total
        part //= sums
        parts.append(np.floor(np.sqrt(part)).astype(np.float32))  # exact: below 2^24
    return np.concatenate(parts, axis=1)


def grey(x: NDArray[Any]) -> Floats:
    """Pictures [n, h, w] of one channel, whole numbers 0..255 -> [n, d]."""
    plane = shrunk(x[:, None])[:, 0]
    maps = first_order(plane)
    blocks = [Block(cells(maps, _CELLS), 10), Block(cells(plane[:, None], _CELLS), 3)]
    return spread([*blocks, *(Block(part, 8) for part in second_order(maps))])


def colour(x: NDArray[Any]) -> Floats:
    """Pictures [n, 3, h, w] of red, green and blue, whole numbers 0..255 -> [n, d]."""
    red, green, blue = np.moveaxis(shrunk(x), 1, 0)
    planes = (red + green + blue, red - blue, red - 2 * green + blue)
    orders = [first_order(plane) for plane in planes]
    bright = planes[0]
    tones = [bright, 765 - bright]
    tones += [2 * np.maximum(0, sign * plane) for plane in planes[1:] for sign in (1, -1)]
    shares = (8, 2, 2)
    blocks = [Block(cells(m, _COLOUR_CELLS), s) for m, s in zip(orders, shares, strict=True)]
    blocks.append(Block(cells(np.stack(tones, axis=1), _COLOUR_CELLS), 3))
    return spread([*blocks, *(Block(part, 6) for part in second_order(orders[0]))])


def shrunk(x: NDArray[Any]) -> Floats:
    """[n, c, h, w], averaged (floor) over s x s squares, a remainder at the edge dropped, where a
    side is longer than MOST_SIDE: s = ⌈longer side / MOST_SIDE⌉.
    """
    s = -(-max(x.shape[2:]) // MOST_SIDE)
    if s == 1:
        return x.astype(np.float32)
    found: Floats = np.floor(blocks_of(x.astype(np.float32), s) / np.float32(s * s))
    return found


def blocks_of(maps: Floats, s: int) -> Floats:
    """[n, c, h, w] -> [n, c, ⌊h/s⌋, ⌊w/s⌋]: sums of squares side by side."""
    n, c, h, w = maps.shape
    h, w = max(h // s, 1), max(w // s, 1)
    whole = maps[:, :, : h * s, : w * s]
    if whole.shape[2:] != (h * s, w * s):  # a side shorter than the square
        edge = ((0, 0), (0, 0), (0, h * s - whole.shape[2]), (0, w * s - whole.shape[3]))
        whole = np.pad(whole, edge)
    found: Floats = whole.reshape(n, c, h, s, w, s).sum(axis=(3, 5))
    return found


def differences(maps: Floats) -> tuple[Floats, Floats]:
    """Along rows and columns, of the two neighbours [..., h, w]; the edge's own value stands for
    those outside.
    """
    wide = np.pad(maps, [(0, 0)] * (maps.ndim - 2) + [(1, 1), (1, 1)], mode="edge")
    across = wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2]
    return across, wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]


def first_order(plane: Floats) -> Floats:
    """[n, h, w] -> [n, 8, h, w]: ⌊max(0, a·across + b·down) / 8⌋ in eight directions."""
    across, down = differences(plane)
    maps = np.stack([np.float32(a) * across + np.float32(b) * down for a, b in _EIGHT], axis=1)
    rectified: Floats = np.floor(np.maximum(maps, 0, out=maps) / 8)
    return rectified


def second_order(maps: Floats) -> Iterator[Floats]:
    """Of [n, 8, h, w], at each scale: [n, 8 · 4 · cells]: ⌊|a·across + b·down| / 8⌋ in cells."""
    for scale in _SCALES:
        across, down = differences(blocks_of(maps, scale))
        parts = []
        for a, b in _ROOT:
            size = np.abs(np.float32(a) * across + np.float32(b) * down)
            parts.append(cells(np.floor(size / 8, out=size), _COARSE))
        yield np.concatenate(parts, axis=1)


def cells(maps: Floats, n: int) -> Floats:
    """[rows, c, h, w] -> [rows, c · n · n]: sums under tents. Cell t of a side of length h is
    centred at ⌊(2t + 1) h / 2n⌋ and weighs i pixels off by max(0, ⌊h/n⌋ + 2 - i).
    """
    down, across = (_tents(side, n) for side in maps.shape[2:])
    found: Floats = np.matmul(np.matmul(down, maps), across.T)
    return found.reshape(len(maps), -1)


def _tents(side: int, n: int) -> Floats:
    centres = (2 * np.arange(n) + 1) * side // (2 * n)
    off = np.abs(centres[:, None] - np.arange(side)[None])
    weights: Floats = np.maximum(0, side // n + 2 - off).astype(np.float32)
    return weights


def pairs(levels: NDArray[np.int64]) -> Floats:
    """Columns of a table as levels 0..255 [n, d] -> [n, 2d]: (level, 255 - level), each pair with
    the same share, so that every row has the same length and near levels a large product.
    """
    d = levels.shape[1]
    both = np.stack([levels, 255 - levels], axis=2).reshape(len(levels), 2 * d)
    roots: Floats = np.floor(np.sqrt(both * (WHOLE // d) // 255)).astype(np.float32)
    return roots


def features(x: NDArray[np.uint8]) -> Floats:
    """Bytes that a backbone's features became, [n, d]: one block."""
    return spread([Block(x.astype(np.float32), 1)])

"""Filters that come in all their mirror images and quarter turns, paid once.

A group G of 1, 2, 4 or 8 motions of the square (nothing; mirror; quarter turns; both) acts on
filters. A convolution with symmetry G stores one filter per output and applies it in every position
of the group, so its output has |G| channels for each stored one, ordered (output, element). Where
its input is already of that kind, the stored filter has one slice for each *relative* motion, which
makes the layer commute with G (group convolution: Cohen and Welling, "Group equivariant
convolutional networks", 2016). Everything here is a table of indices into the stored numbers, so
that training (torch) and evaluation (numpy) expand weights in the same way.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from cushion.errors import Malformed

Indices = NDArray[np.int64]
ORDERS = (1, 2, 4, 8)


@cache
def motions(order: int) -> tuple[tuple[int, int], ...]:
    """The group's elements as (mirror, quarter turns), in the order of the output channels."""
    if order not in ORDERS:
        raise Malformed(f"a symmetry of order {order} is not in the grammar; it has 1, 2, 4 and 8")
    mirrors, turns = {1: (1, 1), 2: (2, 1), 4: (1, 4), 8: (2, 4)}[order]
    return tuple((mirror, turn) for mirror in range(mirrors) for turn in range(turns))


def moved(element: tuple[int, int], filters: Indices) -> Indices:
    """Mirror the last axis, then turn the last two by quarters (rows towards columns)."""
    mirror, turns = element
    if mirror:
        filters = filters[..., ::-1]
    return np.rot90(filters, turns, (-2, -1))


@cache
def relative(order: int) -> tuple[tuple[int, ...], ...]:
    """relative(order)[a][b] is the index of a⁻¹b: the element that, followed by a, gives b."""
    probe = np.arange(9).reshape(3, 3)
    images = [moved(c, probe) for c in motions(order)]
    return tuple(
        tuple(
            next(k for k, image in enumerate(images) if np.array_equal(moved(a, image), target))
            for target in images
        )
        for a in motions(order)
    )


def lifted(shape: tuple[int, ...], order: int) -> Indices:
    """Stored [o, i, k, k] -> used [o·|G|, i, k, k]: filter (o, a) is a applied to filter o."""
    stored = np.arange(np.prod(shape)).reshape(shape)
    return np.stack([moved(a, stored) for a in motions(order)], axis=1).reshape(-1, *shape[1:])


def regular(shape: tuple[int, ...], order: int) -> Indices:
    """[o, i, |G|, k, k] -> [o·|G|, i·|G|, k, k]: ((o, a), (i, b)) is a applied to (o, i, a⁻¹b)."""
    stored = np.arange(np.prod(shape)).reshape(shape)
    rows = [
        moved(a, stored[:, :, list(relative(order)[index])])
        for index, a in enumerate(motions(order))
    ]
    o, i, _, k, _ = shape
    return np.stack(rows, axis=1).reshape(o * order, i * order, k, k)


def invariant(shape: tuple[int, ...], order: int) -> Indices:
    """[c, i, h, w] -> [c, i·|G|, h, w]: (c, (i, b)) is b applied to (c, i): scores ignore G."""
    c, i, h, w = shape
    if order > 2:
        check_square(h, w)
    stored = np.arange(np.prod(shape)).reshape(shape)
    return np.stack([moved(b, stored) for b in motions(order)], axis=2).reshape(c, i * order, h, w)


def check_square(h: int, w: int) -> None:
    if h != w:
        raise Malformed(f"quarter turns need a square feature map, not {h}x{w}")

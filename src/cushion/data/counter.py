"""Seeded whole numbers that never change: a counter hashed by SplitMix64, in exact arithmetic.

numpy promises the same *stream* only per bit generator and not for `permutation` or `integers`; a
certificate names its rows by a seed, so the rows must not depend on a library version.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput

# The odd integer nearest to 2^64 / golden ratio (Steele, Lea, Flood 2014).
GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def splitmix64(state: int, n: int, first: int = 0) -> NDArray[np.uint64]:
    """Outputs first..first+n-1 of SplitMix64 from `state` (Steele, Lea, Flood 2014): [n] uint64.

    Output i depends on (state, i) alone, so any stretch of them is computed at once.

    >>> [int(v) for v in splitmix64(1234567, 2)]
    [6457827717110365317, 3203168211198807973]
    """
    z = np.arange(first + 1, first + n + 1, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA)
    z += np.uint64(state)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def stream(purpose: str, seed: int, n: int, first: int = 0) -> NDArray[np.uint64]:
    """n hashes from the first-th on: [n] uint64, uniform, and unrelated between purposes and seeds.

    The starting state is the first 8 bytes (little-endian) of sha256("purpose seed"), so that the
    rows chosen with seed 0 say nothing about the labels drawn with seed 0.
    """
    if seed < 0:
        raise BadInput(f"a seed must be a whole number of at least 0, not {seed}")
    state = int.from_bytes(hashlib.sha256(f"{purpose} {seed}".encode()).digest()[:8], "little")
    return splitmix64(state, n, first)

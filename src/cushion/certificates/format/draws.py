"""The nets of a posterior that a claim counts, and the rows it counts them on.

All come from words of a cryptographic stream of the message and of the rows themselves, so that
nobody can know a draw without trying it, and every try can be paid for (FORMAT.md, section 8.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.evaluation import for_each
from cushion.certificates.format.posterior import Posterior
from cushion.certificates.format.rounded_gaussian import Words, choose_rows
from cushion.certificates.format.sources import Integers

Rows = Callable[[int, int], Integers]  # (first, n) -> the rows of nets first..first+n-1

# At most 2^80 tries are paid for: more hashes than anybody computes.
TRIES_BITS = 80
_BLOCK = 2**12  # words of one call of SHAKE-256; small, as a stretch rarely begins where one does
_NETS_AT_ONCE = 256
_VALUES_AT_ONCE = 2**20


def key_of(message: bytes, nets: int, fingerprint: str) -> str:
    """Names the streams of a count: sha256("cushion posterior `nets` `fingerprint`\\n" + message).

    fingerprint: of the rows that so many nets are counted on. Each other message, number of nets or
    order of the rows has streams of its own, so that whoever looks for lucky ones makes a try.
    """
    front = f"cushion posterior {nets} {fingerprint}\n".encode()
    return hashlib.sha256(front + message).hexdigest()


def words(tag: str, key: str, n: int, first: int = 0) -> Words:
    """Words first..first+n-1 of the stream `tag` of `key`: [n] uint64, from SHAKE-256.

    Block b of 2^12 words, little-endian, is SHAKE-256("cushion `tag` `key` b\\n").

    >>> f"{words('net', '0' * 64, 1, 5000)[0]:016x}"  # the one in FORMAT.md
    '339fe66729a80c16'
    """
    start, end = first // _BLOCK, -(-(first + n) // _BLOCK)
    texts = (f"cushion {tag} {key} {b}\n".encode() for b in range(start, end))
    drawn = b"".join(hashlib.shake_256(text).digest(8 * _BLOCK) for text in texts)
    return np.frombuffer(drawn, "<u8", n, 8 * (first - start * _BLOCK)).astype(
        np.uint64, copy=False
    )


def random_rows(key: str, m: int) -> Rows:
    """The row of m that net j is counted on is word j of the stream "rows" of `key`."""
    return lambda first, n: choose_rows(words("rows", key, n, first), m)


def row_by_row(first: int, n: int) -> Integers:
    """Net j is counted on row j."""
    return np.arange(first, first + n)


def draw_nets(posterior: Posterior, key: str, n: int, first: int = 0) -> Integers:
    """[n, D] numbers of nets first..first+n-1: net j has words jD..(j+1)D-1 of the stream "net"."""
    size = posterior.size
    return posterior.draw(words("net", key, n * size, first * size).reshape(n, size))


def count_draws(
    posterior: Posterior,
    key: str,
    x: NDArray[Any],
    y: NDArray[np.int64],
    nets: int,
    rows: Rows,
    progress: bool = False,
) -> int:
    """How many of so many nets drawn from Q err, each on its row; a tie is an error.

    Memory does not grow with the number of nets: a file may ask for 10^7.
    """
    at_once = max(1, min(_NETS_AT_ONCE, _VALUES_AT_ONCE // posterior.width))
    errors, lock = 0, Lock()

    def work(start: int) -> None:
        nonlocal errors
        n = min(at_once, nets - start)
        numbers, chosen = draw_nets(posterior, key, n, start), rows(start, n)
        scores = posterior.scores(numbers, np.asarray(x[chosen]))
        right = scores[np.arange(n), y[chosen]]
        wrong = int(((scores >= right[:, None]).sum(axis=1) != 1).sum())
        with lock:
            errors += wrong

    for_each(range(0, nets, at_once), work, at_once * posterior.width, progress)
    return errors

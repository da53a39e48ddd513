"""The sketching matrices A and B: 0/1, equally many ones in every column, from the seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cushion.data.counter import stream
from cushion.errors import BadInput

_BLOCK = 1 << 22  # hashes at a time


def bipartite(rows: int, columns: int, ones: int, seed: int, purpose: str) -> NDArray[np.int64]:
    """A 0/1 matrix [rows, columns] with exactly `ones` ones in every column, each such matrix
    equally likely.

    Every *column* has δ = `ones` ones (Dasarathy et al. 2013); Guha 2023, Definition E.1 says every
    row, which leaves columns empty, and what stands there in X cannot come back. Entry (i, j) has
    the (j·rows + i)-th hash of the stream of `purpose`; the ones of a column stand where its
    smallest hashes are. The hashes of one stream are all different (SplitMix64 is one-to-one), so
    that there are no ties, and by symmetry no set of rows is more likely than another.
    """
    if rows < 1 or columns < 0:
        raise BadInput(
            f"a sketching matrix needs at least one row and no negative size, not {rows} x "
            f"{columns}"
        )
    if not 1 <= ones <= rows:
        raise BadInput(
            f"a column of {rows} numbers has no {ones} ones; `ones` must be from 1 to {rows} here"
        )
    found = np.zeros((rows, columns), dtype=np.int64)
    step = max(1, _BLOCK // rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        keys = stream(purpose, seed, width * rows, start * rows).reshape(width, rows)
        chosen = np.argpartition(keys, ones - 1, axis=1)[:, :ones]
        found[chosen, start + np.arange(width)[:, None]] = 1
    return found

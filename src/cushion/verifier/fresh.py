"""Whether rows can be fresh draws beside the sample's (FORMAT.md, section 6), in whole numbers and
decimals: the same verdict on every machine.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from decimal import Context, Decimal, localcontext
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PULLS = (Decimal("0.999"), *(Decimal(0.5**k) for k in range(1, 11)))
_FEWEST = 12  # rows that occur r times: fewer are never evidence, as 3^11 < 121 * 2 * 1000


def freshness_fault(rows: NDArray[Any], sample: NDArray[Any]) -> str:
    """Why the rows cannot be fresh draws beside the sample's, as the end of a sentence; else empty.

    A row of the sample again means that they are not fresh, unless the sample repeats rows as
    independent draws from few possible rows do: then some of them may be met by chance. The sample
    itself is never fresh, nor in another order if it has at least 10 different rows.
    """
    if rows.dtype != sample.dtype:
        return ""
    given, known = _digests(rows), _digests(sample)
    theirs, ours = Counter(given), Counter(known)
    shared = sum(count for digest, count in theirs.items() if digest in ours)
    often = Counter(ours.values())
    if not shared or (
        max(often) > 1
        and not _copied(often)
        and _by_chance(shared, len(rows), len(sample), often)
        and given != known
        and (theirs != ours or len(ours) < 10)
    ):
        return ""
    return f"{shared} of the {len(rows)} are rows of the sample itself"


def _copied(often: Counter[int]) -> bool:
    """Whether too many rows occur r times beside those that occur r - 1 and r + 1 times."""
    with localcontext(Context(prec=20)):
        logs = {pull: (1 - pull).ln() for pull in _PULLS}
        for r, count in often.items():
            if r < 2 or count < _FEWEST:
                continue
            part = Decimal(4 * r) / (r + 1)
            most = max(
                count * (1 + (part * b * d).sqrt()).ln()
                + often[r - 1] * logs[b]
                + often[r + 1] * logs[d]
                for b, d in product(_PULLS, repeat=2)
            )
            if most > Decimal(121_000 * r * (r - 1)).ln():
                return True
    return False


def _by_chance(shared: int, n: int, m: int, often: Counter[int]) -> bool:
    """Whether Good and Turing's share of n draws, and chance, explain so many shared rows."""
    repeated = m - often[1]
    beyond = shared * m - n * repeated - 3 * m - 6 * n
    spread = n * (n + m) * repeated * often[1] + 2 * n**2 * m * often[2]
    return beyond <= 0 or m * beyond**2 <= 14 * spread


def _digests(x: NDArray[Any]) -> list[bytes]:
    return [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in x]

"""Hill's estimate of the tail index for several tail sizes. A measure."""

from __future__ import annotations

import math

import numpy as np

from cushion.errors import BadInput
from cushion.measures.tails.magnitudes import Magnitudes
from cushion.measures.tails.records import HillPlot

_FIRST = 10  # values, from which on the relative error 1/√k is below a third


def hill_plot(sample: Magnitudes, points: int = 64) -> HillPlot:
    """1/mean of ln(x_(i)/x_(k+1)) over the k largest values x_(1) ≥ x_(2) ≥ ..., for up to `points`
    numbers k.

    k runs from 10 to half of the n values in equal ratios, rounded, each once; below 20 values it
    is n//2 alone. Where the k + 1 largest values are one and the same the estimate is infinite, and
    such a k is left out. All of them come from one cumulative sum of logarithms.
    """
    if points < 1:
        raise BadInput(f"a Hill plot has at least 1 point, not {points}")
    most = sample.ordered.size // 2
    if most < 1:
        return HillPlot((), (), ())
    k = np.unique(np.round(np.geomspace(min(_FIRST, most), most, points)).astype(np.int64))
    falling = sample.ordered[::-1][: most + 1]
    k = k[falling[k] < falling[0]]
    logs = np.log(
        falling / falling[0]
    )  # relative to the largest: the scale drops out before anything is added up
    index = 1 / (np.cumsum(logs)[k - 1] / k - logs[k])
    return HillPlot(
        k=tuple(int(size) for size in k),
        tail_index=tuple(float(value) for value in index),
        errors=tuple(float(value) / math.sqrt(size) for value, size in zip(index, k, strict=True)),
    )

"""Assumption 3.1 of Guha 2023 on one layer: how far its weights are from N(0, Ψ). A measure."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from cushion.compressors.pruning.records import Normality

# D(√n + 0.12 + 0.11/√n) of n normal numbers of mean 0, against N(0, their mean square), exceeds
# this once in a hundred times. Simulated, 10^6 samples of n = 30 and 3·10^5 of n = 300: 1.604 and
# 1.600, each ± 0.006 (two standard errors). With a known variance it would be 1.628, with mean and
# variance estimated (Lilliefors) 1.035; the factor of n is Stephens's (1974) for the known one, and
# brings n = 10 to 5000 within the error of the simulation.
_CRITICAL = 1.60


def normality(weight: Tensor) -> Normality:
    """The entries off the diagonal of the weight, seen as the matrix [out, rest], against N(0, Ψ),
    Ψ their mean square.

    The distance is exact: F_n jumps at the sorted entries and F is continuous, so the supremum is
    next to a jump. A layer of zeros is N(0, 0) itself: distance 0, and by convention kurtosis 3.
    """
    wide = (
        weight.detach().cpu() if weight.dtype == torch.float32 else weight.detach().cpu().double()
    )
    matrix = wide.reshape(wide.shape[0], -1)
    found = np.sort(
        matrix[~torch.eye(*matrix.shape, dtype=torch.bool)].numpy()
    )  # float32 sorts several times faster
    entries = found.astype(np.float64)
    n = entries.size
    critical = ks_critical(n)
    largest = float(np.abs(entries).max(initial=0.0))
    if largest == 0.0:
        return Normality(0.0, 0.0, critical, 3.0, 0.0)
    entries /= largest  # squares and fourth powers of any finite weight stay in range
    share = float(np.square(entries).mean())
    entries /= math.sqrt(share)
    kurtosis, mean = float(np.square(np.square(entries)).mean()), float(entries.mean())
    law = ndtr(entries)
    steps = np.arange(n + 1) / n
    distance = max(float((steps[1:] - law).max()), float((law - steps[:-1]).max()))
    return Normality(share * largest * largest, distance, critical, kurtosis, mean)


def ks_critical(n: int) -> float:
    """What the distance of n truly normal numbers exceeds once in a hundred times; at most 1."""
    root = math.sqrt(n)
    return min(1.0, _CRITICAL / (root + 0.12 + 0.11 / root)) if n else 1.0

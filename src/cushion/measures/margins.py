"""Classification margins: the score of the true class minus the best other score; negative ones
stay negative.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.errors import BadInput


def sample_margins(logits: Tensor, labels: Tensor) -> Tensor:
    """[n, classes], [n] -> [n]: f(x)[y] - max_{j≠y} f(x)[j] (Neyshabur 2017, eq. 2).

    An example is misclassified exactly when its margin is ≤ 0: a tie is an error.
    """
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own.squeeze(1) - others.amax(dim=1)


def epsilon_margin(margins: NDArray[np.float64], epsilon: float) -> float:
    """γ: the ⌈εm⌉-th smallest margin, so that all but a fraction ε of the examples exceed it; ε =
    0: the hard margin.

    Neyshabur 2017, §2.2 (ε = 0.05 in its figures). Negative where more than a fraction ε is
    misclassified.

    >>> margins = np.array([3.0, -1.0, 2.0, 5.0])
    >>> epsilon_margin(margins, 0.5), epsilon_margin(margins[:2], 0.0)
    (2.0, -1.0)
    """
    if not 0 <= epsilon < 1:
        raise BadInput(f"`epsilon` must be at least 0 and below 1, not {epsilon}")
    rank = max(1, math.ceil(epsilon * len(margins) - 1e-9))
    return float(np.partition(margins, rank - 1)[rank - 1])


def margin_loss(margins: NDArray[np.float64], gamma: float) -> float:
    """L̂_γ: the fraction of examples with margin at most γ; at γ = 0 the error."""
    return float((margins <= gamma).mean())

"""Classification margins: the score of the true class minus the best other score; negative ones stay negative."""

from __future__ import annotations

import torch
from torch import Tensor


def sample_margins(logits: Tensor, labels: Tensor) -> Tensor:
    """[n, classes], [n] -> [n]: f(x)[y] - max_{j≠y} f(x)[j] (Neyshabur 2017, eq. 2).

    An example is misclassified exactly when its margin is ≤ 0: a tie is an error.
    """
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own.squeeze(1) - others.amax(dim=1)

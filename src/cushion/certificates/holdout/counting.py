"""Rows that f gets wrong, from its scores: ties and gaps within the tolerance are errors.

Counting is on the safe side of what f says on another machine, where each score may differ by a
quarter of the tolerance (times the largest score of the row in magnitude): with half the tolerance
any such machine counts at most what is counted here with all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
RELATIVE_TOLERANCE = "0.0001"  # a hundred times what float32 sums differ by between machines
COARSE_TOLERANCE = "0.03"  # the same for half precision, whose sums round by up to 2^-8 a step


@dataclass(frozen=True, eq=False)
class Scored:
    """f's scores of some rows, [n, classes ≥ 2] float64, their labels, and each row's own slack."""

    scores: NDArray[np.float64]
    y: NDArray[np.int64]
    slack: NDArray[np.float64]  # [n] gaps up to this are ties

    @cached_property
    def rivals(self) -> NDArray[np.int64]:
        """[n] how many other classes score as high as the row's own, or nearly so; more than there
        are where the label has no score.
        """
        known = self.y < self.scores.shape[1]
        own = self.scores[np.arange(len(self.y)), np.where(known, self.y, 0)]
        near = (own[:, None] - self.scores <= self.slack[:, None]).sum(axis=1) - 1
        return np.where(known, near, np.iinfo(np.int64).max)

    @cached_property
    def gaps(self) -> NDArray[np.float64]:
        """[n] the largest score less the second largest."""
        top = np.partition(self.scores, -2, axis=1)
        gaps: NDArray[np.float64] = top[:, -1] - top[:, -2]
        return gaps

    def missed(self, k: int = 1) -> Flags:
        """[n] whether the row's own class is not among the k best scored ones."""
        return self.rivals >= k


def scored(scores: NDArray[Any], y: NDArray[np.int64], tolerance: str) -> Scored:
    """Scores in any precision, with the slack that the tolerance gives each row."""
    wide = np.asarray(scores, dtype=np.float64)
    return Scored(wide, y, float(tolerance) * np.abs(wide).max(axis=1))

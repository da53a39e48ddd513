"""What the user's own net f answers: plain arrays, so that the verifier needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Answers:
    """net_fingerprint: of f's numbers (FORMAT.md, section 5). classes: [n] int64, the class of the
    largest score.

    gaps: [n] float64, the largest score less the second largest.
    """

    net_fingerprint: str
    classes: NDArray[np.int64]
    gaps: NDArray[np.float64]

    def outside(self, tolerance: Decimal) -> NDArray[np.int64]:
        """[n] the classes; -1 where a gap within the tolerance might differ elsewhere."""
        return np.where(self.gaps > float(tolerance), self.classes, -1)

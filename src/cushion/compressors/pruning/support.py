"""Linear algebra on a few entries of a matrix that is seen through two factors: least squares,
lifts, injectivity.

For entries S and orthonormal P, Q the Gram matrix of the map x_S -> Pᵀ X Q is G[s, s'] = (PPᵀ)[i,
i'] (QQᵀ)[j, j']. It is never formed: a product with it is a few products with the factors, and
conjugate gradients solve with it. They also answer the smallest correction where G is singular.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cushion.data.counter import stream

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Places = tuple[NDArray[np.int64], NDArray[np.int64]]
_MOST_STEPS = 300  # of conjugate gradients
EXACT = 1e-14  # relative residual of a solution that is as good as float64 gives
_SAME = 1e-6


def places(chosen: NDArray[np.bool_]) -> Places:
    """Where the entries that are chosen stand, row by row."""
    rows, columns = np.nonzero(chosen)
    return rows.astype(np.int64), columns.astype(np.int64)


class Support:
    """Entries `at` = (rows [n], columns [n]), row by row, of a matrix [p1, p2] under P and Q."""

    def __init__(self, P: Matrix, Q: Matrix, at: Places) -> None:
        self.P, self.Q, self.at = P, Q, at
        starts = np.searchsorted(at[0], np.arange(len(P) + 1))
        self._frame = sparse.csr_array(
            (np.zeros(len(at[0])), at[1], starts), shape=(len(P), len(Q))
        )

    def scattered(self, values: Vector) -> Matrix:
        """The matrix [p1, p2] with these values on the support, 0 elsewhere."""
        found = np.zeros(self._frame.shape)
        found[self.at] = values
        return found

    def sketch(self, values: Vector) -> Matrix:
        """Pᵀ X Q: [k1, k2]."""
        self._frame.data = values
        found: Matrix = (self._frame.T @ self.P).T @ self.Q
        return found

    def gathered(self, U: Matrix) -> Vector:
        """(P U Qᵀ) on the support: the adjoint of `sketch`."""
        found: Vector = (self.P @ U @ self.Q.T)[self.at]
        return found

    def solve(self, C: Matrix, start: Vector, residual: float) -> Vector:
        """Least squares of Pᵀ X Q = C on the support, nearest to `start`; to a residual of G."""
        right = self.gathered(C - self.sketch(start))
        size = float(np.linalg.norm(right))
        return start + self.lifted_back(right, residual / size) if size > residual else start

    def lifted_back(self, right: Vector, accuracy: float = EXACT) -> Vector:
        """G⁺ right by conjugate gradients from zero, to a relative residual."""
        found = np.zeros_like(right)
        residual = right.copy()
        direction = residual.copy()
        square = float(residual @ residual)
        stop = square * accuracy**2
        for _ in range(_MOST_STEPS):
            if square <= stop or square == 0.0:
                break
            image = self.gathered(self.sketch(direction))
            curvature = float(direction @ image)
            if curvature <= 0.0:  # the null space, up to rounding
                break
            length = square / curvature
            found += length * direction
            residual -= length * image
            before, square = square, float(residual @ residual)
            direction *= square / before
            direction += residual
        return found


def is_injective(support: Support) -> bool:
    """Whether different values on the support give different sketches, by a probe.

    A fixed vector in general position comes back from its own image only where the map has no null
    space: what lies in one is lost. An almost singular map fails the probe too, which errs on the
    safe side.
    """
    n = len(support.at[0])
    probe = stream("injectivity probe", 0, n).astype(np.float64) / 2.0**64 - 0.5
    again = support.lifted_back(support.gathered(support.sketch(probe)))
    return bool(np.linalg.norm(again - probe) <= _SAME * np.linalg.norm(probe))

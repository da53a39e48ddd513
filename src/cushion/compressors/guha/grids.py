"""Discretisation (Guha 2023, Lemma 4.4): how coarse a grid may be, and a pruned weight on one.

A = Â + Δ is the layer, Â what pruning leaves, Ã = Â rounded to the nearest multiples of ρ. The perturbation bound needs
‖A - Ã‖₂ ≤ ‖A‖₂/L. An entry moves by at most ρ/2, and only the J that stayed move, so ‖Ã - Â‖₂ ≤ ‖Ã - Â‖_F ≤ (ρ/2)√J:
the paper's ρJ is 2√J times as much. A convolution's map reads a number of its input at up to `overlap` places, which
multiplies the squared norm of a map over that of its kernel's matrix by at most as much.

Here ρ is a power of two, so that a stored weight is a whole number and an exponent, exactly.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from cushion.compressors.storage.stored import MOST_BITS, Numbers, Values
from cushion.errors import BadInput

_BLOCK = 1 << 16  # weights rounded at a time: what is computed on the way stays in the cache


def rho_limit_printed(spectral: float, layers: int, epsilon_l: float, gamma_l: float, nonzeros: int) -> float:
    """(‖A‖₂/L - ε_lΓ_l)/J, as Lemma 4.4 has it; not positive where no grid satisfies it."""
    return (spectral / layers - epsilon_l * gamma_l) / max(nonzeros, 1)


def rho_limit(spectral: float, layers: int, shift: float, nonzeros: int, overlap: int = 1) -> float:
    """2(‖A‖₂/L - ‖Δ‖₂)/√(J·overlap): Lemma 4.4 with the shift itself and what rounding can do.

    Up to this step ‖A - Ã‖₂ ≤ ‖A‖₂/L; not positive where pruning alone took more than that. J counts what stayed
    before rounding: a weight that rounds to zero has moved too. A layer of which nothing stayed counts as J = 1.
    """
    return 2.0 * (spectral / layers - shift) / math.sqrt(max(nonzeros, 1) * overlap)


def rounding_limit(rho: float, nonzeros: int, overlap: int = 1) -> float:
    """(ρ/2)√(J·overlap), which ‖Ã - Â‖₂ cannot exceed; J counts what stayed before rounding."""
    return rho / 2.0 * math.sqrt(nonzeros * overlap)


def exponent_below(rho: float) -> int:
    """The largest e with 2^e ≤ ρ.

    >>> [exponent_below(rho) for rho in (1.0, 0.99, 0.25, 5e-324)]
    [0, -1, -2, -1074]
    """
    if not 0.0 < rho < math.inf:
        raise BadInput(f"a grid needs a finite step above 0, not {rho}")
    return math.frexp(rho)[1] - 1  # ρ = mantissa · 2^exponent with ½ ≤ mantissa < 1


def discretise(weight: Tensor, mask: Tensor, exponent: int) -> Numbers:
    """The nearest multiples of 2^exponent, ties to even, [*weight.shape]; zeros where the mask is False.

    What the mask drops takes no part, however large it is; what stays may still round to zero.
    """
    _check_fit(weight, mask)
    values, stays = weight.detach().cpu().reshape(-1), mask.detach().cpu().reshape(-1)
    integers = np.empty(values.numel(), dtype=np.int64)
    for first in range(0, integers.size, _BLOCK):
        here = slice(first, first + _BLOCK)
        kept = values[here].masked_fill(~stays[here], 0.0).double().numpy()
        integers[here] = _rounded(kept, exponent).integers
    return Numbers(integers.reshape(tuple(weight.shape)), exponent)


def fitted(weight: Tensor, mask: Tensor, bits: int) -> Numbers:
    """On the finest grid of a power of two on which every weight that stays takes at most `bits` bits, with its sign.

    Zeros where the mask is False; [*weight.shape].
    """
    _check_fit(weight, mask)
    kept = weight.detach().masked_fill(~mask.to(weight.device), 0.0).abs()
    largest = np.array([float(kept.max()) if kept.numel() else 0.0])
    return discretise(weight, mask, Numbers.fitted(largest, bits).exponent)  # the largest alone decides the grid


def _rounded(kept: Values, exponent: int) -> Numbers:
    try:
        return Numbers.rounded(kept, exponent)
    except BadInput:
        if not np.isfinite(kept).all():
            raise
        raise BadInput(
            f"on a grid of 2^{exponent} the largest weight takes more than {MOST_BITS} bits; give the bits of a weight "
            "with --grid, such as 8"
        ) from None


def _check_fit(weight: Tensor, mask: Tensor) -> None:
    if weight.shape != mask.shape:
        raise BadInput(f"a mask of shape {tuple(mask.shape)} does not fit a weight of shape {tuple(weight.shape)}")

"""Discretisation (Guha 2023, Lemma 4.4): how coarse a grid may be.

A = Â + Δ is the layer, Â what pruning leaves, Ã = Â rounded to the nearest multiples of ρ. The
perturbation bound needs ‖A - Ã‖₂ ≤ ‖A‖₂/L. An entry moves by at most ρ/2, and only the J that
stayed move, so ‖Ã - Â‖₂ ≤ ‖Ã - Â‖_F ≤ (ρ/2)√J: the paper's ρJ is 2√J times as much. A convolution's
map reads a number of its input at up to `overlap` places, which multiplies the squared norm of a
map over that of its kernel's matrix by at most as much.

A stored grid's ρ is a power of two (`storage.pruned`).
"""

from __future__ import annotations

import math

from cushion.errors import BadInput


def rho_limit_printed(
    spectral: float, layers: int, epsilon_l: float, gamma_l: float, nonzeros: int
) -> float:
    """(‖A‖₂/L - ε_lΓ_l)/J, as Lemma 4.4 has it; not positive where no grid satisfies it."""
    return (spectral / layers - epsilon_l * gamma_l) / max(nonzeros, 1)


def rho_limit(spectral: float, layers: int, shift: float, nonzeros: int, overlap: int = 1) -> float:
    """2(‖A‖₂/L - ‖Δ‖₂)/√(J·overlap): Lemma 4.4 with the shift itself and what rounding can do.

    Up to this step ‖A - Ã‖₂ ≤ ‖A‖₂/L; not positive where pruning alone took more than that. J
    counts what stayed before rounding: a weight that rounds to zero has moved too. A layer of which
    nothing stayed counts as J = 1.
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

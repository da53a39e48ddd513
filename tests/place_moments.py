"""Why Lemma 12 (Arora 2018) is false, in closed form: Algorithm 4's filters are correlated between
places (derived in `projection.location_sums`).
"""

from __future__ import annotations


def place_variance(
    n: int, k: int, p: int, squares: float = 1.0, inner: float = 0.0
) -> tuple[float, float]:
    """(var ⟨U, Â_l⟩, cov(⟨U, Â_l⟩, ⟨U, Â_l'⟩)) exactly, with squares = ‖U‖²‖A‖² and inner = ⟨U,
    A⟩².

    If the M' were spherical normals, as Lemma 12 says, they would be (squares + inner)/k and 0.
    """
    q = k * p
    c = q * (n - q) / (n * (n - 1) * (n + 2))
    e = q * (q * (n + 1) - 2) / (n * (n - 1) * (n + 2))
    across = c * squares + (c + e) * inner  # E⟨U, P A⟩²
    both = e * squares + 2 * c * inner  # E ‖P U‖²‖P A‖²
    scale = (n / q) ** 2
    covariance = scale * across - inner
    return covariance + scale * (both + across) / k, covariance


def place_correlation(n: int, k: int, p: int) -> float:
    """Of ⟨U, Â_l⟩ and ⟨U, Â_l'⟩ at two places, for U orthogonal to A: k(n-q)/((k+1)(n-q) + q(n+1) -
    2).

    About 1/(p + 1) for k·p far below n, and 0 at k·p = n. Lemma 12 says 0.
    """
    variance, covariance = place_variance(n, k, p)
    return covariance / variance

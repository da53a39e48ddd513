"""How far Algorithm 4's filters are from independent, and what that does to sums over places (Arora
2018, section C.3).

Lemma 12 calls the filters Â_l of `conv_project` p-wise independent. They are not even uncorrelated:
given the subspace S they are independent with the common mean (n/q)·P A (P projects on S), so for
two places and one direction U

    cov(⟨U, Â_l⟩, ⟨U, Â_l'⟩) = (n/q)² E⟨U, P A⟩² - ⟨U, A⟩²
    var ⟨U, Â_l⟩ = that + (n/q)²/k · E[‖P U‖²‖P A‖² + ⟨U, P A⟩²].

The moments of a uniform projection of rank q in R^n, for orthonormal U and A: c = E⟨U, P A⟩² =
q(n-q)/(n(n-1)(n+2)) and e = E ‖P U‖²‖P A‖² = q(q(n+1)-2)/(n(n-1)(n+2)); for any U and A, with s =
‖U‖²‖A‖² and i = ⟨U, A⟩²,

    E⟨U, P A⟩² = c·s + (c + e)·i,    E ‖P U‖²‖P A‖² = e·s + 2c·i.

A sum over L places then has 1 + (L-1)·(correlation) times the variance of independent terms, and no
growth of L helps.

Lemma 15 and Corollary C.2 bound the moments and tails of a sum of p-wise independent terms. Truly
independent filters satisfy them; Algorithm 4's do not even have the variance, which
`simulate_places` shows on a net's own convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cushion.compressors.projection.conv_project import Located
from cushion.compressors.projection.records import PlaceSums
from cushion.compressors.storage.stored import Values, one_thread
from cushion.compressors.storage.stored_net import StoredNet
from cushion.nets.network import Network
from cushion.nets.operators.gaussian_projection import gaussian_rows

Filters: TypeAlias = Literal["independent", "algorithm 4"]
_T = (1.1, 1.5, 2.0)  # where the tail is compared with 1/t^p; Lemma 13 uses t = 2
_BLOCK = 1 << 22  # normals held at a time
_NORMALS = 1 << 25  # that one simulation may draw: some seconds
_LEAST, _MOST = 50, 2000  # trials
_PLACES = 64
_ROWS = 4  # of U for the vectors of Corollary C.2


def filter_correlation(n: int, k: int, p: int) -> float:
    """E⟨Δ_l, Δ_l'⟩ / E‖Δ_l‖² of whole filters, Δ_l = Â_l - A: what `measured_dependence` estimates.

    E⟨Δ_l, Δ_l'⟩ = (n/q - 1)‖A‖² is the distance of (n/q)·P A from A; each place adds (n/(qk))(q +
    1)‖A‖² of its own.
    """
    q = k * p
    return (n - q) / (n - q + n * (q + 1) / k)


def measured_dependence(filters: Values, kernel: Values) -> float:
    """Mean of ⟨Δ_l, Δ_l'⟩ over pairs of places, over the mean of ‖Δ_l‖², for filters [places,
    *kernel] of two places or more: a measure.

    0 on average for independent filters without bias. The mean is over the pairs of one draw of S,
    so it varies from draw to draw around `filter_correlation`.
    """
    delta = (filters - kernel).reshape(len(filters), -1)
    own = float(np.square(delta).sum())
    together = float(np.square(delta.sum(0)).sum())  # = own + Σ over ordered pairs
    return (together - own) / (len(filters) - 1) / own if own else 0.0


def variance_factor(places: int, correlation: float) -> float:
    """1 + (L-1)·correlation: the variance of a sum over L places over that of independent terms."""
    return 1.0 + (places - 1) * correlation


@dataclass(frozen=True)
class LocationSums:
    """A simulation of X = Σ_l X_l, X_l = U_l Â_l, against Arora 2018, Lemma 15 (numbers) and
    Corollary C.2 (vectors).

    Expectations are over filters and subspace; E X = Σ_l U_l A is known. `sigma` is √Σσ_l² with
    σ_l² = (‖U_l‖²‖A‖² + ‖U_l A‖²)/k, the exact variance of X_l under spherical normals; by
    hypercontractivity σ_l makes E‖X_l - E X_l‖^a ≤ (σ_l a)^a for whole a ≥ 2, which is all the
    proofs use. Both kinds of filter are held against it.
    """

    sigma: float
    # the largest even number up to p: |·|^p needs an even p, and p-wise independence implies
    # (p-1)-wise
    exponent: int
    moment: float  # mean of (‖X - E X‖/σ)^exponent; the promise is (6·exponent)^exponent
    # (t, frequency of ‖X - E X‖ ≥ 6σ·exponent·t, 1/t^exponent)
    tails: tuple[tuple[float, float, float], ...]
    variance_ratio: float  # mean of ‖X - E X‖² over σ²: 1 for independent filters
    variance_error: float  # standard error of variance_ratio
    # mean of ⟨Y_l, Y_l'⟩ for neighbours (0, 1), (2, 3), ... over mean ‖Y_l‖², Y_l = X_l - E X_l
    pair_correlation: float
    pair_error: float  # standard error of pair_correlation's numerator, in the same unit

    @property
    def moment_ratio(self) -> float:
        """The moment over the promise: at most 1 if it held."""
        return self.moment / (6.0 * self.exponent) ** self.exponent


def simulate_places(net: Network, stored: StoredNet, seed: int) -> tuple[PlaceSums, ...]:
    """Numbers (Lemma 15) and vectors (Corollary C.2) with independent filters and with Algorithm
    4's: four records.

    On the smallest convolution whose subspace is affordable, with its own kernel, k, p and places
    (at most 64 of them). The direction U is seeded and the same at all places, as where the mean of
    a constant image is taken: there the dependence of the filters adds up. () where there is no
    such convolution.
    """
    found = [
        (layer, node)
        for layer, node in zip(stored.layers, net.affine_layers, strict=True)
        if isinstance(layer, Located) and layer.places > 1 and layer.p > 1
        if _LEAST * _cost(layer, _ROWS) <= _NORMALS
    ]
    if not found:
        return ()
    layer, node = min(found, key=lambda pair: math.prod(pair[0].shape))
    kernel = node.affine.operator.weight.double().numpy().reshape(-1)
    k, p, places = layer.k, layer.p, min(layer.places, _PLACES)
    kinds: tuple[Filters, ...] = ("independent", "algorithm 4")
    records = []
    for rows, claim in ((1, "Lemma 15"), (_ROWS, "Corollary C.2")):
        trials = max(_LEAST, min(_MOST, _NORMALS // _cost(layer, rows)))
        normals = gaussian_rows(kernel.size, 0, rows, seed, "directions of a sum over places")
        directions = np.repeat(normals[None] / math.sqrt(kernel.size), places, axis=0)
        for filters in kinds:
            one = location_sums(kernel, directions, k, p, filters, trials, seed)
            tail = max(seen / promised for _, seen, promised in one.tails)
            seen = one.variance_ratio, one.variance_error, one.pair_correlation, one.pair_error
            sizes, ratios = (k, p, places, trials), (one.moment_ratio, tail, *seen)
            records.append(PlaceSums(claim, node.name, filters, *sizes, *ratios))
    return tuple(records)


def _cost(layer: Located, rows: int) -> int:
    """Normals of one trial."""
    n = math.prod(layer.shape)
    return layer.k * layer.p * n + min(layer.places, _PLACES) * (1 + rows) * (layer.k + n)


def location_sums(
    kernel: Values, directions: Values, k: int, p: int, filters: Filters, trials: int, seed: int
) -> LocationSums:
    """Draw `trials` sets of filters, each with a subspace of its own; directions: [places, m, n],
    kernel: [n]; at least 2 places, trials and p.

    Only the inner products of a place's normals with A and the m rows of U_l matter, so these are
    drawn, jointly normal with the exact covariance: of A and U_l themselves, or of √(n/q) times
    their projections on S (Algorithm 4).
    """
    places, m, n = directions.shape
    # [places, 1+m, n]
    frames = np.concatenate((np.broadcast_to(kernel, (places, 1, n)), directions), axis=1)
    mean = (directions * kernel).sum(2)  # E X_l: [places, m]
    lengths_squared = np.square(directions).sum((1, 2)) * np.square(kernel).sum()
    own = (lengths_squared + np.square(mean).sum(1)) / k  # σ_l²
    step = max(1, _BLOCK // (places * (1 + m) * (k + n) + k * p * n))
    parts = []
    with one_thread():
        for first in range(0, trials, step):
            count = min(step, trials - first)
            vectors = torch.from_numpy(frames)
            if filters == "algorithm 4":
                vectors = _projected(vectors, k * p, first, count, seed)
            parts.append(_terms(vectors, k, first, count, seed) - mean)
    centred = np.concatenate(parts)  # Y_l: [trials, places, m]

    exponent, sigma = p - p % 2, math.sqrt(own.sum())
    lengths = np.sqrt(np.square(centred.sum(1)).sum(1)) / sigma
    squares, even = np.square(lengths), places - places % 2
    products = (centred[:, 0:even:2] * centred[:, 1:even:2]).sum(2).mean(1)
    pairs = products / np.square(centred).sum(2).mean()
    return LocationSums(
        sigma=sigma,
        exponent=exponent,
        moment=float((lengths**exponent).mean()),
        tails=tuple((t, float((lengths >= 6 * exponent * t).mean()), t**-exponent) for t in _T),
        variance_ratio=float(squares.mean()),
        variance_error=_standard_error(squares),
        pair_correlation=float(pairs.mean()),
        pair_error=_standard_error(pairs),
    )


def _projected(frames: Tensor, q: int, first: int, count: int, seed: int) -> Tensor:
    """√(n/q)·Bᵀ of every row, B a basis of a trial's S: [trials, places, 1+m, q]."""
    n = frames.shape[2]
    normals = gaussian_rows(n, first * q, count * q, seed, "location sums subspace")
    spanning = torch.from_numpy(normals).reshape(count, q, n)
    lower = torch.linalg.cholesky(spanning @ spanning.mT)
    rows = spanning @ frames.flatten(0, 1).T  # [trials, q, places·(1+m)]
    coordinates: Tensor = torch.linalg.solve_triangular(lower, rows, upper=False) * math.sqrt(n / q)
    return coordinates.mT.reshape(count, *frames.shape[:2], q)


def _terms(vectors: Tensor, k: int, first: int, count: int, seed: int) -> Values:
    """X_l = (1/k) Σ ⟨A, M'⟩ U_l M', vectors [.., places, 1+m, dimension]: [trials, places, m]."""
    places, rows = vectors.shape[-3:-1]
    # no Cholesky: U_l may be a multiple of A
    values, basis = torch.linalg.eigh(vectors @ vectors.mT)
    root = basis * values.clamp_min(0.0).sqrt()[..., None, :]
    normals = gaussian_rows(places * k * rows, first, count, seed, "location sums filters")
    products = torch.from_numpy(normals).reshape(count, places, k, rows) @ root.mT
    terms: Values = (products[..., :1] * products[..., 1:]).mean(2).numpy()
    return terms


def _standard_error(values: Values) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))

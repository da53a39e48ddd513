"""The spectrum of a layer, of its true map or its kernel, and a matrix's stable rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cushion.errors import BadInput
from cushion.measures.distribution import LEVELS, Spectrum
from cushion.nets.operators import Diagonal, Linear, Operator
from cushion.nets.operators.spectrum import estimate_density, is_exact, singular_values, top_values

_BINS = 24  # wide enough to hold several nodes of the quadrature each
_TOP = 16
_ENERGY = 0.9


def kernel_map(weight: Tensor) -> Operator:
    """The weight with one row a filter; of a diagonal map the diagonal matrix of its factors."""
    return Diagonal(weight, (len(weight),)) if weight.ndim == 1 else Linear(weight.flatten(1))


def layer_spectrum(operator: Operator, *, seed: int = 0) -> Spectrum:
    """The spectrum of the true map; `seed` chooses the probes where it has to be estimated."""
    return _spectrum("map", operator, seed)


def kernel_spectrum(operator: Operator, *, seed: int = 0) -> Spectrum:
    """The spectrum of the weight as a matrix (`kernel_map`), which is what plots of filters show.

    It is not the layer's: a convolution's norm mostly exceeds that of its reshaped kernel.
    """
    return _spectrum("kernel", kernel_map(operator.weight), seed)


def _spectrum(of: Literal["map", "kernel"], operator: Operator, seed: int) -> Spectrum:
    frobenius = operator.operator_frobenius()
    if exact := is_exact(operator) or frobenius == 0.0:
        count = min(operator.input_size, operator.output_size)
        values = singular_values(operator) if is_exact(operator) else np.zeros(count)
        count, spectral, energy = len(values), float(values[0]), np.cumsum(values**2)
        edges = np.linspace(0.0, spectral or 1.0, _BINS + 1)
        counts, errors = np.histogram(values, edges)[0], None
        quantiles = [values[count - max(1, int(np.ceil(q * count)))] for q in LEVELS]
        top = values[:_TOP]
        rank = int(np.searchsorted(energy, _ENERGY * energy[-1])) + 1 if spectral > 0 else 0
    else:
        top = top_values(operator, _TOP)
        top[0] = spectral = max(operator.spectral(), float(top[0]))  # both come from below
        density = estimate_density(operator, seed=seed)
        edges = np.linspace(0.0, spectral, _BINS + 1)
        counts, errors = density.histogram(edges)
        count, quantiles = density.count, density.quantiles(LEVELS)
        rank = density.rank_of_energy(_ENERGY)
    return Spectrum(
        of=of,
        count=count,
        exact=exact,
        top=_floats(top),
        quantiles=dict(zip(map(str, LEVELS), _floats(quantiles), strict=True)),
        edges=_floats(edges),
        counts=_floats(counts),
        standard_error=None if errors is None else _floats(errors),
        operator_frobenius=frobenius,
        spectral=spectral,
        stable_rank=(frobenius / spectral) ** 2 if spectral > 0 else None,
        effective_rank_90=rank,
    )


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def stable_rank(matrix: NDArray[np.floating]) -> float:
    """‖M‖_F²/‖M‖₂² of [n, m] by its singular values: from 1 to the rank, 0 if M is zero."""
    values = np.linalg.svd(_checked(matrix), compute_uv=False)
    if values.size == 0 or values[0] == 0:
        return 0.0
    return float(((values / values[0]) ** 2).sum())  # in this order nothing overflows


def power_iteration_norm(
    matrix: NDArray[np.floating], iterations: int = 1000, seed: int = 0
) -> float:
    """‖M v‖ of the unit vector v that products with MᵀM make of a random one: ‖M‖₂ from below, as
    Shin 2021 has it (Appendix D).

    The share of direction i in v falls as (σ_i/σ₁)^(2·iterations) beside the first. Where singular
    values nearly equal the first, the answer lies between them.
    """
    numbers = _checked(matrix)
    scale = float(np.abs(numbers).max(initial=0.0))
    if scale == 0:
        return 0.0
    scaled = numbers / scale
    vector = np.random.default_rng(seed).standard_normal((numbers.shape[1],))
    for _ in range(iterations):
        vector /= np.linalg.norm(vector)
        vector = scaled.T @ (scaled @ vector)
    return scale * float(np.linalg.norm(scaled @ (vector / np.linalg.norm(vector))))


def _checked(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    numbers = np.asarray(matrix, dtype=np.float64)
    if numbers.ndim != 2:
        shape = f"an array of shape {numbers.shape}; reshape it to [out, rest]"
        raise BadInput(f"a stable rank needs a matrix, not {shape}")
    if not np.isfinite(numbers).all():
        raise BadInput("the matrix has entries infinite or not a number; check the training")
    return numbers

"""The spectrum of a layer: of its true map, of its kernel, of what training changed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cushion.measures.distribution import LEVELS, Spectrum
from cushion.nets.operators import Diagonal, Linear, Operator
from cushion.nets.operators.density import estimate_density
from cushion.nets.operators.spectrum import is_exact, singular_values, top_values

_BINS = 24  # wide enough to hold several nodes of the quadrature each
_TOP = 16
_ENERGY = 0.9


def layer_spectrum(operator: Operator, *, seed: int = 0) -> Spectrum:
    """The spectrum of the true map; `seed` chooses the probes where it has to be estimated."""
    return _spectrum("map", operator, seed)


def kernel_spectrum(operator: Operator, *, seed: int = 0) -> Spectrum:
    """The spectrum of the weight as a matrix with one row a filter, which is what plots of filters
    show.

    It is not the layer's: the norm of a convolution exceeds that of its reshaped kernel, for the
    most part. A diagonal map's weight stands for the diagonal matrix of one factor a channel.
    """
    if isinstance(operator, Diagonal):
        return _spectrum("kernel", Diagonal(operator.weight, (len(operator.weight),)), seed)
    return _spectrum("kernel", Linear(operator.weight.flatten(1)), seed)


def _spectrum(of: Literal["map", "kernel"], operator: Operator, seed: int) -> Spectrum:
    frobenius = operator.operator_frobenius()
    if is_exact(operator):
        return _exact(of, singular_values(operator), frobenius)
    if frobenius == 0.0:
        return _exact(of, np.zeros(min(operator.input_size, operator.output_size)), frobenius)
    top = top_values(operator, _TOP)
    spectral = max(operator.spectral(), float(top[0]))  # both come from below
    density = estimate_density(operator, seed=seed)
    edges = np.linspace(0.0, spectral, _BINS + 1)
    counts, errors = density.histogram(edges)
    return Spectrum(
        of=of,
        count=density.count,
        exact=False,
        top=(spectral, *_floats(top[1:])),
        quantiles=dict(zip(map(str, LEVELS), density.quantiles(LEVELS), strict=True)),
        edges=_floats(edges),
        counts=_floats(counts),
        standard_error=_floats(errors),
        operator_frobenius=frobenius,
        spectral=spectral,
        stable_rank=(frobenius / spectral) ** 2,
        effective_rank_90=density.rank_of_energy(_ENERGY),
    )


def _exact(of: Literal["map", "kernel"], values: NDArray[np.float64], frobenius: float) -> Spectrum:
    """The record of all singular values, given largest first."""
    count, spectral = len(values), float(values[0])
    edges = np.linspace(0.0, spectral or 1.0, _BINS + 1)
    energy = np.cumsum(values**2)
    return Spectrum(
        of=of,
        count=count,
        exact=True,
        top=_floats(values[:_TOP]),
        quantiles={str(q): float(values[count - max(1, int(np.ceil(q * count)))]) for q in LEVELS},
        edges=_floats(edges),
        counts=_floats(np.histogram(values, edges)[0]),
        standard_error=None,
        operator_frobenius=frobenius,
        spectral=spectral,
        stable_rank=(frobenius / spectral) ** 2 if spectral > 0 else None,
        effective_rank_90=int(np.searchsorted(energy, _ENERGY * energy[-1])) + 1
        if spectral > 0
        else 0,
    )


def _floats(values: NDArray[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

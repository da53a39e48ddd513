"""Norms of every affine layer: of its parameters, and of the true linear map that they define."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.operators import Operator


@dataclass(frozen=True)
class LayerNorms:
    """Field names and meanings as in `measure_records.LayerMeasures`."""

    frobenius: float
    operator_frobenius: float
    spectral: float
    spectral_upper: float
    stable_rank: float | None  # undefined for a layer of zeros


def layer_norms(operator: Operator) -> LayerNorms:
    """Norms of one layer. The reshaped kernel is never used in place of a convolution: it underestimates ‖A‖₂."""
    spectral = operator.spectral()
    frobenius = operator.operator_frobenius()
    return LayerNorms(
        frobenius=operator.frobenius(),
        operator_frobenius=frobenius,
        spectral=spectral,
        spectral_upper=operator.spectral_upper(),
        stable_rank=(frobenius / spectral) ** 2 if spectral > 0 else None,
    )

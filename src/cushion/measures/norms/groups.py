"""Group norms ℓ_{p,q} and trace norms of a layer's true map, and of what training changed in it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cushion.measures.norms.records import DistanceFromInitialisation, GroupNorms
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, Diagonal, Linear, Operator
from cushion.nets.operators.density import estimate_density
from cushion.nets.operators.spectrum import is_exact, singular_values


def group_norms(operator: Operator, *, trace_norms: bool = True, seed: int = 0) -> GroupNorms:
    """Norms of the true map, and in `kernel` those of the weight with one row a filter.

    Trace norms need singular values, far the dearest part; `seed` chooses the probes where they are
    estimated.
    """
    norms = _norms(operator, trace_norms, seed)
    if isinstance(operator, Linear):
        return dataclasses.replace(norms, kernel=norms)
    if isinstance(operator, Diagonal):
        kernel: Operator = Diagonal(operator.weight, (len(operator.weight),))
    else:
        kernel = Linear(operator.weight.flatten(1))
    return dataclasses.replace(norms, kernel=_norms(kernel, trace_norms, seed))


def distance_from_initialisation(layer: Affine, initial: Affine) -> DistanceFromInitialisation:
    """Norms of A - A₀ and b - b₀ of a layer and itself before training, in float64."""
    change = layer.operator.minus(initial.operator)
    return DistanceFromInitialisation(
        frobenius=change.frobenius(),
        operator_frobenius=change.operator_frobenius(),
        spectral=change.spectral(),
        l2_1=_over_units(row_norms(change, 2.0), 1.0),
        l1_inf=_over_units(row_norms(change, 1.0), math.inf),
        bias=_bias_distance(layer.bias, initial.bias),
    )


def row_norms(operator: Operator, p: float) -> Tensor:
    """The ℓ_p norm of the weights that enter each unit of the true map, [*output_shape], in
    float64.

    Σ|a|^p over a row is what the map with |w|^p gives for an input of ones, which knows the
    padding. On ones the input channels add up beforehand, whatever their group, so a convolution
    reads one channel only.
    """
    weight = operator.weight.detach().to(torch.float64).abs()
    largest = weight.max()
    if not largest > 0:
        return weight.new_zeros(operator.output_shape)
    powers = (weight / largest) ** p  # of numbers up to 1: cannot overflow
    if isinstance(operator, Conv2d):
        one = dataclasses.replace(
            operator,
            weight=powers.sum(1, keepdim=True),
            input_shape=(1, *operator.input_shape[1:]),
            groups=1,
        )
        sums = one.apply(powers.new_ones((1, *one.input_shape)))[0]
    else:
        sums = operator.with_weight(powers).apply(powers.new_ones((1, *operator.input_shape)))[0]
    return sums.clamp_min(0.0) ** (1 / p) * largest


def _norms(operator: Operator, trace_norms: bool, seed: int) -> GroupNorms:
    ones, twos, threes = (row_norms(operator, p) for p in (1.0, 2.0, 3.0))
    trace = _trace_norm(operator, seed) if trace_norms else _TraceNorm(None, None, None)
    return GroupNorms(
        l1_inf=_over_units(ones, math.inf),
        l2_inf=_over_units(twos, math.inf),
        l1_1=_over_units(ones, 1.0),
        l1_2=_over_units(ones, 2.0),
        l2_1=_over_units(twos, 1.0),
        l2_2=_over_units(twos, 2.0),
        l3_15=_over_units(threes, 1.5),
        trace_norm=trace.value,
        trace_norm_exact=trace.exact,
        trace_norm_standard_error=trace.standard_error,
        kernel=None,
    )


def _over_units(norms: Tensor, q: float) -> float:
    """The ℓ_q norm over units of the norms of their rows."""
    largest = float(norms.max())
    if q == math.inf or not 0 < largest < math.inf:
        return largest
    return largest * float(
        torch.linalg.vector_norm(norms / largest, q)
    )  # no square leaves the range of floats


@dataclass(frozen=True)
class _TraceNorm:
    """Field names and meanings as in `GroupNorms`, without their prefix."""

    value: float | None
    exact: bool | None
    standard_error: float | None


def _trace_norm(operator: Operator, seed: int) -> _TraceNorm:
    """Σσ: of all singular values, or as random probes see it, with the error of the probes and of
    the quadrature.

    A probe gives the means of σ and of σ² in its eyes. The true mean of σ² is known, so what a
    probe errs in it foretells what it errs in the mean of σ: a control variate.
    """
    if is_exact(operator):
        return _TraceNorm(float(singular_values(operator).sum()), True, None)
    frobenius = operator.operator_frobenius()
    if frobenius == 0.0:
        return _TraceNorm(0.0, True, None)
    density = estimate_density(operator, seed=seed)
    fine, coarse = (
        np.array([rule.weights @ rule.values for rule in rules])
        for rules in (density.rules, density.coarse)
    )
    surplus = (
        np.array([rule.weights @ rule.values**2 for rule in density.rules])
        - frobenius**2 / density.count
    )
    spread = surplus - surplus.mean()
    slope = spread @ fine / (spread @ spread) if spread.any() else 0.0
    corrected = fine - slope * surplus
    of_probes = corrected.std(ddof=2) / math.sqrt(len(corrected))
    of_quadrature = abs((fine - coarse).mean())
    return _TraceNorm(
        float(density.count * corrected.mean()),
        False,
        density.count * math.hypot(of_probes, of_quadrature),
    )


def _bias_distance(bias: Tensor | None, initial: Tensor | None) -> float:
    """‖b - b₀‖₂, where a layer without a bias has zeros."""
    values = [
        torch.zeros((), dtype=torch.float64) if b is None else b.detach().to(torch.float64)
        for b in (bias, initial)
    ]
    return float(torch.linalg.vector_norm(values[0] - values[1]))

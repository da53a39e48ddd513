"""Norms of every affine layer: of its parameters, of its true map, and of what training changed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cushion.measures.norms.records import DistanceFromInitialisation, GroupNorms, LayerNorms
from cushion.measures.spectra import kernel_map
from cushion.nets.hooked.net import HookedNet
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, Linear, Operator
from cushion.nets.operators.spectrum import estimate_density, is_exact, singular_values
from cushion.nets.weighted import WeightsNet

_BLOCK = 1 << 16  # numbers that are widened at a time: they stay in the cache
AnyNet: TypeAlias = Any  # a Network, a HookedNet or a WeightsNet


def layer_norms(
    layer: Affine, initial: Affine | None = None, *, trace_norms: bool = True, seed: int = 0
) -> LayerNorms:
    """Norms of one layer, and of what training changed in it. The reshaped kernel is never used in
    place of a convolution: it underestimates ‖A‖₂.
    """
    operator = layer.operator
    spectral, frobenius = operator.spectral(), operator.operator_frobenius()
    return LayerNorms(
        frobenius=operator.frobenius(),
        operator_frobenius=frobenius,
        spectral=spectral,
        spectral_upper=operator.spectral_upper(),
        stable_rank=(frobenius / spectral) ** 2 if spectral > 0 else None,
        group_norms=group_norms(operator, trace_norms=trace_norms, seed=seed),
        distance=None if initial is None else distance_from_initialisation(layer, initial),
    )


def squared_distance(net: AnyNet, other: AnyNet | None = None) -> float:
    """‖w - w₀‖² over all weights and biases, in float64; w₀ = 0 without another net. Of a net that
    is not traced: over every parameter of its module.
    """
    total = 0.0
    if isinstance(net, HookedNet | WeightsNet):
        starts = {} if other is None else dict(other.module.named_parameters())
        for name, value in net.module.named_parameters():
            if value.is_floating_point():
                total += _square(value, starts.get(name))
        return total
    for at, node in enumerate(net.affine_layers):
        ours, theirs = node.affine, None if other is None else other.affine_layers[at].affine
        start = None if theirs is None else theirs.operator.weight
        total += _square(ours.operator.weight, start)
        total += _square(ours.bias, None if theirs is None else theirs.bias)
    return total


def _square(value: Tensor | None, start: Tensor | None) -> float:
    """‖value - start‖² in float64; without a start nothing is copied but a little at a time."""
    if value is not None and start is None:
        parts = (part.double() for part in torch.split(value.detach().flatten(), _BLOCK))
        return math.fsum(float(part @ part) for part in parts)
    return float(_change(value, start).square().sum())


def _change(value: Tensor | None, start: Tensor | None) -> Tensor:
    """value - start in float64, where what is missing stands for zeros."""
    zero = torch.zeros((), dtype=torch.float64)
    one, two = (zero if t is None else t.detach().double() for t in (value, start))
    return one - two


def group_norms(operator: Operator, *, trace_norms: bool = True, seed: int = 0) -> GroupNorms:
    """Norms of the true map, and in `kernel` those of the weight with one row a filter.

    Trace norms need singular values, far the dearest part; `seed` chooses the probes where they are
    estimated.
    """
    norms = _norms(operator, trace_norms, seed)
    if isinstance(operator, Linear):
        return replace(norms, kernel=norms)
    return replace(norms, kernel=_norms(kernel_map(operator.weight), trace_norms, seed))


def distance_from_initialisation(layer: Affine, initial: Affine) -> DistanceFromInitialisation:
    """Norms of A - A₀ and b - b₀ of a layer and itself before training, in float64."""
    change = layer.operator.minus(initial.operator)
    return DistanceFromInitialisation(
        frobenius=change.frobenius(),
        operator_frobenius=change.operator_frobenius(),
        spectral=change.spectral(),
        l2_1=_over_units(row_norms(change, 2.0), 1.0),
        l1_inf=_over_units(row_norms(change, 1.0), math.inf),
        bias=float(torch.linalg.vector_norm(_change(layer.bias, initial.bias))),
    )


def row_norms(operator: Operator, p: float) -> Tensor:
    """The ℓ_p norm of the weights that enter each unit of the true map, [*output_shape] float64.

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
        sums, shape = powers.sum(1, keepdim=True), (1, *operator.input_shape[1:])
        operator = replace(operator, weight=sums, input_shape=shape, groups=1)
    else:
        operator = operator.with_weight(powers)
    sums = operator.apply(powers.new_ones((1, *operator.input_shape)))[0]
    return sums.clamp_min(0.0) ** (1 / p) * largest


def _norms(operator: Operator, trace_norms: bool, seed: int) -> GroupNorms:
    if isinstance(operator, Linear):
        ones, twos, threes = (operator.entry_sums.row_norms(p) for p in (1, 2, 3))
    else:
        ones, twos, threes = (row_norms(operator, p) for p in (1.0, 2.0, 3.0))
    trace = _trace_norm(operator, seed) if trace_norms else (None, None, None)
    return GroupNorms(
        l1_inf=_over_units(ones, math.inf),
        l2_inf=_over_units(twos, math.inf),
        l1_1=_over_units(ones, 1.0),
        l1_2=_over_units(ones, 2.0),
        l2_1=_over_units(twos, 1.0),
        l2_2=_over_units(twos, 2.0),
        l3_15=_over_units(threes, 1.5),
        trace_norm=trace[0],
        trace_norm_exact=trace[1],
        trace_norm_standard_error=trace[2],
        kernel=None,
    )


def _over_units(norms: Tensor, q: float) -> float:
    """The ℓ_q norm over units of the norms of their rows; no square leaves the range of floats."""
    largest = float(norms.max())
    if q == math.inf or not 0 < largest < math.inf:
        return largest
    return largest * float(torch.linalg.vector_norm(norms / largest, q))


def _trace_norm(operator: Operator, seed: int) -> tuple[float, bool, float | None]:
    """Σσ: of all singular values, or as random probes see it; whether it is exact; and the error of
    the probes and of the quadrature.

    A probe gives the means of σ and of σ² in its eyes. The true mean of σ² is known, so what a
    probe errs in it foretells what it errs in the mean of σ: a control variate.
    """
    if is_exact(operator):
        return float(singular_values(operator).sum()), True, None
    frobenius = operator.operator_frobenius()
    if frobenius == 0.0:
        return 0.0, True, None
    density = estimate_density(operator, seed=seed)
    fine = np.array([rule.weights @ rule.values for rule in density.rules])
    coarse = np.array([rule.weights @ rule.values for rule in density.coarse])
    squares = np.array([rule.weights @ rule.values**2 for rule in density.rules])
    surplus = squares - frobenius**2 / density.count
    spread = surplus - surplus.mean()
    slope = spread @ fine / (spread @ spread) if spread.any() else 0.0
    corrected = fine - slope * surplus
    of_probes = corrected.std(ddof=2) / math.sqrt(len(corrected))
    of_quadrature = abs((fine - coarse).mean())
    error = density.count * math.hypot(of_probes, of_quadrature)
    return float(density.count * corrected.mean()), False, error

"""Divergences of Gaussians against numerical quadrature, and sums of them against torch's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from tests.cases import CASES
from torch.distributions import Normal, kl_divergence

from cushion.data import Dataset
from cushion.measures.sharpness.expected import kl_from_centred
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.sharpness.measurement import measure_sharpness
from cushion.measures.sharpness.records import ExpectedSharpness, SharpnessPoint
from cushion.nets.tracing import trace

NUMBERS = [
    (0.7, 0.3),
    (-2.0, 1.5),
    (0.0, 0.2),
    (0.05, 1.0),
]  # mean and standard deviation of the posterior


def by_quadrature(mean: float, std: float, prior_mean: float, prior_std: float) -> float:
    """∫ q ln(q/p), on the part of the line where q is not negligible."""

    q, p = norm(mean, std), norm(prior_mean, prior_std)

    def integrand(x: float) -> float:
        return float(q.pdf(x) * (q.logpdf(x) - p.logpdf(x)))

    return float(quad(integrand, mean - 12 * std, mean + 12 * std, epsabs=1e-11, limit=100)[0])


def kl_from_unit_gaussian(weights: Iterable[torch.Tensor], std: float) -> float:
    """KL(N(w, σ² I) ‖ N(0, I)) = ½ [‖w‖² + D(σ² - 1 - ln σ²)]: what eq. 6 needs where its prior has
    unit variance.
    """
    weights = list(weights)
    squares = math.fsum(float(weight.detach().double().square().sum()) for weight in weights)
    count = sum(weight.numel() for weight in weights)
    return (squares + count * (std**2 - 1 - math.log(std**2))) / 2


def kl_from_isotropic(
    weights: Sequence[torch.Tensor],
    stds: Sequence[torch.Tensor],
    prior_std: float,
    centre: Sequence[torch.Tensor] | None = None,
) -> float:
    """KL(N(w, diag σ²) ‖ N(w₀, s² I)) = ½ Σ [(σ_i² + (w_i - w₀_i)²)/s² - 1 - ln(σ_i²/s²)].

    `centre` is w₀, such as the weights at initialisation (None: 0); `prior_std` is s.
    """
    total = 0.0
    for at, (weight, std) in enumerate(zip(weights, stds, strict=True)):
        shift = weight.detach().double()
        if centre is not None:
            shift = shift - centre[at].detach().double()
        variance = (std.detach().double() / prior_std).square()
        total += float((variance + (shift / prior_std).square() - 1 - variance.log()).sum())
    return total / 2


@pytest.mark.parametrize(("mean", "std"), NUMBERS)
def test_one_parameter_by_quadrature(mean: float, std: float) -> None:
    w, s = [torch.tensor([mean], dtype=torch.float64)], [torch.tensor([std], dtype=torch.float64)]
    assert kl_from_centred(w, s) == pytest.approx(by_quadrature(mean, std, 0, std), abs=1e-9)
    assert kl_from_unit_gaussian(w, std) == pytest.approx(by_quadrature(mean, std, 0, 1), abs=1e-9)
    for prior_mean, prior_std in ((0.0, 0.5), (0.4, 2.0)):
        centre = [torch.tensor([prior_mean], dtype=torch.float64)]
        expected = by_quadrature(mean, std, prior_mean, prior_std)
        assert kl_from_isotropic(w, s, prior_std, centre) == pytest.approx(expected, abs=1e-9)


def test_many_parameters_are_a_sum() -> None:
    generator = torch.Generator().manual_seed(0)
    w = [torch.randn(size, generator=generator, dtype=torch.float64) for size in ((3, 4), (5,))]
    s = [torch.rand(part.shape, generator=generator, dtype=torch.float64) + 0.1 for part in w]
    start = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in w]

    def total(priors: list[Normal], stds: list[torch.Tensor]) -> float:
        return sum(
            float(kl_divergence(Normal(a, b), prior).sum())
            for a, b, prior in zip(w, stds, priors, strict=True)
        )

    assert kl_from_centred(w, s) == pytest.approx(
        total([Normal(torch.zeros_like(b), b) for b in s], s)
    )
    fixed = [torch.full_like(part, 0.3) for part in w]
    unit = [Normal(torch.zeros_like(part), torch.ones_like(part)) for part in w]
    assert kl_from_unit_gaussian(w, 0.3) == pytest.approx(total(unit, fixed))
    assert kl_from_isotropic(w, fixed, 1.0) == pytest.approx(kl_from_unit_gaussian(w, 0.3))
    shifted = [Normal(part, torch.full_like(part, 0.7)) for part in start]
    assert kl_from_isotropic(w, s, 0.7, start) == pytest.approx(total(shifted, s))
    assert kl_from_isotropic(w, fixed, 0.3, w) == pytest.approx(0, abs=1e-12)


def test_the_published_shortcut_needs_the_prior_of_the_same_variance() -> None:
    """Eq. 6 has ‖w‖²/(2σ²) with a unit-variance prior: it is the divergence from N(0, σ²I)
    instead.
    """
    w, std = [torch.tensor([0.5, -1.0], dtype=torch.float64)], 0.1
    same = [torch.full((2,), std, dtype=torch.float64)]
    assert kl_from_centred(w, same) == pytest.approx(1.25 / (2 * std**2))
    assert kl_from_isotropic(w, same, std) == pytest.approx(kl_from_centred(w, same))
    assert kl_from_unit_gaussian(w, std) < 0.1 * kl_from_centred(w, same)


def test_parameters_without_noise() -> None:
    zero, one = torch.zeros(2), torch.ones(2)
    assert kl_from_centred([zero], [zero]) == 0
    assert kl_from_centred([one], [zero]) == math.inf


def test_the_curve_has_the_divergence_of_every_parameter() -> None:
    """Appendix A's sum by a plain loop over weights and biases; the corrected one is half of it."""
    case = next(case for case in CASES if case.name == "conv-batchnorm")
    net = trace(case.module(), case.input_shape)
    data = Dataset("noise", case.inputs(6).numpy(), np.arange(6) % 3, 3)
    numbers = [
        float(w)
        for node in net.affine_layers
        for part in (node.affine.operator.weight, node.affine.bias)
        if part is not None
        for w in part.flatten()
    ]
    assert len(numbers) == net.parameters
    options = SharpnessOptions(alphas=(0.01, 0.1), draws=2, ascent_steps=0)
    found = measure_sharpness(net, data, options).expected
    assert found is not None
    for point in found.points:
        printed = sum((w / (10 * abs(w) + 1)) ** 2 for w in numbers) / point.alpha**2
        assert point.kl_as_printed == pytest.approx(printed, rel=1e-6)
        assert point.kl == pytest.approx(printed / 2, rel=1e-6)
    isotropic = SharpnessOptions(alphas=(0.1,), draws=2, ascent_steps=0, scale=0, offset=0.5)
    found = measure_sharpness(net, data, isotropic).expected
    assert found is not None
    assert found.points[0].kl == pytest.approx(sum(w**2 for w in numbers) / (2 * 0.05**2), rel=1e-6)


def test_the_kl_at_a_given_rise_of_the_error() -> None:
    """Between two points of the curve by straight lines in ln KL; none where the curve does not
    cross the height.
    """

    def curve(*points: tuple[float, float]) -> ExpectedSharpness:
        made = tuple(
            SharpnessPoint(1.0, kl, 2 * kl, 0.0, rise, 0.0, None, rise, None, 1, 1)
            for kl, rise in points
        )
        return ExpectedSharpness(10.0, 1.0, 0.0, 0.0, False, made)

    falling = curve((1e6, 0.0), (1e4, 0.02), (1e2, 0.1))
    assert falling.kl_at(0.1) is None
    assert falling.kl_at(0.02) == pytest.approx(1e4)
    assert falling.kl_at(0.06) == pytest.approx(1e3)  # half-way in ln KL
    assert falling.kl_at(0.01) == pytest.approx(1e5)
    assert curve((1e6, 0.0), (1e4, 0.01)).kl_at(0.05) is None
    assert curve((1e6, 0.2), (1e4, 0.3)).kl_at(0.05) is None
    assert curve((math.inf, 0.0), (1e4, 0.3)).kl_at(0.05) is None

"""Grid steps balanced between layers and channels: the same net, and no better exchange of bits for
loss.
"""

from __future__ import annotations

import math

import pytest
import torch

from cushion.certificates.format.layers import Pool
from cushion.certificates.format.limits import Stage
from cushion.certificates.search.integer.balance import balanced
from cushion.certificates.search.integer.blueprints import (
    ConvBlock,
    DenseBlock,
    lay_out,
)


def case(seed: int) -> tuple[list[Stage], list[torch.Tensor], list[torch.Tensor]]:
    blueprint = (
        ConvBlock(3, 3, padding=1, symmetry=2),
        ConvBlock(0, 3, padding=1, depthwise=True, symmetry=2),
        ConvBlock(4, 1, symmetry=2),
        Pool("max", 4),
        DenseBlock(),
    )
    stages = lay_out(blueprint, (2, 8, 8), 5)
    generator = torch.Generator().manual_seed(seed)
    shapes = [s.layer.source.shape for s in stages if not isinstance(s.layer, Pool)]
    weights = [
        torch.randn(s, generator=generator) * (torch.rand(s, generator=generator) < 0.6)
        for s in shapes
    ]
    needs = [torch.exp(2.0 * torch.randn(s, generator=generator)) for s in shapes]
    return stages, weights, needs


def exchange(
    weights: list[torch.Tensor], needs: list[torch.Tensor], stretches: list[torch.Tensor]
) -> float:
    """Naive: mean rounding loss over the squared geometric mean of the stretches."""
    loss, log, count = 0.0, 0.0, 0
    for weight, need, stretch in zip(weights, needs, stretches, strict=True):
        mean = float(need[weight != 0].double().mean())
        for w, n, s in zip(*(t.reshape(-1).tolist() for t in (weight, need, stretch)), strict=True):
            if w != 0:
                loss += (n + 0.05 * mean) / s**2
                log += math.log(s)
                count += 1
    return loss * math.exp(2.0 * log / count)


@pytest.mark.parametrize("seed", range(3))
def test_no_unit_can_be_changed_for_the_better(seed: int) -> None:
    stages, weights, needs = case(seed)
    stretches, _ = balanced(stages, weights, needs, 2.5)
    each = [stretch.each for stretch in stretches]
    best = exchange(weights, needs, each)
    assert best < 0.95 * exchange(weights, needs, [torch.full_like(w, 1.0) for w in weights])
    for layer, weight in enumerate(weights):
        for factor in (0.85, 1.15):
            tried = [e * (factor if i == layer else 1.0) for i, e in enumerate(each)]
            assert exchange(weights, needs, tried) > 0.9999 * best
            if layer == len(weights) - 1:
                continue
            for channel in range(len(weight)):
                tried = [e.clone() for e in each]
                tried[layer][channel] *= factor
                if getattr(stages[layer + 1].layer, "groups", 1) == 0:
                    tried[layer + 1][channel] /= factor
                elif layer == 2:  # pooled to 4 channels in 2 positions of 2x2 pixels, flattened
                    tried[3][:, 8 * channel : 8 * (channel + 1)] /= factor
                else:
                    tried[layer + 1][:, channel] /= factor
                assert exchange(weights, needs, tried) > 0.9999 * best


def test_all_kept_weights_together_have_the_spread() -> None:
    stages, weights, needs = case(7)
    stretches, need = balanced(stages, weights, needs, 2.5)
    sizes = torch.cat([(w * s.each)[w != 0] for w, s in zip(weights, stretches, strict=True)])
    assert float(sizes.square().mean().sqrt()) == pytest.approx(2.5, rel=1e-5)
    assert need > 0.0
    finer, less = balanced(stages, weights, needs, 5.0)
    assert torch.allclose(finer[1].each, 2.0 * stretches[1].each, rtol=1e-4)
    assert less == pytest.approx(need / 4.0, rel=1e-4)


def test_a_layer_that_is_pruned_away_does_no_harm() -> None:
    stages, weights, needs = case(1)
    weights[1] = torch.zeros_like(weights[1])
    stretches, need = balanced(stages, weights, needs, 2.0)
    assert all(bool(stretch.each.isfinite().all()) for stretch in stretches)
    assert math.isfinite(need)

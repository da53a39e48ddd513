"""Masks: Algorithm 1 of Guha 2023 against a loop over its coins, the other rules against plain
sorting.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.compressed_cases import NAMED, network

import cushion
from cushion.compressors.pruning import masks as pruning
from cushion.compressors.pruning.masks import (
    apply_masks,
    bernoulli_mask,
    diagonal_mask,
    layer_variance,
    masks_for,
)
from cushion.compressors.storage.stored_net import places
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.nets.operators import Diagonal

SHAPES = [(5, 5), (7, 3), (3, 8), (1, 6), (6, 1), (4, 2, 3, 3), (2, 3, 1, 5), (1, 1)]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def off_diagonal(weight: torch.Tensor) -> list[float]:
    """Entry by entry."""
    matrix = weight.double().flatten(1)
    return [
        float(matrix[i, j])
        for i in range(matrix.shape[0])
        for j in range(matrix.shape[1])
        if i != j
    ]


def naive_algorithm_1(
    weight: torch.Tensor, psi: float, d: float, seed: int, place: int
) -> torch.Tensor:
    """Guha 2023, Algorithm 1, as it is written: X ~ Bernoulli(exp(-A²/(dΨ))), off the diagonal; 0
    where X = 1.
    """
    matrix = weight.double().flatten(1)
    stays = torch.ones(matrix.shape, dtype=torch.bool)
    at = 0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            (word,) = stream(f"prune {place}", seed, 1, at)
            coin = (int(word) >> 11) / 2**53
            at += 1
            if i != j:
                goes = coin < math.exp(-(float(matrix[i, j]) ** 2) / (d * psi))
                stays[i, j] = not goes
    return stays.reshape(weight.shape)


def weights(net: Network) -> list[torch.Tensor]:
    return [node.affine.operator.weight for node in net.affine_layers]


def with_weights(net: Network, changed: list[torch.Tensor]) -> Network:
    return net.with_affine(
        {
            node.index: replace(node.affine, operator=node.affine.operator.with_weight(weight))
            for node, weight in zip(net.affine_layers, changed, strict=True)
        }
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_diagonal_is_that_of_the_matrix_of_filters(shape: tuple[int, ...]) -> None:
    mask = diagonal_mask(shape)
    assert mask.shape == shape
    matrix = mask.reshape(shape[0], -1)
    assert [tuple(at) for at in matrix.nonzero().tolist()] == [
        (i, i) for i in range(min(matrix.shape))
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_the_variance_is_the_mean_square_off_the_diagonal(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    weight = (normal(*shape) + 0.5).to(dtype)  # not centred: the mean is part of Ψ
    weight[diagonal_mask(shape)] = 1000.0
    entries = off_diagonal(weight)
    expected = math.fsum(w * w for w in entries) / len(entries) if entries else 0.0
    assert layer_variance(weight) == pytest.approx(expected, rel=1e-13)


def test_the_variance_is_the_same_in_blocks_and_refuses_what_float64_cannot_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight = normal(37, 41)
    whole = layer_variance(weight)
    for block in (1, 50, 41 * 36):
        monkeypatch.setattr(pruning, "_BLOCK", block)
        assert layer_variance(weight) == whole
    for scale in (1e200, 1e-200):
        with pytest.raises(BadInput, match="range of float64"):
            layer_variance(weight.double() * scale)
    assert layer_variance(weight.double() * 1e150) == pytest.approx(whole * 1e300)
    assert layer_variance(torch.diag(torch.full((4,), 1e200, dtype=torch.float64))) == 0.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", [0.05, 1.0, 30.0])
def test_masks_are_those_of_a_loop_over_the_coins(shape: tuple[int, ...], d: float) -> None:
    weight = normal(*shape, seed=3)
    psi = layer_variance(weight) or 1.0
    for seed, place in ((0, 1), (5, 1), (0, 2)):
        assert torch.equal(
            bernoulli_mask(weight, psi, d, seed, place),
            naive_algorithm_1(weight, psi, d, seed, place),
        )


def test_masks_depend_on_seed_and_place_and_not_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = normal(60, 70)
    mask = bernoulli_mask(weight, 1.0, 1.0, 0, 1)
    for block in (1 << 20, 999, 64):
        monkeypatch.setattr(pruning, "_BLOCK", block)
        assert torch.equal(bernoulli_mask(weight, 1.0, 1.0, 0, 1), mask)
    for seed, place in ((1, 1), (0, 2)):
        other = bernoulli_mask(weight, 1.0, 1.0, seed, place)
        # Two independent coins of probability p differ with 2p(1-p), at most a half; equal masks
        # would be no chance.
        assert 0.05 < (other != mask).float().mean() < 0.5


def test_zeros_go_large_weights_stay_and_without_variance_only_the_diagonal_does() -> None:
    weight = normal(20, 30)
    weight[3, 4], weight[5, 6], weight[7, 7] = 0.0, 1e4, 0.0
    mask = bernoulli_mask(weight, 1.0, 1.0, 0, 1)
    assert [bool(mask[at]) for at in ((3, 4), (5, 6), (7, 7))] == [False, True, True]
    assert torch.equal(bernoulli_mask(weight, 0.0, 1.0, 0, 1), diagonal_mask((20, 30)))
    assert bernoulli_mask(weight.double() + 9.0, 1e-320, 1.0, 0, 1).all()  # no overflow, no warning
    for d, psi in ((0.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (1.0, -1.0), (1.0, math.inf)):
        with pytest.raises(BadInput, match="Algorithm 1 needs"):
            bernoulli_mask(weight, psi, d, 0, 1)


@pytest.mark.parametrize("name", ["mlp", "conv-groups", "vgg-tiny", "dense", "batchnorm-first"])
def test_a_net_is_pruned_layer_by_layer_at_its_places(name: str) -> None:
    net = network(name)
    masks = masks_for(net, "bernoulli", d=1.0, sparsity=None, seed=4)
    assert len(masks) == len(net.affine_layers)
    for node, mask, place in zip(net.affine_layers, masks, places(net), strict=True):
        weight = node.affine.operator.weight
        if isinstance(node.affine.operator, Diagonal):
            assert mask.shape == weight.shape
            assert mask.all()
        else:
            assert torch.equal(
                mask, naive_algorithm_1(weight, layer_variance(weight), 1.0, 4, place)
            )


def naive_smallest(values: list[float], sparsity: float) -> list[bool]:
    """Python's sort is stable: of equal magnitudes the first comes first, and goes first."""
    gone = set(
        sorted(range(len(values)), key=lambda at: abs(values[at]))[: round(sparsity * len(values))]
    )
    return [at not in gone for at in range(len(values))]


@pytest.mark.parametrize("name", ["mlp", "conv-groups", "vgg-tiny", "dense", "batchnorm-first"])
@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_the_smallest_go_first_and_exactly_so_many(name: str, sparsity: float) -> None:
    whole = network(name)
    for net in (
        whole,
        with_weights(whole, [(5 * weight).round() / 5 for weight in weights(whole)]),
    ):  # with ties
        free = [
            at
            for at, node in enumerate(net.affine_layers)
            if not isinstance(node.affine.operator, Diagonal)
        ]
        flat = [weights(net)[at].flatten().tolist() for at in free]
        every = naive_smallest([value for layer in flat for value in layer], sparsity)
        in_net = masks_for(net, "global", d=None, sparsity=sparsity, seed=0)
        in_layer = masks_for(net, "layer", d=None, sparsity=sparsity, seed=0)
        assert [value for at in free for value in in_net[at].flatten().tolist()] == every
        for at, layer in zip(free, flat, strict=True):
            assert in_layer[at].flatten().tolist() == naive_smallest(layer, sparsity)
        for at in set(range(len(net.affine_layers))) - set(free):
            assert in_net[at].all()
            assert in_layer[at].all()
        assert [mask.shape for mask in in_net] == [weight.shape for weight in weights(net)]


@pytest.mark.parametrize("pattern", [(1, 1), (2, 4), (1, 2), (3, 5), (1, 4), (7, 8), (2, 999)])
def test_n_of_m_stay_along_each_row(pattern: tuple[int, int]) -> None:
    kept, of = pattern
    net = network("vgg-tiny")
    net = with_weights(net, [(4 * weight).round() / 4 for weight in weights(net)])
    for weight, mask in zip(
        weights(net), masks_for(net, f"{kept}:{of}", d=None, sparsity=None, seed=0), strict=True
    ):
        for row, stays in zip(weight.flatten(1).tolist(), mask.flatten(1).tolist(), strict=True):
            for first in range(0, len(row), of):
                group, here = row[first : first + of], stays[first : first + of]
                order = sorted(range(len(group)), key=lambda at: abs(group[at]))
                gone = order[: max(0, len(group) - kept)]
                assert here == [at not in gone for at in range(len(group))]


def test_what_is_zero_already_goes() -> None:
    net = network("vgg-tiny")
    net = with_weights(net, [weight * (weight > 0) for weight in weights(net)])
    masks = masks_for(net, "zeros", d=None, sparsity=None, seed=0)
    assert all(
        torch.equal(mask, weight != 0) for mask, weight in zip(masks, weights(net), strict=True)
    )
    assert all(
        torch.equal(a, b)
        for a, b in zip(weights(apply_masks(net, masks)), weights(net), strict=True)
    )


def test_masked_weights_are_zero_and_the_rest_is_untouched() -> None:
    net = network("vgg-tiny")
    before = [weight.clone() for weight in weights(net)]
    masks = masks_for(net, "global", d=None, sparsity=0.6, seed=0)
    pruned = apply_masks(net, masks)
    for old, new, mask in zip(net.affine_layers, pruned.affine_layers, masks, strict=True):
        assert torch.equal(new.affine.operator.weight, old.affine.operator.weight * mask)
        assert not torch.signbit(new.affine.operator.weight[~mask]).any()  # no -0
        assert new.affine.bias is old.affine.bias
    assert all(torch.equal(a, b) for a, b in zip(weights(net), before, strict=True))
    assert torch.isfinite(pruned.forward(NAMED["vgg-tiny"].inputs())).all()
    for wrong in (masks[:-1], [mask.flatten() for mask in masks]):
        with pytest.raises(BadInput, match="masks do not fit"):
            apply_masks(net, wrong)


@pytest.mark.parametrize(
    ("rule", "d", "sparsity", "complaint"),
    [
        ("bernoulli", None, None, "needs `d`"),
        ("global", None, None, "needs `sparsity`"),
        ("layer", 1.0, 0.5, "`d`"),
        ("bernoulli", 1.0, 0.5, "`sparsity`"),
        ("bernoulli", 0.0, None, "`d`"),
        ("global", None, 1.0, "`sparsity`"),
        ("3:2", None, None, "`rule` = 3:2"),
        ("smallest", None, None, "`rule` = smallest"),
    ],
)
def test_what_makes_no_sense_is_refused(
    rule: str, d: float | None, sparsity: float | None, complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        masks_for(network("mlp"), rule, d=d, sparsity=sparsity, seed=0)


def test_a_layer_beyond_float64_is_named() -> None:
    net = network("mlp").double()
    huge = with_weights(net, [weights(net)[0], weights(net)[1] * 1e200])
    with pytest.raises(BadInput, match=rf"^layer {net.affine_layers[1].name}: the mean square"):
        masks_for(huge, "bernoulli", d=1.0, sparsity=None, seed=0)


def test_a_deterministic_rule_needs_no_seed_and_algorithm_1_obeys_it() -> None:
    net = network("mlp-deep")
    runs = [masks_for(net, "global", d=None, sparsity=0.5, seed=seed) for seed in (0, 1)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    coins = [masks_for(net, "bernoulli", d=1.0, sparsity=None, seed=seed) for seed in (0, 0, 1)]
    assert all(torch.equal(a, b) for a, b in zip(coins[0], coins[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(coins[0], coins[2], strict=True))
    kept = np.mean([bool(value) for mask in coins[0] for value in mask.flatten()])
    assert 0.2 < kept < 0.8


@pytest.mark.parametrize("rule", ["global", "layer", "2:4"])
def test_weights_are_ranked_as_the_module_has_them_without_its_batch_norm(rule: str) -> None:
    """The masks of a net with batch-norms are those of the same net whose batch-norms do nothing;
    one ranked with the factors folded in would lose other weights.
    """
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 6, 3), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(96, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3),
    ).eval()  # fmt: skip
    plain = cushion.trace(net, (2, 6, 6))
    for norm in (net[1], net[5]):
        norm.weight.data = torch.randn(norm.num_features) * 3
        norm.running_var.data = torch.rand(norm.num_features) + 0.1
    scaled = cushion.trace(net, (2, 6, 6))
    sparsity = None if ":" in rule else 0.6
    asked = {"d": None, "sparsity": sparsity, "seed": 0}
    found = masks_for(scaled, rule, **asked)  # type: ignore[arg-type]
    for mask, other in zip(found, masks_for(plain, rule, **asked), strict=True):  # type: ignore[arg-type]
        assert torch.equal(mask, other)
    folded = scaled.with_affine(
        {n.index: replace(n.affine, factors=None) for n in scaled.affine_layers}
    )
    others = masks_for(folded, rule, **asked)  # type: ignore[arg-type]
    same = all(torch.equal(a, b) for a, b in zip(found, others, strict=True))
    assert same == (rule == "2:4")  # within a row a factor changes no order

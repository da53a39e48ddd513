"""Which weights stay and what stands for the others: the three forms of Shin 2021 beside loops over
single weights.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.compressed_cases import NAMED, network
from torch import Tensor

from cushion.compressors.noise.candidates import (
    choose_layers,
    replace_layer,
    spread,
    standard_deviations,
    store_replaced,
    threshold_within,
)
from cushion.compressors.noise.method import FORMS, Form
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.pruning.masks import masks_for
from cushion.compressors.storage.pruned import Grid, store_pruned
from cushion.errors import BadInput


def heavy(*shape: int, seed: int = 0) -> Tensor:
    """Student-t weights with a mean of their own, and some ties."""
    values = np.random.default_rng(seed).standard_t(3, size=shape) * 0.1 + 0.03
    return torch.from_numpy(np.round(values, 2)).float()


def by_hand(weight: Tensor, form: Form, tau: float, t: float) -> dict[str, object]:
    """One weight at a time."""
    flat = [float(value) for value in weight.double().reshape(-1)]
    mean = math.fsum(flat) / len(flat)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in flat) / len(flat))
    threshold = deviation if form == "appendix" else tau
    stays = [(abs(value) if form == "corrected" else value) > threshold for value in flat]
    gone = [value for value, kept in zip(flat, stays, strict=True) if not kept]
    square = math.fsum(value * value for value in gone) / len(gone) if gone else 0.0
    return {
        "stays": stays,
        "tau": threshold,
        "t": deviation**2 if form == "appendix" else t * square,
        "mean": mean if form == "appendix" else 0.0,
        "removed_mean": math.fsum(gone) / len(gone) if gone else 0.0,
        "removed_largest": max(map(abs, gone), default=0.0),
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(40, 30), (1, 70), (6, 4, 3, 3)])
@pytest.mark.parametrize(("tau", "t"), [(0.05, 0.0), (0.2, 1.0), (0.4, 2.5)])
def test_every_weight_as_the_form_says(
    form: Form, shape: tuple[int, ...], tau: float, t: float
) -> None:
    weight = heavy(*shape)
    found, wanted = replace_layer(weight, form, tau, t), by_hand(weight, form, tau, t)
    assert found.mask.shape == weight.shape
    assert found.mask.reshape(-1).tolist() == wanted["stays"]
    assert found.kept == sum(wanted["stays"])  # type: ignore[arg-type]
    assert 0 < found.kept < weight.numel()
    for name in ("tau", "t", "mean", "removed_mean", "removed_largest"):
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-12, abs=1e-15), name
    assert found.everywhere == (form != "appendix")
    assert found.is_random == (t > 0 or form == "appendix")


def test_a_weight_at_the_threshold_goes() -> None:
    weight = torch.tensor([[0.5, -0.5, 0.75, -0.75, 0.25]])
    assert replace_layer(weight, "corrected", 0.5, 0.0).mask.tolist() == [
        [False, False, True, True, False]
    ]
    assert replace_layer(weight, "algorithm", 0.5, 0.0).mask.tolist() == [
        [False, False, True, False, False]
    ]


def test_large_negative_weights_survive_in_the_corrected_form_only() -> None:
    """Errata a and b: signed thresholds replace weights of any size, and the mean of what goes is
    far from 0.
    """
    weight = heavy(60, 50) - 0.03  # about symmetric
    _, deviation = spread(weight)
    large = weight < -3 * deviation
    assert int(large.sum()) > 10
    kept = {form: replace_layer(weight, form, deviation, 1.0) for form in FORMS}
    assert kept["corrected"].mask[large].all()
    assert not kept["algorithm"].mask[large].any()
    assert not kept["appendix"].mask[large].any()
    assert kept["corrected"].removed_largest <= deviation
    for form in ("algorithm", "appendix"):
        assert kept[form].removed_largest > 3 * deviation
        gap = kept[form].removed_mean - kept[form].mean
        assert gap < -0.1 * deviation  # what replaces it has the mean 0, or the layer's
    assert abs(kept["corrected"].removed_mean) < 0.02 * deviation


def test_nothing_to_replace_needs_no_noise() -> None:
    weight = torch.tensor([[1.0, -2.0, 3.0]])
    found = replace_layer(weight, "corrected", 0.5, 1.0)
    assert (found.kept, found.t, found.is_random, found.removed_largest) == (3, 0.0, False, 0.0)
    all_gone = replace_layer(weight, "corrected", 5.0, 1.0)
    assert (all_gone.kept, all_gone.t) == (0, pytest.approx(14 / 3))


@pytest.mark.parametrize("form", ["corrected", "algorithm"])
@pytest.mark.parametrize("t", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("budget", [1e-9, 0.01, 0.04, 0.3, 1e9])
def test_the_largest_threshold_within_a_budget(form: Form, t: float, budget: float) -> None:
    weight = heavy(12, 11, seed=3)
    found = threshold_within(weight, form, budget, t)
    sizes = sorted(
        {abs(v) if form == "corrected" else v for v in weight.double().reshape(-1).tolist()}
    )
    fitting = [
        size
        for size in sizes
        if size > 0 and size**2 + replace_layer(weight, form, size, t).t <= budget * (1 + 1e-12)
    ]
    assert found == (max(fitting) if fitting else 0.0)
    if fitting and t == 0.0:
        assert found <= math.sqrt(budget)


def test_layers_by_name() -> None:
    net = network("vgg-tiny")
    names = [node.name for node in net.affine_layers]
    assert choose_layers(net, ("all",)) == (True,) * 5
    assert choose_layers(net, ("last",)) == (False,) * 4 + (True,)
    assert choose_layers(net, (names[3], names[0])) == (True, False, False, True, False)
    with pytest.raises(
        BadInput,
        match=f"`layers` = nope: the net has no such layer to replace; it has {names[0]}, ",
    ):
        choose_layers(net, (names[0], "nope"))
    branched = network(
        "batchnorm-first"
    )  # a batch-norm that could not be folded is no layer to replace
    assert choose_layers(branched, ("all",)) == (False, True, False, True)
    with pytest.raises(BadInput, match=f"`layers` = {branched.affine_layers[0].name}: "):
        choose_layers(branched, (branched.affine_layers[0].name,))
    with pytest.raises(BadInput, match="final dense layer, and the net has none"):
        choose_layers(network("dense"), ("last",))


def test_a_constant_layer_is_named() -> None:
    net = network("mlp")
    node = net.affine_layers[1]
    flat = replace(node.affine, operator=node.affine.operator.with_weight(torch.full((4, 9), 0.1)))
    constant = net.with_affine({node.index: flat})
    with pytest.raises(BadInput, match=f"^layer {node.name}: all its 36 weights are equal"):
        standard_deviations(constant, (True, True))
    found = standard_deviations(constant, (True, False))
    assert found == (spread(net.affine_layers[0].affine.operator.weight)[1], None)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_weights_beyond_float64_are_refused(scale: float) -> None:
    with pytest.raises(BadInput, match="leaves the range of float64"):
        spread(torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64) * scale)
    mean, deviation = spread(torch.tensor([[1.0, 3.0]]))
    assert (mean, deviation) == (2.0, 1.0)


@pytest.mark.parametrize("name", ["mlp", "vgg-tiny", "batchnorm-first", "residual"])
def test_without_noise_it_is_pruning_to_the_last_bit(name: str) -> None:
    """Erratum d: t = 0 is magnitude pruning. The same mask by the rule "layer" of Guha 2023 gives
    the same message.
    """
    net = network(name)
    chosen = choose_layers(net, ("all",))
    deviations = standard_deviations(net, chosen)
    replaced = [
        None if one is None else replace_layer(node.affine.operator.weight, "corrected", one, 0.0)
        for node, one in zip(net.affine_layers, deviations, strict=True)
    ]
    masks = masks_for(
        net, "bernoulli", d=1e6, sparsity=None, seed=0
    )  # the right shapes, and True for batch-norms
    masks = tuple(
        mask if one is None else one.mask for mask, one in zip(masks, replaced, strict=True)
    )
    for faithful in (False, True):
        pruned = store_pruned(net, masks, Grid(6), 5, faithful=faithful)
        assert (
            store_replaced(net, replaced, 6, 5, faithful=faithful).coded.data == pruned.coded.data
        )


def test_what_is_stored_is_the_form_but_for_the_grid() -> None:
    net = network("mlp")
    x = NAMED["mlp"].inputs()
    weights = [node.affine.operator.weight for node in net.affine_layers]
    for form in FORMS:
        replaced = [replace_layer(weight, form, spread(weight)[1], 1.0) for weight in weights]
        stored = store_replaced(net, replaced, 16, 5)
        for layer, one, weight in zip(stored.layers, replaced, weights, strict=True):
            assert isinstance(layer, Spiked)
            assert layer.deviation == pytest.approx(math.sqrt(one.t), rel=2.0**-8)
            assert layer.mean == pytest.approx(one.mean, abs=2.0**-14 * max(abs(one.mean), one.tau))
            made, mask = torch.from_numpy(layer.weight(5)), one.mask
            noise = torch.from_numpy(layer.weight(5) - layer.kept.weight(5))
            near = 2.0**-14 * float(weight.abs().max())
            if form == "appendix":
                assert (made[mask] - weight[mask]).abs().max() <= near
                assert bool((noise[mask] == 0).all())
            else:
                assert ((made - noise)[mask] - weight[mask]).abs().max() <= near
                assert bool((noise[mask] != 0).any())
            assert not layer.kept.weight(5)[~mask.numpy()].any()
        assert torch.isfinite(stored.network(net).forward(x)).all()


def test_layers_that_are_left_out_keep_every_weight() -> None:
    net = network("mlp")
    weight = net.affine_layers[1].affine.operator.weight
    stored = store_replaced(net, [None, replace_layer(weight, "corrected", 0.1, 1.0)], 16, 0)
    first = net.affine_layers[0].affine.operator.weight
    assert stored.layers[0].kind == "pruned"
    gap = np.abs(stored.layers[0].weight(0) - first.double().numpy()).max()
    assert gap <= 2.0**-14 * float(first.abs().max())
    assert stored.layers[1].kind == "spiked"

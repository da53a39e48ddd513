"""Fine-tuning with a mask: equal to a naive loop over the module itself; pruned weights are zero to
the bit.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.cases import CASES, Case
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.batches import mix_seed
from cushion.nets.network import Network
from cushion.nets.tracing import trace
from cushion.training.epochs import batch_bounds, fine_tune

BY_NAME = {case.name: case for case in CASES}
EPOCHS, SEED, LR, BATCH = 3, 5, 0.02, 16


def sample(case: Case, m: int = 49) -> Dataset:
    random = np.random.default_rng(7)
    classes = case.module()(case.inputs(2)).shape[1]
    return Dataset(
        "noise",
        random.normal(size=(m, *case.input_shape)).astype(np.float32),
        random.integers(0, classes, m),
        classes,
    )


def masks_of(net: Network, share: float = 0.4) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    weights = [node.affine.operator.weight for node in net.affine_layers]
    return tuple(torch.rand(weight.shape, generator=generator) > share for weight in weights)


def naive(module: nn.Module, masks: tuple[Tensor, ...], data: Dataset) -> nn.Module:
    """The textbook: multiply by the mask before and after every step, Adam written out by its
    formulas.
    """
    module = copy.deepcopy(
        module
    ).eval()  # eval: no batch-norm statistics move, there are none in these nets
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    factors = {id(layer.weight): mask.float() for layer, mask in zip(layers, masks, strict=True)}
    parameters = list(module.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    for p in parameters:
        p.data *= factors.get(id(p), 1.0)
    step = 0
    for epoch in range(EPOCHS):
        order = torch.randperm(
            len(data), generator=torch.Generator().manual_seed(mix_seed(SEED, epoch, "order"))
        )
        for start, stop in batch_bounds(len(data), BATCH):
            rows = order[start:stop].numpy()
            loss = F.cross_entropy(
                module(torch.from_numpy(data.x[rows])), torch.from_numpy(data.y[rows])
            )
            gradients = torch.autograd.grad(loss, parameters)
            step += 1
            for p, gradient, m, v in zip(parameters, gradients, first, second, strict=True):
                m.mul_(0.9).add_(gradient, alpha=0.1)
                v.mul_(0.999).add_(gradient**2, alpha=0.001)
                p.data -= LR * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
                p.data *= factors.get(id(p), 1.0)
    return module


@pytest.mark.parametrize("name", ["mlp", "mlp-no-bias", "vgg-tiny", "conv-everything"])
def test_steps_equal_those_of_the_naive_loop(name: str) -> None:
    case = BY_NAME[name]
    module, data = case.module(), sample(case)
    net = trace(module, case.input_shape)
    masks = masks_of(net)
    tuned = fine_tune(net, masks, data, epochs=EPOCHS, seed=SEED, lr=LR, batch=BATCH)
    expected = trace(naive(module, masks, data), case.input_shape)
    for mine, theirs, before, mask in zip(
        tuned.affine_layers, expected.affine_layers, net.affine_layers, masks, strict=True
    ):
        weight = mine.affine.operator.weight
        # Adam's division amplifies the rounding of small gradients; the steps are 0.02 each.
        assert torch.allclose(weight, theirs.affine.operator.weight, atol=2e-4)
        assert bool((weight[~mask] == 0).all())
        # it did learn
        assert float((weight - before.affine.operator.weight)[mask].abs().max()) > LR
        assert not weight.requires_grad
        if mine.affine.bias is not None:
            assert theirs.affine.bias is not None
            assert torch.allclose(mine.affine.bias, theirs.affine.bias, atol=2e-4)
            assert not mine.affine.bias.requires_grad


@pytest.mark.parametrize("name", ["residual", "dense", "pre-activation", "batchnorm-first"])
def test_branches_and_free_batch_norms(name: str) -> None:
    case = BY_NAME[name]
    data, net = sample(case), trace(case.module(), case.input_shape)
    masks = masks_of(net)
    before = float(F.cross_entropy(net.forward(torch.from_numpy(data.x)), torch.from_numpy(data.y)))
    start = net.with_affine({})
    tuned = fine_tune(net, masks, data, epochs=15, seed=SEED, lr=LR, batch=BATCH)
    after = float(
        F.cross_entropy(tuned.forward(torch.from_numpy(data.x)), torch.from_numpy(data.y))
    )
    assert after < before
    for node, old, mask in zip(tuned.affine_layers, start.affine_layers, masks, strict=True):
        weight, was = node.affine.operator.weight, old.affine.operator.weight
        if node.affine.kind == "batchnorm":
            # Its mask is ignored, and its factors learn (except behind a ReLU that is off
            # everywhere).
            assert bool((weight != 0).all())
            assert float((weight != was).float().mean()) >= 0.5
        else:
            assert bool((weight[~mask] == 0).all())


def test_nothing_of_the_caller_changes_and_the_seed_decides() -> None:
    case = BY_NAME["vgg-tiny"]
    data, net = sample(case), trace(case.module(), case.input_shape)
    weights = [
        (node.affine.operator.weight.clone(), node.affine.bias) for node in net.affine_layers
    ]
    masks = masks_of(net)
    kept = [mask.clone() for mask in masks]
    state = torch.random.get_rng_state()

    def tuned(seed: int) -> Tensor:
        out = fine_tune(net, masks, data, epochs=2, seed=seed, batch=BATCH)
        return torch.cat([node.affine.operator.weight.flatten() for node in out.affine_layers])

    with torch.no_grad():  # the caller's mode does not matter
        first = tuned(0)
    assert torch.equal(first, tuned(0))
    assert not torch.equal(first, tuned(1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(map(torch.equal, masks, kept))
    for node, (weight, bias) in zip(net.affine_layers, weights, strict=True):
        assert torch.equal(node.affine.operator.weight, weight)
        assert node.affine.bias is bias
        assert not weight.requires_grad


def test_no_epochs_only_applies_the_mask() -> None:
    case = BY_NAME["mlp"]
    net = trace(case.module(), case.input_shape)
    masks = masks_of(net)
    tuned = fine_tune(net, masks, sample(case), epochs=0)
    for node, old, mask in zip(tuned.affine_layers, net.affine_layers, masks, strict=True):
        assert torch.equal(node.affine.operator.weight, old.affine.operator.weight * mask)


def test_bytes_are_read_as_training_reads_them_and_float64_works() -> None:
    case = BY_NAME["mlp"]
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (30, 7), dtype=np.uint8), random.integers(0, 4, 30)
    net = trace(case.module(), case.input_shape)
    masks = masks_of(net)
    bytes_, floats = Dataset("a", x, y, 4), Dataset("b", (x / 255).astype(np.float32), y, 4)
    a, b, double = (
        fine_tune(one, masks, data, epochs=2, batch=8)
        for one, data in ((net, bytes_), (net, floats), (net.double(), floats))
    )
    for first, second, third in zip(
        a.affine_layers, b.affine_layers, double.affine_layers, strict=True
    ):
        weight = first.affine.operator.weight
        assert torch.allclose(weight, second.affine.operator.weight, atol=1e-5)
        assert third.affine.operator.weight.dtype == torch.float64
        assert torch.allclose(weight.double(), third.affine.operator.weight, atol=1e-4)


def test_bad_input_is_one_sentence() -> None:
    case = BY_NAME["mlp"]
    data, net = sample(case), trace(case.module(), case.input_shape)
    masks = masks_of(net)
    for change, sentence in (
        ({"masks": masks[:1]}, "the net has 2 affine layers, but 1 masks were given"),
        ({"masks": (masks[0].T, masks[1])}, r"the mask of 0 is \[7, 9\], its weight \[9, 7\]"),
        ({"epochs": -1}, "epochs >= 0"),
        ({"batch": 0}, "batch >= 1"),
        ({"lr": 0.0}, "lr > 0"),
        ({"lr": 1e39}, "diverged in epoch 1"),
    ):
        options = {"masks": masks, "epochs": 1, **change}
        with pytest.raises(BadInput, match=sentence) as caught:
            fine_tune(net, options.pop("masks"), data, **options)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)

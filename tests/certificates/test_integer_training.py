"""Integer nets in training: what is trained is frozen, pruning and folding do what they say, bits
are priced.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense, Pool
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.integer.blueprints import (
    Blueprint,
    ConvBlock,
    DenseBlock,
    Plan,
    lay_out,
    plans,
)
from cushion.certificates.search.integer.search import (
    hold,
    needs,
    price_of_a_bit,
    relaxed_bound,
    schedule,
    train,
)
from cushion.certificates.search.integer.trainable import GridWeights, TrainableIntegerNet, straight
from cushion.certificates.search.integer.warm_start import FloatTwin
from cushion.certificates.search.sample import Sample
from cushion.errors import BadInput, Malformed

BLUEPRINTS: dict[str, Blueprint] = {
    "linear": (DenseBlock(),),
    "hidden": (DenseBlock(6), DenseBlock()),
    "plain": (ConvBlock(4, 3, padding=1), Pool("max", 2), DenseBlock()),
    "mirrored": (
        ConvBlock(3, 3, padding=1, symmetry=2),
        ConvBlock(2, 3, stride=2, symmetry=2),
        Pool("sum", 3),
        DenseBlock(invariant=True),
    ),
    "eightfold": (
        ConvBlock(2, 3, padding=1, symmetry=8),
        ConvBlock(0, 3, padding=1, depthwise=True, symmetry=8),
        ConvBlock(2, 1, symmetry=8),
        Pool("max", 2),
        DenseBlock(invariant=True),
    ),
    "turned": (ConvBlock(2, 3, padding=1, symmetry=4), Pool("max", 4), DenseBlock()),
}


def pixels(n: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)


def model_of(name: str, levels: int = 5, spread: float = 1.0, seed: int = 1) -> TrainableIntegerNet:
    generator = torch.Generator().manual_seed(seed)
    model = TrainableIntegerNet(
        BLUEPRINTS[name],
        (1, 8, 8),
        3,
        Bytes(0),
        lambda shape, _: GridWeights(shape, levels, generator, spread),
    )
    model.calibrate(torch.from_numpy(pixels()).float())
    return model


def sample_of(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    pixels, labels = torch.from_numpy(x.astype(np.int16)), torch.from_numpy(y)
    return Sample(pixels, labels, None, generator, Bytes(0), 3)


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_frozen_net_computes_what_the_trained_one_did(name: str) -> None:
    model = model_of(name)
    for weights in model.weights.values():
        weights.hold(torch.ones_like(weights.held))  # type: ignore[operator, arg-type]
    generator = torch.Generator().manual_seed(2)
    x = pixels()
    with torch.no_grad():
        for bias in model.biases.values():
            bias.copy_(torch.rand(bias.shape, generator=generator) * 6 - 3)
        scores = model(torch.from_numpy(x).float())
    net = model.freeze()
    assert np.array_equal(scores.numpy().astype(np.int64), net.scores(x))
    message = encode(net)
    assert np.array_equal(decode(message.data, message.bits).scores(x), net.scores(x))


def test_rounding_goes_forward_and_the_gradient_straight_back() -> None:
    value = torch.tensor([-1.6, -0.5, 0.49, 2.5], requires_grad=True)
    rounded = straight(value)
    assert rounded.tolist() == [-2.0, 0.0, 0.0, 3.0]
    rounded.sum().backward()
    assert value.grad is not None
    assert value.grad.tolist() == [1.0] * 4


def test_the_rate_follows_the_real_length() -> None:
    """At whole numbers the rate is the empirical entropy plus signs: the message's weights cost
    about that.
    """
    generator = torch.Generator().manual_seed(0)
    for density in (0.05, 0.3, 0.9):
        weights = GridWeights((10, 200), 7, generator)
        with torch.no_grad():
            kept = torch.rand(weights.real.shape, generator=generator) < density
            weights.real.copy_(
                torch.where(kept, torch.randn(kept.shape, generator=generator) * 2, 0.0).round()
            )
        weights.refresh()
        values = weights.rounded().numpy().astype(np.int64)
        message = encode(IntegerNet((1, 1, 200), Bytes(0), (Dense(Grid(values, 7), None, 0, 0),)))
        paid = next(item.bits for item in message.ledger if "weights" in item.item)
        assert float(weights.rate().detach()) == pytest.approx(paid, rel=0.04, abs=30)


def test_masked_weights_are_zero_and_learn_nothing() -> None:
    weights = GridWeights((4, 6), 3, torch.Generator().manual_seed(0), 2.0)
    weights.mask[1] = 0
    weights.held[2] = True
    (weights.integers().square().sum() + weights.rate()).backward()
    assert weights.integers()[1].abs().sum() == 0
    assert weights.real.grad is not None
    assert weights.real.grad[1].abs().sum() == 0
    assert weights.real.grad[0].abs().sum() > 0


def test_held_weights_are_whole_and_stay() -> None:
    weights = GridWeights((50, 4), 3, torch.Generator().manual_seed(0), 2.0)
    weights.mask[:5] = 0
    chosen = torch.rand(50, 4, generator=torch.Generator().manual_seed(1)) < 0.4
    chosen[:5] = False
    weights.hold(chosen)
    assert torch.equal(weights.distances().isinf(), chosen | (weights.mask == 0))
    before = weights.integers().detach().clone()
    assert torch.equal(before[chosen], (weights.real.detach().clamp(-3, 3) + 0.5).floor()[chosen])
    assert torch.equal(before[5:][~chosen[5:]], weights.real.detach()[5:][~chosen[5:]].clamp(-3, 3))
    with torch.no_grad():
        weights.real.add_(0.8)  # a step of the optimiser
    assert torch.equal(weights.integers().detach()[chosen], before[chosen])
    assert not torch.equal(weights.integers().detach(), before)
    weights.hold(~weights.held)
    values = weights.integers().detach()
    assert torch.equal(values, values.round())


def test_what_the_loss_minds_most_is_held_first() -> None:
    model = model_of("plain", levels=50, spread=3.0)
    model.release()
    optimiser = torch.optim.Adam([holder.real for holder in model.held()])
    generator = torch.Generator().manual_seed(5)
    for holder in model.held():
        holder.real.grad = torch.randn(holder.real.shape, generator=generator)
    optimiser.step()
    squares = torch.cat(
        [optimiser.state[holder.real]["exp_avg_sq"].reshape(-1) for holder in model.held()]
    )
    away = torch.cat([holder.distances().reshape(-1) for holder in model.held()])
    hold(model, optimiser, 0.1)
    held = torch.cat([holder.held.reshape(-1) for holder in model.held()])
    count = round(0.1 * len(held))
    candidates = squares.argsort(descending=True)[: 4 * count].tolist()
    wanted = sorted(candidates, key=lambda at: float(away[at]))[:count]
    assert sorted(wanted) == held.nonzero().flatten().tolist()
    hold(model, optimiser, 0.05)  # never takes any back
    assert int(torch.cat([holder.held.reshape(-1) for holder in model.held()]).sum()) == count
    hold(model, optimiser, 1.0)
    assert all(bool(holder.held.all()) for holder in model.held())


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_folding_changes_nothing_but_what_is_rounded(name: str) -> None:
    model = model_of(name, levels=10**6)
    x = torch.from_numpy(pixels(300)).float()
    twin = FloatTwin(model, torch.Generator().manual_seed(3))
    with torch.no_grad():
        for norm in twin.norms.values():
            norm.weight.uniform_(0.5, 2.0)  # type: ignore[operator]
            if isinstance(norm, nn.BatchNorm1d):
                norm.bias.uniform_(-0.5, 0.5)
        twin.last_bias.uniform_(-0.5, 0.5)
        for _ in range(80):
            twin(x)
        twin.eval()
        wanted = twin(x)
    generator = torch.Generator().manual_seed(4)
    minds = {
        key: [
            torch.rand(w.shape, generator=generator),
            torch.rand(len(w), generator=generator) + 0.1,
        ]
        for key, w in twin.weights.items()
    }
    twin.fold(x, 2.0, minds)
    sizes = torch.cat([w.real.detach().reshape(-1) for w in model.held()])
    assert float(sizes.square().mean().sqrt()) == pytest.approx(2.0, rel=1e-4)
    model.release()  # nothing is rounded yet
    with torch.no_grad():
        assert torch.allclose(model.logits(x), wanted, rtol=1e-3, atol=2e-3)
        model.settling = False  # now biases and hidden values are
        got = model.logits(x)
    assert torch.corrcoef(torch.stack([wanted.flatten(), got.flatten()]))[0, 1] > 0.8


def test_folding_a_net_that_pruning_cut_through() -> None:
    """No signal passes the layers in between: the loss minds none of their weights, and their units
    must not shrink until nothing is left of the biases behind them.
    """
    depthwise = ConvBlock(0, 3, padding=1, depthwise=True)
    middle = (depthwise, ConvBlock(4, 1)) * 4
    generator = torch.Generator().manual_seed(1)
    model = TrainableIntegerNet(
        (ConvBlock(4, 3), *middle, DenseBlock()),
        (1, 8, 8),
        3,
        Bytes(0),
        lambda shape, _: GridWeights(shape, 31, generator),
    )
    x = torch.from_numpy(pixels(300)).float()
    twin = FloatTwin(model, generator)
    for key in ("3", "4"):
        twin.masks[key].zero_()
    with torch.no_grad():
        twin.last_bias.uniform_(-0.5, 0.5, generator=generator)
        for _ in range(80):
            twin(x)
        twin.eval()
        wanted = twin(x)
    sample = sample_of(x.numpy(), np.random.default_rng(0).integers(0, 3, 300))
    twin.fold(x, 2.5, needs(twin, sample))
    model.release()
    with torch.no_grad():
        assert torch.allclose(model.logits(x), wanted, rtol=1e-3, atol=2e-3)


def test_pruning_keeps_what_is_worth_most() -> None:
    model = model_of("hidden")
    twin = FloatTwin(model, torch.Generator().manual_seed(0))
    squares = {key: torch.rand(weight.shape) for key, weight in twin.weights.items()}
    worth = {key: (weight.detach() ** 2 * squares[key]) for key, weight in twin.weights.items()}
    ranked = sorted((float(v) for values in worth.values() for v in values.flatten()), reverse=True)
    kept = round(0.3 * len(ranked))
    twin.prune(squares, 0.3)
    for key, mask in twin.masks.items():
        assert torch.equal(mask, (worth[key] >= ranked[kept - 1]).float())
    before = {key: mask.clone() for key, mask in twin.masks.items()}
    twin.prune({key: torch.rand(s.shape) for key, s in squares.items()}, 0.1)
    assert all(
        bool((mask <= before[key]).all()) for key, mask in twin.masks.items()
    )  # nothing comes back
    assert sum(int(mask.sum()) for mask in twin.masks.values()) == round(0.1 * len(ranked))


def test_a_weight_in_a_sparse_layer_must_be_worth_its_place() -> None:
    """Of equal weights, those go whose position costs more: naming one of few kept among many takes
    more bits.
    """
    twin = FloatTwin(model_of("hidden"), torch.Generator().manual_seed(0))
    with torch.no_grad():
        for weight in twin.weights.values():
            weight.fill_(1.0)
    first, second = twin.masks
    twin.masks[first] = (
        (torch.arange(twin.masks[first].numel()) < 40).float().reshape(twin.masks[first].shape)
    )
    sizes = {key: weight.numel() for key, weight in twin.weights.items()}
    squares = {
        first: torch.full(twin.masks[first].shape, 1.5),
        second: torch.ones(twin.masks[second].shape),
    }
    twin.prune(squares, sizes[second] / sum(sizes.values()))
    assert int(twin.masks[second].sum()) == sizes[second]
    assert int(twin.masks[first].sum()) == 0
    squares[first] *= 2.0  # now worth it
    twin.masks[first] = (
        (torch.arange(twin.masks[first].numel()) < 40).float().reshape(twin.masks[first].shape)
    )
    twin.prune(squares, 40 / sum(sizes.values()))
    assert int(twin.masks[first].sum()) == 40


@pytest.mark.parametrize(
    ("error", "bits", "m"), [(0.02, 2000, 60000), (0.4, 4000, 50000), (0.06, 500, 1500)]
)
def test_the_price_of_a_bit_keeps_the_bound(error: float, bits: float, m: int) -> None:
    """One bit more and the error it is worth less: the bound stays where it was."""
    price = price_of_a_bit(error, bits, m)
    here = relaxed_bound(error, bits, m)
    there = relaxed_bound(error - 20 * price, bits + 20, m)
    alone = relaxed_bound(error, bits + 20, m)
    assert abs(there - here) < 0.1 * (alone - here)


def test_a_schedule_ends_at_one_by_steps_or_by_time() -> None:
    assert list(schedule(4, 1e9)) == [0.25, 0.5, 0.75, 1.0]
    quick = list(itertools.islice(schedule(1e12, 0.05), 10**7))
    assert quick[-1] == 1.0
    assert all(a <= b for a, b in itertools.pairwise(quick))


def test_a_try_with_a_warm_start_prunes_and_repeats_under_its_seed() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 60, (300, 1, 8, 8), dtype=np.uint8)
    y = rng.integers(0, 3, 300)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 120
    plan = Plan(BLUEPRINTS["mirrored"], 0.4, 2.5, 400)

    def last() -> tuple[int, bytes]:
        *_, state = train(plan, sample_of(x, y), 1e9)
        assert state.net is not None
        return state.net.errors(x, y), encode(state.net).data

    errors, message = last()
    assert errors < 30
    assert last() == (errors, message)
    stored = sum(
        np.prod(stage.layer.source.shape)
        for stage in lay_out(plan.blueprint, (1, 8, 8), 3)
        if not isinstance(stage.layer, Pool)
    )
    net = decode(message, encode_bits(message))
    used = sum(
        int((layer.source.numbers != 0).sum()) for layer in net.layers if hasattr(layer, "source")
    )
    assert used <= round(0.4 * stored)


def encode_bits(message: bytes) -> int:
    """Bits of a message whose padding is not known: the one length that decodes."""
    for bits in range(8 * len(message) - 7, 8 * len(message) + 1):
        try:
            decode(message, bits)
        except Malformed:
            continue
        return bits
    raise AssertionError("no length decodes")


@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (1, 1, 30), (1, 16, 20), (3, 64, 64)]
)
def test_every_plan_fits_its_shape(shape: tuple[int, int, int]) -> None:
    for plan in plans(shape):
        stages = lay_out(plan.blueprint, shape, 7)
        assert stages[-1].after.shape == (7,)


def test_blueprints_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="follow a dense"):
        lay_out((DenseBlock(5), Pool("max", 2)), (1, 8, 8), 3)
    with pytest.raises(BadInput, match="nothing is left"):
        lay_out((Pool("max", 9), DenseBlock()), (1, 8, 8), 3)

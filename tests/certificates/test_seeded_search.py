"""Subspaces and supermasks: what is trained is what is frozen, what is charged is what the code
writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from tests.clock import Clock
from torch import nn

from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense, Pool
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.sources import SeededMask, SeededProjection
from cushion.certificates.search.integer.blueprints import (
    Blueprint,
    ConvBlock,
    DenseBlock,
)
from cushion.certificates.search.integer.trainable import TrainableIntegerNet
from cushion.certificates.search.options import Method, SearchOptions
from cushion.certificates.search.seeded import (
    SeededPlan,
    search_seeded,
    settle,
    sizes_of,
    wide_blueprint,
)
from cushion.certificates.search.seeded_weights import (
    MaskedWeights,
    SubspaceWeights,
    seeded_plans,
    share_out,
)
from cushion.certificates.search.task import Task
from cushion.data.dataset import Dataset
from cushion.errors import BadInput

CONV: Blueprint = (
    ConvBlock(4, 3, padding=1, symmetry=2),
    Pool("max", 2),
    ConvBlock(5, 3),
    DenseBlock(),
)
MLP: Blueprint = (DenseBlock(7), DenseBlock())


def blobs(m: int = 200, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 3] += 120
    return Dataset("blobs", x, y, 3)


def subspace(stored: tuple[int, ...], place: int, generator: torch.Generator) -> nn.Module:
    made = SubspaceWeights(stored, min(150, math.prod(stored)), 5, place)
    with torch.no_grad():
        made.shadow.normal_(0, 3, generator=generator)
    return made


def masked(stored: tuple[int, ...], place: int, generator: torch.Generator) -> nn.Module:
    return MaskedWeights(stored, 5, place, generator)


@pytest.mark.parametrize("blueprint", [CONV, MLP, (DenseBlock(),)])
@pytest.mark.parametrize("weights", [subspace, masked])
def test_the_frozen_net_computes_what_the_trained_one_did(
    blueprint: Blueprint, weights: Callable[..., nn.Module]
) -> None:
    generator = torch.Generator().manual_seed(1)
    model = TrainableIntegerNet(
        blueprint, (1, 8, 8), 3, Bytes(4), lambda stored, place: weights(stored, place, generator)
    )
    x = blobs(20).x
    pixels = torch.from_numpy(x >> 4).float()
    model.calibrate(pixels)
    with torch.no_grad():
        for bias in model.biases.values():
            bias.uniform_(-5, 5, generator=generator)
        scores = model(pixels)
    net = model.freeze()
    assert np.array_equal(scores.numpy().astype(np.int64), net.scores(x))
    message = encode(net)
    assert np.array_equal(decode(message.data, message.bits).scores(x), net.scores(x))


def test_subspace_integers_are_the_formula_summed_naively() -> None:
    weights = SubspaceWeights(
        (3, 5), 600, 2, 4
    )  # more than one stretch of sign matrices, and a shift
    with torch.no_grad():
        weights.shadow.normal_(0, 9, generator=torch.Generator().manual_seed(1))
    source = weights.source(4)
    assert isinstance(source, SeededProjection)
    assert source.shift == 3
    assert (source.shape, source.seed, source.layer) == ((3, 5), 2, 4)
    signs, start = weights.signs.tolist(), weights.start.tolist()
    for i, number in enumerate(weights.integers().detach().reshape(-1).tolist()):
        total = sum(int(c) * int(row[i]) for c, row in zip(source.coded, signs, strict=True))
        expected = source.amplitude * int(start[i]) + math.floor(Fraction(total, 2**source.shift))
        assert number == expected == source.numbers.reshape(-1)[i]


def test_with_as_many_coefficients_as_weights_the_subspace_is_everything() -> None:
    """k = n: the sign matrices have full rank, so rounding aside every direction can be reached."""
    weights = SubspaceWeights((4, 6), 24, 1, 1)
    assert np.linalg.matrix_rank(weights.signs.numpy()) == 24
    target = torch.linspace(-30, 30, 24).reshape(4, 6)
    wanted = torch.linalg.solve(
        weights.signs.T.double(), (target.reshape(-1) - weights.start).double()
    )
    with torch.no_grad():
        weights.shadow.copy_(wanted * 2.0**weights.shift)
    assert float(wanted.abs().max()) * 2.0**weights.shift < weights.largest
    # each coefficient is rounded by at most a half, each sum of 24 then floored
    assert (
        float((weights.integers().detach() - target).abs().max()) <= 24 * 0.5 / 2**weights.shift + 1
    )


def test_gradients_reach_the_coefficients_and_the_mask() -> None:
    weights = SubspaceWeights((2, 3), 4, 0, 1)
    (weights.integers() * torch.arange(6.0).reshape(2, 3)).sum().backward()
    assert weights.shadow.grad is not None
    naive = weights.signs @ torch.arange(6.0) * 2.0**-weights.shift
    assert torch.allclose(weights.shadow.grad, naive)
    mask = MaskedWeights((2, 3), 0, 1, torch.Generator().manual_seed(0))
    (mask.integers() * torch.arange(6.0).reshape(2, 3)).sum().backward()
    assert mask.shadow.grad is not None
    assert torch.equal(mask.shadow.grad, mask.signs * torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("kept", [0, 3, 200, 500])
def test_a_mask_costs_its_adaptive_code_length(kept: int) -> None:
    """The ledger's bits are the Krichevsky-Trofimov length -log2 B(k+½, n-k+½)/π; the rate is close
    to it.
    """
    mask = MaskedWeights((10, 100), 0, 1, torch.Generator().manual_seed(0))
    n = 1000
    order = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        mask.shadow.zero_()
        mask.shadow.view(-1)[order[:kept]] = 1.0
    mask.refresh()
    source = mask.source(1)
    assert isinstance(source, SeededMask)
    assert source.coded.sum() == kept
    net = IntegerNet((1, 10, 10), Bytes(4), (Dense(source, None, 0, 0),))
    (paid,) = (item.bits for item in encode(net).ledger if item.item == "layer 1: weights")
    beta = math.lgamma(kept + 0.5) + math.lgamma(n - kept + 0.5) - math.lgamma(n + 1)
    exact = (math.log(math.pi) - beta) / math.log(2)
    assert abs(paid - exact) <= 2
    assert float(mask.rate().detach()) == pytest.approx(exact, rel=0.1, abs=10)


def test_the_rate_of_coefficients_follows_the_code() -> None:
    weights = SubspaceWeights((20, 100), 400, 0, 1)
    with torch.no_grad():
        weights.shadow.copy_(
            torch.randn(400, generator=torch.Generator().manual_seed(0)) * 2
        ).round_()
    weights.refresh()
    net = IntegerNet((1, 10, 10), Bytes(4), (Dense(weights.source(1), None, 0, 0),))
    (paid,) = (item.bits for item in encode(net).ledger if item.item == "layer 1: weights")
    assert float(weights.rate().detach()) == pytest.approx(paid, rel=0.05)


def test_keeping_a_sign_never_costs_less_than_dropping_it() -> None:
    mask = MaskedWeights((50,), 0, 1, torch.Generator().manual_seed(0))
    with torch.no_grad():
        mask.shadow.fill_(1.0)
    mask.refresh()
    assert mask.kept_bits == mask.dropped_bits == 1.0


@pytest.mark.parametrize("weights", [subspace, masked])
def test_settling_moves_shadows_from_their_thresholds_and_changes_no_integer(
    weights: Callable[..., nn.Module],
) -> None:
    generator = torch.Generator().manual_seed(1)
    model = TrainableIntegerNet(
        MLP, (1, 8, 8), 3, Bytes(4), lambda stored, place: weights(stored, place, generator)
    )
    integers = [model.weight(key).detach() for key in model.weights]
    before = [shadow.detach().clone() for shadow in model.weights.parameters()]
    settle(model, 0.1)
    for old, new in zip(
        integers, (model.weight(key).detach() for key in model.weights), strict=True
    ):
        assert torch.equal(old, new)
    for old, shadow in zip(before, model.weights.parameters(), strict=True):
        gap = (old - old.round()).abs()
        assert torch.allclose(
            (shadow.detach() - old.round()).abs(), (gap - 0.1).clamp(min=0), atol=1e-5
        )


def test_coefficients_are_shared_out_by_size() -> None:
    sizes = {1: 400, 3: 90, 4: 10}
    for k in range(3, 501):
        shares = share_out(k, sizes)
        assert sum(shares.values()) == k
        assert all(1 <= shares[place] <= sizes[place] for place in sizes)
        assert all(abs(shares[place] - k * sizes[place] / 500) < 2 for place in sizes)
    for k in (2, 501):
        with pytest.raises(BadInput, match=f"`k` = {k}"):
            share_out(k, sizes)


def test_width_makes_nets_wider() -> None:
    for shape in ((1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 1, 13)):
        one, two = (
            sum(sizes_of(wide_blueprint(shape, 10, width, 16), shape, 10).values())
            for width in (1.0, 2.0)
        )
        assert one < two


def bits_and_errors(data: Dataset) -> Callable[[IntegerNet], Decimal]:
    return lambda net: Decimal(net.errors(data.x, data.y) * 20 + encode(net).bits)


@pytest.mark.parametrize("method", ["subspace", "supermask"])
def test_a_number_of_steps_repeats_exactly(method: Method) -> None:
    data = blobs()
    told: list[list[tuple[float, Decimal]]] = [[], [], []]
    nets = []
    for turn, seed in enumerate((3, 3, 4)):
        task = Task(
            data,
            bits_and_errors(data),
            SearchOptions(steps=120, method=method, seed=seed),
            report=lambda done, best, turn=turn: told[turn].append((done, best)),
        )
        nets.append(encode(search_seeded(seeded_plans(task), task).net).data)
    assert nets[0] == nets[1] != nets[2]
    assert told[0] == told[1]
    assert told[0][-1][0] == 1.0
    assert [best for _, best in told[0]] == sorted((best for _, best in told[0]), reverse=True)


def tiny_plan(steps: int = 10**6) -> SeededPlan:
    return SeededPlan((DenseBlock(),), masked, 0.01, 1.0, steps)


def test_the_best_that_was_judged_is_returned_and_the_time_is_kept(clock: Clock) -> None:
    data = blobs()
    judged: dict[int, Decimal] = {}
    kept = []

    def judge(net: IntegerNet) -> Decimal:
        kept.append(net)  # keeps ids apart
        judged[id(net)] = bits_and_errors(data)(net)
        return judged[id(net)]

    found = search_seeded([tiny_plan(40)], Task(data, judge, SearchOptions(1.5 / 60)))
    assert clock.now < 1.6
    assert len(judged) > 2
    assert judged[id(found.net)] == min(judged.values())
    assert not found.interrupted


def test_slow_judging_is_done_less_often_and_the_time_is_kept(clock: Clock) -> None:
    judged: list[float] = []

    def judge(net: IntegerNet) -> Decimal:
        if len(
            judged
        ):  # the first net is small and quick to judge, so its cost says nothing of the others
            clock.sleep(0.4)
        judged.append(clock())
        return Decimal(encode(net).bits)

    search_seeded([tiny_plan()], Task(blobs(), judge, SearchOptions(3 / 60)))
    assert judged[-1] < 3.3 + 0.4  # leaves room for the count that the certificate makes
    assert 0.4 * (len(judged) - 1) < 2.1


def test_ctrl_c_keeps_the_best_so_far() -> None:
    judged: list[IntegerNet] = []

    def judge(net: IntegerNet) -> Decimal:
        judged.append(net)
        if len(judged) == 3:
            raise KeyboardInterrupt
        return Decimal(-len(judged))

    options = SearchOptions(steps=100, method="supermask")
    found = search_seeded([tiny_plan(100)], Task(blobs(), judge, options))
    assert found.interrupted
    assert found.net is judged[1]


def test_seeds_that_the_format_cannot_name_are_refused() -> None:
    for method in ("subspace", "supermask"):
        options = SearchOptions(steps=1, method=method, seed=2**32)
        with pytest.raises(BadInput, match="`seed`"):
            seeded_plans(Task(blobs(), bits_and_errors(blobs()), options))

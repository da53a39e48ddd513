"""Jacobian norms, images and β of all pairs against brute-force Jacobians; probes against their
stated error.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import brute_jacobian, pairs, traced

from cushion.errors import BadInput
from cushion.measures.stability.jacobians import (
    GramChain,
    PairSquares,
    pair_squares,
    plan_jacobians,
)
from cushion.nets.linearisation import Linearisation
from cushion.nets.models import build
from cushion.nets.network import Network
from cushion.nets.tracing import trace

NETS = [case for case in CASES if len(case.layers) > 1]
DEEP = next(case for case in CASES if case.name == "mlp-deep")
VGG = next(case for case in CASES if case.name == "vgg-tiny")
each_net = pytest.mark.parametrize("case", NETS, ids=lambda case: case.name)


def check_exact(net: Network, x: torch.Tensor, found: dict[tuple[int, int], PairSquares]) -> None:
    line = Linearisation(net, x)
    for i, j in pairs(net):
        jacobians = [brute_jacobian(net, x[b : b + 1], i, j) for b in range(len(x))]
        if not any(jacobian.any() for jacobian in jacobians):
            continue  # j does not depend on i
        answer = found[i.index, j.index]
        assert answer.error is None
        assert answer.image is not None
        assert answer.spread is not None
        for b, jacobian in enumerate(jacobians):
            own = line.outputs[i.index][b].flatten()
            assert float(answer.squared[b]) == pytest.approx(
                float(jacobian.square().sum()), rel=1e-9
            )
            assert float(answer.image[b]) == pytest.approx(
                float((jacobian @ own).square().sum()), rel=1e-9, abs=1e-20
            )
            if len(i.shape) == 3 and jacobian.any():
                places = jacobian.square().sum(0).reshape(i.shape).sum(0)
                largest = float(places.max() / places.mean())
                assert float(answer.spread[b]) == pytest.approx(largest, rel=1e-9)
            elif len(i.shape) == 1:
                assert float(answer.spread[b]) == 1.0


@each_net
def test_exact_on_every_net(case: Case) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    check_exact(net, x, pair_squares(Linearisation(net, x), plan_jacobians(net, 0, "exact"), 0))


@pytest.mark.parametrize("case", [DEEP, VGG], ids=lambda case: case.name)
def test_chunks_of_one_vector_give_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    monkeypatch.setattr("cushion.measures.probing._CHUNK", 1)
    check_exact(net, x, pair_squares(Linearisation(net, x), plan_jacobians(net, 0, "exact"), 0))


def test_grams_and_rows_agree_on_a_dense_chain() -> None:
    net, x = traced(DEEP), DEEP.inputs(6, torch.float64)
    chain = GramChain.of(net)
    assert chain is not None
    squares = chain.squares(Linearisation(net, x))
    assert len(squares) == 6  # pairs (1,3) (1,4) (1,5) (2,4) (2,5) (3,5)
    for i, j in pairs(net):
        if (i.index, j.index) in squares:
            for b in range(6):
                expected = float(brute_jacobian(net, x[b : b + 1], i, j).square().sum())
                assert float(squares[i.index, j.index][b]) == pytest.approx(
                    expected, rel=1e-9, abs=1e-20
                )


@pytest.mark.parametrize("name", ["vgg-tiny", "mlp", "residual", "unflatten", "mlp-batchnorm"])
def test_grams_refuse_other_nets(name: str) -> None:
    assert GramChain.of(traced(next(case for case in CASES if case.name == name))) is None


def test_the_plan_takes_what_is_cheaper() -> None:
    net = traced(DEEP)
    layers = [node.index for node in net.affine_layers]
    assert plan_jacobians(net, 0).rows == {
        layers[-1]
    }  # logits one by one, nothing else without probes
    assert plan_jacobians(net, 0).probed == frozenset()
    few = plan_jacobians(net, 1, "probes")
    assert few.probed == set(layers[2:-1])
    assert few.grams is None
    many = plan_jacobians(net, 5, "probes")
    assert many.rows == set(layers[2:])  # 10 rows at most, 5 probes
    exact = plan_jacobians(net, 5, "auto")
    assert exact.grams is not None
    assert exact.rows == {layers[-1]}
    assert exact.multiplications < many.multiplications
    with pytest.raises(BadInput, match="`probes` must be at least 0, not -1"):
        plan_jacobians(net, -1)


def test_adjacent_pairs_and_the_logits_need_no_probes() -> None:
    net, x = traced(VGG), VGG.inputs(2, torch.float64)
    found = pair_squares(Linearisation(net, x), plan_jacobians(net, 0), 0)
    layers = [node.index for node in net.affine_layers]
    assert found.keys() == {*pairwise(layers), *((i, layers[-1]) for i in layers[:-1])}


def test_many_logits_are_probed() -> None:
    wide = trace(build("4: fc5 relu fc101", seed=0), (4,))
    last = wide.affine_layers[-1].index
    assert plan_jacobians(wide, 0).probed == plan_jacobians(wide, 0).rows == frozenset()
    assert plan_jacobians(trace(build("4: fc5 relu fc5 relu fc101"), (4,)), 3).probed
    assert last not in plan_jacobians(wide, 60).probed


@pytest.mark.parametrize("case", [DEEP, VGG], ids=lambda case: case.name)
def test_probes_are_unbiased_with_the_stated_error(case: Case) -> None:
    net, x = traced(case), case.inputs(4, torch.float64)
    line, plan = Linearisation(net, x), plan_jacobians(net, 2, "probes")
    assert plan.probed
    exact = pair_squares(line, plan_jacobians(net, 0, "exact"), 0)
    runs = [pair_squares(line, plan, seed) for seed in range(400)]
    for pair, answer in runs[0].items():
        if answer.error is None:
            assert torch.allclose(answer.squared, exact[pair].squared)
            continue
        draws = torch.stack([run[pair].squared for run in runs])
        stated = torch.stack([run[pair].error for run in runs]).square().mean(0).sqrt()  # type: ignore[arg-type]
        spread = draws.std(0)
        z = (draws.mean(0) - exact[pair].squared) / (spread / math.sqrt(len(runs))).clamp_min(
            1e-300
        )
        assert float(z.abs().max()) < 4.5, pair
        alive = exact[pair].squared > 0
        assert torch.allclose(
            stated[alive] / spread[alive],
            torch.ones(int(alive.sum()), dtype=torch.float64),
            rtol=0.35,
        )
        assert torch.allclose(answer.image, exact[pair].image)  # type: ignore[arg-type]
        assert answer.spread is None


def test_the_seed_fixes_the_probes_and_layers_do_not_share_them() -> None:
    net, x = traced(VGG), VGG.inputs(2, torch.float64)
    plan = plan_jacobians(net, 1, "probes")
    one, again, other = (pair_squares(Linearisation(net, x), plan, seed) for seed in (5, 5, 6))
    probed = [pair for pair, answer in one.items() if answer.error is not None]
    assert probed
    assert all(torch.equal(one[pair].squared, again[pair].squared) for pair in one)
    assert not any(torch.equal(one[pair].squared, other[pair].squared) for pair in probed)

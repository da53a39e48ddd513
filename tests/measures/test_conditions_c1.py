"""Condition C1 against products of explicit matrices; probes against exact norms; what is refused
or counted.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from tests.condition_cases import (
    CHAINS,
    conditions_of,
    layer_matrices,
    named,
    product_norms,
    sample,
)
from tests.jacobian_cases import traced
from torch import Tensor, nn

from cushion.errors import BadInput, Unsupported
from cushion.measures import probing
from cushion.measures.conditions import measurement
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.conditions.interaction import ProductNorms, plan_pushes, triples, units
from cushion.measures.conditions.measurement import first_input, measure_conditions
from cushion.measures.conditions.records import IndexSet, NetConditions
from cushion.measures.distribution import describe
from cushion.nets.linearisation import Linearisation
from cushion.nets.tracing import trace

each_chain = pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
DEEP = [
    named(name)
    for name in ("mlp-deep", "vgg-tiny", "conv-overlapping", "pre-activation", "conv-batchnorm")
]
each_deep = pytest.mark.parametrize("case", DEEP, ids=lambda case: case.name)


def norms_of(case: Case, batch: int, method: str, probes: int = 16, seed: int = 0) -> ProductNorms:
    net, x = traced(case), case.inputs(batch, torch.float64)
    plan = plan_pushes(net, probes, method)  # type: ignore[arg-type]
    return ProductNorms(Linearisation(net, x), first_input(net, x), plan, seed)


def brute(case: Case, x: Tensor) -> list[dict[tuple[int, int], float]]:
    net = traced(case)
    return [product_norms(*layer_matrices(net, row[None])) for row in x]


def measured(case: Case, m: int = 6, **options: object) -> NetConditions:
    return measure_conditions(traced(case), sample(case.inputs(m)), ConditionOptions(**options))  # type: ignore[arg-type]


@each_chain
def test_exact_norms_are_those_of_the_products(case: Case) -> None:
    found = norms_of(case, 3, "exact")
    assert found.samples == {}
    for row, expected in enumerate(brute(case, case.inputs(3, torch.float64))):
        assert found.squares.keys() == expected.keys()
        for pair, norm in expected.items():
            assert found.squares[pair][row].item() == pytest.approx(norm**2, rel=1e-9, abs=1e-20), (
                pair
            )


@each_deep
def test_vectors_in_pieces_give_the_same(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("exact", "probes"):
        whole = norms_of(case, 3, method)
        with monkeypatch.context() as patch:
            patch.setattr(probing, "_CHUNK", 1)
            pieces = norms_of(case, 3, method)
        assert all(
            torch.allclose(whole.squares[pair], pieces.squares[pair], rtol=1e-12)
            for pair in whole.squares
        )


@each_deep
def test_probes_are_unbiased_and_their_errors_honest(case: Case) -> None:
    """The mean over many seeds is the exact square; single answers miss by as much as they say."""
    exact = norms_of(case, 2, "exact").squares
    net, x = traced(case), case.inputs(2, torch.float64)
    line, plan = Linearisation(net, x), plan_pushes(net, 8, "probes")
    many = [ProductNorms(line, first_input(net, x), plan, seed) for seed in range(100)]
    for pair in many[0].samples:
        means = torch.stack([found.squares[pair] for found in many])
        error = means.std(0) / math.sqrt(len(many))
        assert ((means.mean(0) - exact[pair]).abs() <= 4.5 * error + 1e-12 * exact[pair]).all(), (
            pair
        )
    h = units(net)
    for a, c, b in triples(len(case.layers)):
        if many[0].standard_error(a, c, b) is None:
            assert all(part not in many[0].samples for part in ((a, c), (a, b), (c + 1, b)))
            continue
        stated = np.median([np.nanmean(found.standard_error(a, c, b)) for found in many])  # type: ignore[arg-type]
        values = np.log([found.inverse_mu(a, c, b, h[c]) for found in many])
        seen = np.nanmean(values.std(0))
        assert 0.5 < stated / seen < 1.7 or max(stated, seen) < 1e-12, (
            a,
            c,
            b,
        )  # shared probes may cancel exactly


def test_pushing_to_the_next_layer_is_for_chains_and_shares_what_it_can() -> None:
    plain, branching = named("mlp-deep"), named("residual")
    net, x = traced(plain), plain.inputs(4, torch.float64)
    line = Linearisation(net, x)
    rectified, linear = (
        net.affine_layers[0],
        net.affine_layers[2],
    )  # layer 3 feeds layer 4 without a ReLU
    t = torch.ones(2, 1, *rectified.shape, dtype=torch.float64)
    assert torch.equal(
        line.push_to_next(rectified, t)[1], (line.outputs[rectified.index] > 0).double()
    )
    assert (
        line.push_to_next(linear, torch.ones(2, 1, *linear.shape, dtype=torch.float64)).shape[1]
        == 1
    )
    other = traced(branching)
    with pytest.raises(Unsupported, match="not a chain"):
        Linearisation(other, branching.inputs(2, torch.float64)).push_to_next(
            other.affine_layers[0], t
        )


def test_closed_forms_never_need_probes() -> None:
    found = norms_of(named("vgg-tiny"), 2, "probes")
    averaged = 3  # the convolution before the average pool
    assert {pair for pair in found.samples if pair[0] == pair[1]} == {(averaged, averaged)}
    assert not any(a == 0 for a, _ in found.samples)


@each_deep
def test_records_hold_the_definition(case: Case) -> None:
    """1/μ of every triple by the formula itself, and its minima and counts over every set of
    indices.
    """
    m, x = 6, case.inputs(6).double()
    h, d, norms = units(traced(case)), len(case.layers), brute(case, x)
    inverse = {
        (a, c, b): np.array([n[c + 1, b] * n[a, c] / (math.sqrt(h[c]) * n[a, b]) for n in norms])
        for a in range(d + 1)
        for c in range(a, d + 1)
        for b in range(c + 1, d + 1)
    }
    found = measured(case, m, method="exact").interaction
    assert found is not None
    assert found.exact
    assert found.standard_error is None
    for record in found.triples:
        assert record.inverse_mu == pytest.approx(
            inverse[record.a, record.c, record.b].max(), rel=1e-5
        )
        assert (record.undefined, record.standard_error) == (0, None)
    assert len(found.triples) == len(inverse)

    def check(part: IndexSet, keep: list[tuple[int, int, int]]) -> None:
        assert part.triples == len(keep)
        if not keep:
            assert part.mu is None
            assert part.because
            return
        values = np.concatenate([inverse[triple] for triple in keep])
        assert part.mu == pytest.approx(1 / values.max(), rel=1e-5)
        assert part.inverse is not None
        assert part.inverse.count == len(values)
        assert part.inverse.mean == pytest.approx(values.mean(), rel=1e-5)

    check(found.text, [(a, c, b) for a, c, b in inverse if a < c < b])
    check(found.figure6, list(inverse))
    check(found.inner, [(a, c, b) for a, c, b in inverse if a < c < b - 1])
    check(found.outer, [(a, c, b) for a, c, b in inverse if c in (a, b - 1)])
    check(found.from_input, [(a, c, b) for a, c, b in inverse if a == 0])


def test_units_count_what_is_left_after_pooling() -> None:
    assert units(traced(named("vgg-tiny"))) == (2 * 8 * 9, 3 * 8 * 9, 4 * 4 * 4, 3, 5, 3)
    assert units(traced(named("mlp-deep"))) == (6, 8, 7, 9, 5, 6, 3)


def test_a_bias_free_net_has_no_gap_and_biases_show() -> None:
    bare, biased = (
        measured(named("conv-overlapping")).interaction,
        measured(named("mlp-deep")).interaction,
    )
    assert bare is not None
    assert biased is not None
    assert bare.bias_gap == pytest.approx(0, abs=1e-6)
    case, x = named("mlp-deep"), named("mlp-deep").inputs(6).double()
    outputs = traced(case).forward(x).norm(dim=1)
    products = torch.tensor([norms[0, 6] for norms in brute(case, x)], dtype=torch.float64)
    assert biased.bias_gap == pytest.approx(float(((products - outputs).abs() / outputs).max()))


def test_one_layer_has_no_triple_of_the_text() -> None:
    found = measured(named("linear-only")).interaction
    assert found is not None
    assert (found.text.mu, found.text.triples, found.text.inverse) == (None, 0, None)
    assert found.text.because == "with 1 affine layer there are no 0 <= a < c < b <= d"
    assert found.figure6.triples == 1  # a = c = 0, b = 1


def test_a_dead_layer_allows_every_mu_and_a_vanishing_product_none() -> None:
    """Row 0 switches layer 1 off: 0 >= 0. Row 1 is seen by units that the last layer does not read:
    1/μ = ∞.
    """
    first = np.array([[1.0, 0.0], [0.0, 1.0]])
    last = np.array([[1.0, 0.0], [2.0, 0.0]])
    x = np.array([[-1.0, -1.0], [0.0, 1.0], [1.0, 1.0]])
    found = conditions_of([first, last], x)
    assert found.interaction is not None
    record = next(
        part for part in found.interaction.triples if (part.a, part.c, part.b) == (0, 1, 2)
    )
    assert (record.inverse_mu, record.undefined) == (math.inf, 1)
    assert found.interaction.text.mu == 0
    spread = found.interaction.text.inverse
    assert spread is not None
    assert (spread.infinite, spread.count) == (1, 1)
    assert not any(part.finite for part in found.theorem)
    assert json.loads(found.dumps())["interaction"]["text"]["inverse"]["value"] is None


def test_layers_of_zeros_constrain_nothing() -> None:
    found = conditions_of([np.zeros((3, 4)), np.zeros((2, 3))], np.ones((2, 4)))
    assert found.interaction is not None
    assert found.interaction.figure6.mu is None
    assert "every μ will do" in found.interaction.figure6.because
    assert all(
        part.inverse_mu is None and part.undefined == 2 for part in found.interaction.triples
    )
    assert found.interaction.bias_gap is None
    mixed = conditions_of([np.ones((3, 4)), np.zeros((3, 3)), np.ones((2, 3))], np.ones((1, 4)))
    assert mixed.interaction is not None
    assert mixed.interaction.figure6.mu == pytest.approx(
        2.0
    )  # (0, 0, 1): 1/μ = ‖W‖‖x‖/(√4 ‖Wx‖) = 1/2


def test_one_example_and_equal_values_have_a_distribution() -> None:
    for m in (1, 2):
        found = measured(named("mlp-deep"), m, method="probes")
        assert found.examples == m
        json.loads(found.dumps())
    nearly = describe(np.array([1.0, 1.0 + 2**-52, np.inf]), "max")
    assert nearly is not None
    assert (nearly.count, nearly.infinite) == (2, 1)


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.chain], ids=lambda case: case.name
)
def test_branches_are_refused_with_their_reason(case: Case) -> None:
    found = measured(case)
    assert traced(case).not_a_chain_because in found.not_measured_because
    assert (found.interaction, found.theorem, found.examples) == (None, (), 0)


def test_shards_and_seeds() -> None:
    """Exact answers do not depend on the shards; probes depend on the seed; rows on the seed and
    their number.
    """
    case = named("vgg-tiny")
    net, data = trace(case.module(), case.input_shape), sample(case.inputs(30))
    whole = measure_conditions(net, data, ConditionOptions(method="exact"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing, "_CHUNK", 1)  # shards of 8
        pieces = measure_conditions(net, data, ConditionOptions(method="exact"))
    assert whole.interaction is not None
    assert pieces.interaction is not None
    for one, other in zip(whole.interaction.triples, pieces.interaction.triples, strict=True):
        assert one.inverse_mu == pytest.approx(other.inverse_mu, rel=1e-5)
    probed = [
        measure_conditions(net, data, ConditionOptions(method="probes", seed=seed))
        for seed in (1, 1, 2)
    ]
    assert probed[0] == probed[1]
    assert probed[0].interaction != probed[2].interaction
    assert probed[0].interaction is not None
    assert not probed[0].interaction.exact
    assert 0 < (probed[0].interaction.standard_error or 0) < 0.5
    assert measure_conditions(net, data, ConditionOptions(examples=7)).examples == 7
    single = measure_conditions(net, data, ConditionOptions(method="probes", probes=1)).interaction
    assert single is not None
    assert single.standard_error == math.inf


def test_the_model_the_mode_and_the_random_state_stay() -> None:
    case = named("vgg-tiny")
    model = case.module().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    net = trace(model, case.input_shape)
    weights = [node.affine.operator.weight.clone() for node in net.affine_layers]
    measure_conditions(net, sample(case.inputs(4)), ConditionOptions(method="probes"))
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == legacy).all()  # type: ignore[index]
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(
        torch.equal(n.affine.operator.weight, w)
        for n, w in zip(net.affine_layers, weights, strict=True)
    )


def test_the_plan_is_exact_where_that_is_cheap() -> None:
    wide = trace(nn.Sequential(nn.Linear(2000, 3000), nn.ReLU(), nn.Linear(3000, 5)), (2000,))
    assert plan_pushes(wide, 16, "auto").exact == (
        False,
        True,
    )  # 2000·6.015e6 > 1e8, 3000·15000 < 1e8
    assert plan_pushes(wide, 1000, "auto").exact == (True, True)  # 2000 <= 2·1000
    assert plan_pushes(wide, 16, "exact").exact == (True, True)
    plan = plan_pushes(wide, 16, "probes")
    assert plan.exact == (False, False)
    assert plan.multiplications == 16 * (6_015_000 + 15_000) + 6_015_000


@pytest.mark.parametrize(
    ("field", "value"),
    [("examples", 0), ("probes", 0), ("seed", -1), ("delta", 0.0), ("delta", 1.0), ("method", "x")],
)
def test_bad_options_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"`{field}`"):
        ConditionOptions(**{field: value})  # type: ignore[arg-type]


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(BadInput, match="not finite"):
        conditions_of([np.full((2, 2), 1e150)] * 2, np.full((1, 2), 1e38))


def test_the_default_number_of_rows_is_what_the_budget_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = named("vgg-tiny")
    net, data = traced(case), sample(case.inputs(30))
    each = plan_pushes(net, 16, "auto").multiplications
    monkeypatch.setattr(measurement, "_BUDGET", 5.5 * each)
    assert measure_conditions(net, data, ConditionOptions()).examples == 5
    assert measure_conditions(net, data, ConditionOptions(examples=9)).examples == 9
    monkeypatch.setattr(measurement, "_KEPT", 3 * len(triples(5)))
    assert measure_conditions(net, data, ConditionOptions()).examples == 3
    monkeypatch.setattr(measurement, "_BUDGET", 0.0)
    assert measure_conditions(net, data, ConditionOptions()).examples == 1


def test_each_layer_has_probes_of_its_own() -> None:
    """The stated errors add those of layers a and c + 1 as independent; equal probes would not
    be.
    """
    net = trace(nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(3))), (4,))
    for node in net.affine_layers:
        node.affine.operator.weight.copy_(torch.eye(4))
    x = torch.ones(1, 4)
    found = ProductNorms(Linearisation(net, x), x, plan_pushes(net, 5, "probes"), seed=0)
    assert not torch.allclose(found.samples[1, 2], found.samples[2, 3])
    assert torch.allclose(found.samples[1, 2], found.samples[1, 3])

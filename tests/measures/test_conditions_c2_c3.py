"""Conditions C2 and C3 against their definitions counted out in numpy; the curve of Figure 7;
outputs; corner cases.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tests.cases import Case
from tests.condition_cases import (
    CHAINS,
    conditions_of,
    layer_matrices,
    masks_of,
    named,
    random_weights,
    sample,
)
from tests.jacobian_cases import activations, traced
from torch import Tensor, nn

from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.conditions.interaction import row_energies
from cushion.measures.conditions.measurement import (
    DELTAS,
    flip_constants,
    measure_conditions,
    rectified_layers,
)
from cushion.measures.conditions.records import NetConditions
from cushion.nets.operations import Affine, ReLU
from cushion.nets.tracing import trace

each_chain = pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)


def measured(case: Case, m: int = 6, **options: object) -> NetConditions:
    chosen = ConditionOptions(**{"method": "exact", **options})  # type: ignore[arg-type]
    return measure_conditions(traced(case), sample(case.inputs(m)), chosen)


def first_norms(case: Case, x: Tensor) -> list[float]:
    return [float(np.linalg.norm(layer_matrices(traced(case), row[None])[0])) for row in x]


def constant(values: np.ndarray, at_least: float = 0.0) -> float:
    """sup over δ of (1/h)#{|v| <= δ}/δ by trying every δ at which the count jumps."""
    best = 0.0
    for delta in np.abs(values):
        fraction = np.mean(np.abs(values) <= delta)
        if fraction >= at_least:
            best = max(best, math.inf if delta == 0 else fraction / delta)
    return best


@each_chain
def test_c2_is_the_definition(case: Case) -> None:
    """Every ReLU that directly follows a layer (or its pooling), pre-activations with bias, divided
    by ‖x‖.
    """
    net, x = traced(case), case.inputs(6).double()
    sizes, values = first_norms(case, x), activations(net, x)
    expected = {}
    for node in net.nodes:
        if isinstance(node.op, ReLU):
            layer = node
            while not isinstance(layer.op, Affine):
                layer = net.nodes[layer.inputs[0]]
            if layer.name not in expected:  # the first ReLU after the layer
                expected[layer.name] = (
                    values[node.inputs[0]].flatten(1).numpy() / np.array(sizes)[:, None]
                )
    found = measured(case)
    assert [part.layer for part in found.activation_flips] == list(expected)
    for part in found.activation_flips:
        rows = expected[part.layer]
        assert part.units == rows.shape[1]
        assert part.value == pytest.approx(max(map(constant, rows)), rel=1e-6)
        assert part.restricted == pytest.approx(max(constant(row, 0.01) for row in rows), rel=1e-6)
        assert part.restricted <= part.value
        assert part.spread.mean == pytest.approx(np.mean([constant(row) for row in rows]), rel=1e-6)
        curve = np.array([[np.mean(np.abs(row) <= delta) for delta in DELTAS] for row in rows])
        assert part.deltas == DELTAS
        assert part.mean_fraction == pytest.approx(curve.mean(0))
        assert part.max_fraction == pytest.approx(curve.max(0))
        assert list(part.mean_fraction) == sorted(part.mean_fraction)


def test_the_restricted_constant_starts_at_one_percent() -> None:
    """250 units: ⌈2.5⌉ = 3 of them must be within δ."""
    u = np.linspace(1, 2, 250)
    u[:3] = [1e-9, 1e-6, 0.01]
    constants = flip_constants(torch.tensor(-u)[None], torch.ones(1))[0]
    assert constants[0] == pytest.approx(1 / 250 / 1e-9)
    assert constants[1] == pytest.approx(3 / 250 / 0.01)


@pytest.mark.parametrize("count", [1, 100, 200, 700, 701])
def test_one_percent_itself_counts(count: int) -> None:
    u = 10.0 ** np.arange(-count, 0) if count < 300 else 10.0 ** (np.arange(-count, 0) / 4)
    start = -(-count // 100)  # the fewest units that are a hundredth of them
    assert flip_constants(torch.tensor(u)[None], torch.ones(1))[0, 1] == pytest.approx(
        start / count / u[start - 1]
    )


def test_a_unit_exactly_at_delta_can_flip() -> None:
    assert flip_constants(torch.ones(1, 4), torch.ones(1))[0, 2 + DELTAS.index(1.0)] == 1


def test_the_fraction_never_exceeds_its_line() -> None:
    """fraction(δ) <= C2·δ for every δ, and not for a smaller constant: the condition itself, on any
    δ.
    """
    rng = np.random.default_rng(0)
    values = rng.normal(size=40)
    c2 = float(flip_constants(torch.from_numpy(values)[None], torch.ones(1))[0, 0])
    deltas = np.concatenate([10 ** rng.uniform(-6, 3, 2000), np.abs(values)])
    fractions = np.array([np.mean(np.abs(values) <= delta) for delta in deltas])
    assert (fractions <= c2 * deltas * (1 + 1e-12)).all()
    assert (fractions > 0.999 * c2 * deltas).any()


def test_both_signs_can_flip() -> None:
    """The text's inequality without the absolute value would count every inactive unit, at any
    δ.
    """
    values = torch.tensor([[-5.0, -1.0, 2.0, 4.0]])
    assert flip_constants(values, torch.ones(1))[0, 0] == pytest.approx(0.5 / 2)
    assert flip_constants(values, torch.full((1,), 2.0))[0, 0] == pytest.approx(
        0.5
    )  # ‖x‖ = 2 halves the values


def test_a_zero_pre_activation_and_a_zero_input() -> None:
    weights = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones((2, 2))]
    found = conditions_of(weights, np.array([[1.0, 0.0], [3.0, 4.0]]))
    part = found.activation_flips[0]
    assert part.value == math.inf
    assert part.spread.infinite == 1
    assert part.max_fraction[0] == 0.5
    assert "C2 is infinite" in found.theorem[0].because
    dark = conditions_of(weights, np.array([[0.0, 0.0], [3.0, 4.0]]))
    assert dark.zero_inputs == 1
    assert dark.activation_flips[0].value == pytest.approx(max(0.5 / 0.6, 1 / 0.8))
    assert dark.theorem[0].mean_output == pytest.approx(7 * math.sqrt(2) / 5)
    night = conditions_of(weights, np.zeros((2, 2)))
    assert (night.activation_flips, night.zero_inputs) == ((), 2)
    json.loads(night.dumps())


def test_pooling_before_the_relu_counts_pooled_units() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
    )
    net, x = trace(model, (1, 6, 6)), np.random.default_rng(0).normal(size=(3, 1, 6, 6))
    found = measure_conditions(net, sample(x), ConditionOptions())
    assert [part.units for part in found.activation_flips] == [8]
    assert list(rectified_layers(net)) == [net.affine_layers[0].index]


@each_chain
def test_c3_is_the_definition(case: Case) -> None:
    net, x = traced(case), case.inputs(6).double()
    matrices = [layer_matrices(net, row[None])[1] for row in x]
    found = measured(case)
    for at, (node, part) in enumerate(zip(net.affine_layers, found.unit_norms, strict=True)):
        rows = np.linalg.norm(node.affine.operator.dense().numpy(), axis=1)
        with np.errstate(divide="ignore"):
            ratios = [math.sqrt(len(m[at])) * rows.max() / np.linalg.norm(m[at]) for m in matrices]
        assert part.layer == node.name
        assert part.value == pytest.approx(max(ratios), rel=1e-6)
        assert part.largest_norm == pytest.approx(rows.max())
        assert part.unit_ratio is not None
        assert part.unit_ratio.value == pytest.approx(rows.max() / rows.mean())
        assert part.unit_ratio.count == len(rows)
        assert part.exact
        assert row_energies(node.affine.operator).flatten().numpy() == pytest.approx(rows**2)


def test_c3_is_at_least_one_without_pooling() -> None:
    """‖D_iW_i‖_F² <= h_i‖W_i‖²_{2,∞}, with equality for equal units that are all on."""
    for part in measured(named("mlp-deep")).unit_norms:
        assert part.value is not None
        assert part.value >= 1 - 1e-9
    equal = conditions_of([np.ones((4, 3)), np.ones((2, 4))], np.ones((1, 3)))
    assert [part.value for part in equal.unit_norms] == pytest.approx([1.0, 1.0])


def test_c3_by_probes_says_so_only_where_it_averages() -> None:
    found = measured(named("vgg-tiny"), method="probes", probes=400)
    assert [part.exact for part in found.unit_norms] == [True, True, False, True, True]
    exact = measured(named("vgg-tiny"))
    for one, other in zip(found.unit_norms, exact.unit_norms, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9 if one.exact else 0.2)


def test_dead_and_zero_layers() -> None:
    """A layer that is off on one example has no C3; a layer of zeros satisfies C3 with every
    constant.
    """
    dead = conditions_of([-np.eye(2), np.ones((2, 2))], np.array([[1.0, 1.0], [-1.0, -2.0]]))
    first = dead.unit_norms[0]
    assert first.value == math.inf
    assert first.spread is not None
    assert (first.spread.infinite, first.spread.count) == (1, 1)
    assert "C3 is infinite" in dead.theorem[0].because
    zero = conditions_of([np.zeros((3, 2)), np.ones((2, 3))], np.ones((1, 2)))
    assert (zero.unit_norms[0].value, zero.unit_norms[0].largest_norm) == (None, 0.0)
    assert zero.unit_norms[1].value == pytest.approx(1.0)
    assert zero.outputs is not None
    assert zero.outputs.value == 0


def test_outputs_are_the_scores_norms() -> None:
    rng = np.random.default_rng(1)
    weights, x = random_weights((4, 6, 3), rng), rng.normal(size=(11, 4))
    sizes = [np.linalg.norm(masks_of(weights, row)[1][-1]) for row in x]
    outputs = conditions_of(weights, x).outputs
    assert outputs is not None
    assert outputs.value == pytest.approx(max(sizes), rel=1e-5)
    assert outputs.mean == pytest.approx(np.mean(sizes), rel=1e-5)


def test_without_a_relu_nothing_flips() -> None:
    found = measured(named("linear-only"))
    assert found.activation_flips == ()
    assert all(part.c2 == 0 and part.finite for part in found.theorem)
    printed = found.theorem[0]
    assert printed.log10_growth == 0
    assert printed.log10_flips == -math.inf

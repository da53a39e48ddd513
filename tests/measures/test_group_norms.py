"""Group norms, trace norms and distances from the initialisation against numpy on dense
matrices.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tests.cases import LAYERS, Layer, every
from tests.simulations import few_and_many

from cushion.errors import BadInput
from cushion.measures.norms.layers import distance_from_initialisation, group_norms, row_norms
from cushion.measures.norms.records import GroupNorms
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, Diagonal, Linear, Operator
from cushion.nets.operators import spectrum as spectrum_module

torch.set_num_threads(1)


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


OPERATORS: list[Operator | Layer] = [
    *LAYERS,
    Conv2d(_normal(4, 3, 1, 1), (3, 5, 4), stride=(2, 3), padding=(1, 0, 2, 0)),
    Conv2d(_normal(2, 3, 1, 1), (3, 2, 2), padding=(2, 2, 2, 2)),
    Conv2d(_normal(6, 1, 3, 2), (3, 5, 4), groups=3, padding=(1, 0, 2, 1), dilation=(2, 1)),
    Linear(_normal(6, 2) @ _normal(2, 9)),
    Diagonal(_normal(3), (3, 2, 4)),
]


def _check(found: GroupNorms, matrix: np.ndarray) -> None:
    """The definition: numpy norms of the rows of a dense matrix."""

    def norm(p: float, q: float) -> float:
        rows = (np.abs(matrix) ** p).sum(1) ** (1 / p)
        return float(rows.max() if q == math.inf else (rows**q).sum() ** (1 / q))

    expected = {
        "l1_inf": norm(1, math.inf),
        "l2_inf": norm(2, math.inf),
        "l1_1": norm(1, 1),
        "l1_2": norm(1, 2),
        "l2_1": norm(2, 1),
        "l2_2": float(np.linalg.norm(matrix)),
        "l3_15": norm(3, 1.5),
        "trace_norm": float(np.linalg.svd(matrix, compute_uv=False).sum()),
    }
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-11), name
    assert found.trace_norm_exact is True
    assert found.trace_norm_standard_error is None


@every(OPERATORS)
def test_norms_of_the_dense_matrix(operator: Operator) -> None:
    found = group_norms(operator)
    _check(found, operator.to(torch.float64).dense().numpy())
    assert found.l2_2 == pytest.approx(operator.operator_frobenius(), rel=1e-12)
    assert found.kernel is not None
    assert found.kernel.kernel is None
    weight = operator.weight.double()
    _check(found.kernel, (torch.diag(weight) if weight.ndim == 1 else weight.flatten(1)).numpy())
    if isinstance(operator, Linear):
        assert found.kernel.trace_norm == found.trace_norm
    assert json.loads(found.dumps())["kernel"]["l2_2"] == found.kernel.l2_2


@every(OPERATORS)
@pytest.mark.parametrize("p", [1.0, 2.0, 4.5])
def test_row_norms(operator: Operator, p: float) -> None:
    matrix = operator.to(torch.float64).dense().numpy()
    rows = (np.abs(matrix) ** p).sum(1) ** (1 / p)
    found = row_norms(operator, p)
    assert tuple(found.shape) == operator.output_shape
    np.testing.assert_allclose(found.flatten().numpy(), rows, rtol=1e-12)


def test_closed_forms() -> None:
    found = group_norms(Linear(torch.tensor([[3.0, -4.0], [0.0, 0.0], [0.0, 1.0]])))
    assert (found.l1_inf, found.l2_inf, found.l1_1, found.l2_1) == (7.0, 5.0, 8.0, 6.0)
    assert found.l1_2 == pytest.approx(math.sqrt(50), rel=1e-15)
    box = group_norms(
        Conv2d(torch.ones(1, 2, 3, 3), (2, 4, 4), padding=(1,) * 4)
    )  # corners read 4 of 9 taps
    assert (box.l1_inf, box.l1_1) == (18.0, 2 * (4 * 4 + 8 * 6 + 4 * 9))
    assert box.kernel is not None
    assert (box.kernel.l1_inf, box.kernel.l1_1) == (18.0, 18.0)
    identity = group_norms(Diagonal(torch.tensor([1.0, -2.0]), (2, 3, 3)))
    assert (identity.trace_norm, identity.l2_1, identity.l1_inf) == (27.0, 27.0, 2.0)
    assert identity.kernel is not None
    assert identity.kernel.trace_norm == 3.0


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_extreme_weights_do_not_overflow_on_the_way(scale: float) -> None:
    weight = _normal(4, 3, 3, 3).double()
    plain, scaled = (
        group_norms(Conv2d(w, (3, 5, 5), padding=(1,) * 4), trace_norms=False)
        for w in (weight, weight * scale)
    )
    for name in ("l1_inf", "l2_inf", "l1_1", "l1_2", "l2_1", "l2_2", "l3_15"):
        assert getattr(scaled, name) == pytest.approx(scale * getattr(plain, name), rel=1e-12), name


def test_zeros_and_what_was_not_asked_for() -> None:
    zero = group_norms(Conv2d(torch.zeros(2, 3, 3, 3), (3, 5, 5)))
    assert (zero.l1_inf, zero.l2_1, zero.l3_15, zero.trace_norm, zero.trace_norm_exact) == (
        0.0,
        0.0,
        0.0,
        0.0,
        True,
    )
    quick = group_norms(Linear(_normal(3, 4)), trace_norms=False)
    assert (quick.trace_norm, quick.trace_norm_exact, quick.trace_norm_standard_error) == (
        None,
        None,
        None,
    )
    assert quick.l2_2 > 0


@pytest.mark.parametrize(
    "operator",
    [
        Conv2d(_normal(12, 8, 3, 3), (8, 14, 14), padding=(1,) * 4),
        pytest.param(
            Conv2d(_normal(12, 6, 3, 3), (6, 24, 24), stride=(2, 2), padding=(1,) * 4),
            marks=pytest.mark.full,
        ),
        Conv2d((_normal(8, 2) @ _normal(2, 72)).reshape(8, 8, 3, 3), (8, 13, 13), padding=(1,) * 4),
    ],
    ids=["random", "strided", "low rank"],
)
@few_and_many("seeds", 3, 6)
def test_estimated_trace_norms_are_within_their_errors(
    operator: Operator, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = group_norms(operator).trace_norm
    assert exact is not None
    monkeypatch.setattr(spectrum_module, "EXACT_SIDE", 100)
    scores = []
    for seed in range(seeds):
        found = group_norms(operator, seed=seed)
        assert found.trace_norm_exact is False
        assert found.trace_norm is not None
        assert found.trace_norm_standard_error is not None
        assert 0 < found.trace_norm_standard_error < 0.008 * exact
        scores.append((found.trace_norm - exact) / found.trace_norm_standard_error)
    assert found == group_norms(operator, seed=seeds - 1) != group_norms(operator, seed=0)
    assert max(map(abs, scores)) < 4
    assert 0.15 < np.median(np.abs(scores)) < 2
    assert group_norms(Conv2d(torch.zeros(8, 8, 3, 3), (8, 14, 14))).trace_norm == 0.0


def _layer(operator: Operator, bias: torch.Tensor | None) -> Affine:
    return Affine(operator, bias, "conv2d" if isinstance(operator, Conv2d) else "linear")


@every(OPERATORS)
def test_distance_from_initialisation(operator: Operator) -> None:
    step = _normal(*operator.weight.shape, seed=5) * 0.1
    bias, start_bias = (
        _normal(operator.output_shape[0], seed=1),
        _normal(operator.output_shape[0], seed=2),
    )
    initial = operator.with_weight(operator.weight - step)
    found = distance_from_initialisation(_layer(operator, bias), _layer(initial, start_bias))
    change = operator.to(torch.float64).dense().numpy() - initial.to(torch.float64).dense().numpy()
    weights = operator.weight.double().numpy() - initial.weight.double().numpy()
    assert found.frobenius == pytest.approx(np.linalg.norm(weights), rel=1e-12)
    assert found.operator_frobenius == pytest.approx(np.linalg.norm(change), rel=1e-12)
    assert found.spectral == pytest.approx(np.linalg.norm(change, 2), rel=2e-6)
    assert found.l2_1 == pytest.approx(np.linalg.norm(change, axis=1).sum(), rel=1e-12)
    assert found.l1_inf == pytest.approx(np.abs(change).sum(1).max(), rel=1e-12)
    assert found.bias == pytest.approx(
        np.linalg.norm(bias.double().numpy() - start_bias.double().numpy()), rel=1e-12
    )


def test_a_layer_that_did_not_move_and_missing_biases() -> None:
    operator = Linear(_normal(4, 3))
    same = distance_from_initialisation(_layer(operator, None), _layer(operator, None))
    assert set(same.to_json().values()) == {0.0}
    bias = torch.tensor([0.0, 3.0, 4.0, 0.0])
    assert distance_from_initialisation(_layer(operator, bias), _layer(operator, None)).bias == 5.0
    assert distance_from_initialisation(_layer(operator, None), _layer(operator, bias)).bias == 5.0


@pytest.mark.parametrize(
    "other",
    [
        Conv2d(_normal(4, 3, 3, 3), (3, 6, 6)),
        Conv2d(_normal(4, 3, 3, 3), (3, 7, 6), padding=(1,) * 4),
        Conv2d(_normal(2, 3, 3, 3), (3, 6, 6), padding=(1,) * 4),
        Linear(_normal(4, 3)),
    ],
)
def test_other_layers_are_refused(other: Operator) -> None:
    layer = _layer(Conv2d(_normal(4, 3, 3, 3), (3, 6, 6), padding=(1,) * 4), None)
    with pytest.raises(BadInput, match="differ in more than their weights"):
        distance_from_initialisation(layer, _layer(other, None))


def test_nothing_is_changed() -> None:
    operator = Conv2d(_normal(4, 3, 3, 3), (3, 6, 6), padding=(1,) * 4)
    before = operator.weight.clone()
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    group_norms(operator)
    distance_from_initialisation(
        _layer(operator, None), _layer(operator.with_weight(before * 0.5), None)
    )
    assert torch.equal(before, operator.weight)
    assert torch.equal(torch_state, torch.random.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])

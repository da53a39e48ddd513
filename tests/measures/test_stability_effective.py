"""Table 1's formula by hand on made-up numbers; ζ, capacity, missing values, and the versions from
initialisation.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from torch import nn

import cushion
from cushion.data import Dataset
from cushion.data.samples import permutation
from cushion.measures.stability.effective import LayerTerms, capacity, effective_parameters
from cushion.measures.stability.family import StabilityOptions
from cushion.nets.network import Node
from cushion.nets.tracing import trace

QUICK = StabilityOptions(draws=0, attenuation_draws=0, method="exact", zeta=0.2)


def dense_node(width: int = 16) -> Node:
    return trace(
        nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2)), (3,)
    ).affine_layers[0]


def conv_node(
    kernel: tuple[int, int], stride: tuple[int, int], padding: int = 0, groups: int = 1
) -> Node:
    conv = nn.Conv2d(4, 8, kernel, stride, padding, groups=groups)
    return trace(nn.Sequential(conv, nn.Flatten()), (4, 15, 15)).affine_layers[0]


def terms(node: Node, m: int, seed: int, interlayer: bool = True) -> LayerTerms:
    rng = np.random.default_rng(seed)
    return LayerTerms(
        node,
        contraction=rng.uniform(1, 3, m),
        beta=rng.uniform(1, 2, m),
        cushion=rng.uniform(0.05, 0.9, m),
        interlayer=rng.uniform(0.01, 1.2, m) if interlayer else None,
    )


def by_hand(layer: LayerTerms, rows: list[int], overlap: float) -> float:
    """c²β²⌈κ/s⌉²/(μ²μ_→²) with the worst value of each factor over the rows."""
    c = max(layer.contraction[r] for r in rows)
    beta = max(layer.beta[r] for r in rows)
    mu = min(layer.cushion[r] for r in rows)
    later = [math.inf] * len(layer.cushion) if layer.interlayer is None else list(layer.interlayer)
    onwards = min(min(later[r] for r in rows), 1 / math.sqrt(layer.node.shape[0]))
    return c**2 * beta**2 * overlap / (mu**2 * onwards**2)


@pytest.mark.parametrize(
    ("kernel", "stride", "overlap"),
    [
        ((3, 3), (1, 1), 9),
        ((3, 3), (2, 2), 4),
        ((2, 2), (2, 2), 1),
        ((5, 3), (2, 1), 9),
        ((1, 1), (3, 3), 1),
        ((7, 7), (3, 3), 9),
        ((4, 3), (3, 2), 4),
        ((11, 11), (4, 4), 9),
    ],
)
def test_overlap_is_the_ceiling_of_kernel_over_stride_a_side(
    kernel: tuple[int, int], stride: tuple[int, int], overlap: int
) -> None:
    assert terms(conv_node(kernel, stride), 2, 0).overlap == overlap
    assert terms(conv_node(kernel, stride, padding=5, groups=2), 2, 0).overlap == overlap


def test_dense_layers_and_batch_norms_have_no_overlap() -> None:
    assert terms(dense_node(), 2, 0).overlap == 1
    norm = trace(
        nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 2, 3), nn.Flatten()).eval(), (2, 5, 5)
    )
    assert terms(norm.affine_layers[0], 2, 0).overlap == 1


@pytest.mark.parametrize("m", [1, 7, 40])
def test_table_1_by_hand(m: int) -> None:
    layers = [
        terms(dense_node(), m, 1),
        terms(conv_node((3, 3), (2, 1)), m, 2),
        terms(dense_node(2), m, 3, False),
    ]
    overlaps = [1, 6, 1]
    found = effective_parameters(layers, 0.0)
    for layer, overlap, record in zip(layers, overlaps, found, strict=True):
        expected = by_hand(layer, list(range(m)), overlap)
        assert record.value == pytest.approx(expected, rel=1e-12)
        assert record.zeta_value == record.value
        assert record.parameters == layer.node.affine.operator.parameters
        assert record.percent == pytest.approx(100 * expected / record.parameters)


def test_the_clip_is_one_over_the_root_of_the_channels() -> None:
    layer = terms(conv_node((3, 3), (1, 1)), 5, 0)
    assert layer.minimal.tolist() == np.minimum(1 / math.sqrt(8), layer.interlayer).tolist()  # type: ignore[call-overload]
    assert terms(dense_node(25), 5, 0, False).minimal.tolist() == [0.2] * 5


@pytest.mark.parametrize("zeta", ["0", "0.01", "0.05", "0.1", "0.34", "0.5", "0.99"])
@pytest.mark.parametrize("m", [1, 3, 10, 100])
def test_zeta_drops_the_worst_examples_for_the_sum_the_same_for_all_layers(
    m: int, zeta: str
) -> None:
    layers = [terms(dense_node(), m, 4), terms(conv_node((3, 3), (1, 1)), m, 5)]
    each = [
        sum(by_hand(layer, [r], n) for layer, n in zip(layers, (1, 9), strict=True))
        for r in range(m)
    ]
    dropped = math.floor(Fraction(zeta) * m)
    kept = sorted(range(m), key=lambda r: each[r])[: m - dropped]
    found = effective_parameters(layers, float(zeta))
    for layer, overlap, record in zip(layers, (1, 9), found, strict=True):
        assert record.zeta_value == pytest.approx(by_hand(layer, kept, overlap), rel=1e-12)
        assert record.zeta_value <= record.value
        assert record.value == pytest.approx(by_hand(layer, list(range(m)), overlap), rel=1e-12)


def test_zeta_counts_examples_exactly() -> None:
    one = np.ones(100)
    layer = LayerTerms(dense_node(), np.arange(1.0, 101.0), one, one, one)
    assert effective_parameters([layer], 0.29)[0].zeta_value == pytest.approx(71.0**2 * 16)


def test_missing_and_infinite_values() -> None:
    layer = terms(dense_node(), 4, 7)
    silent = LayerTerms(
        layer.node,
        np.array([2.0, math.nan, 2.0, 2.0]),
        np.array([1.0, 1.0, math.nan, 1.0]),
        np.array([0.5, 0.5, 0.5, math.nan]),
        np.array([0.1, math.nan, 0.2, 0.2]),
    )
    (record,) = effective_parameters([silent], 0.0)
    assert record.value == pytest.approx((2 / (0.5 * 0.1)) ** 2)  # what says nothing is left out
    assert silent.each()[1:].tolist()[1:] == [0.0, 0.0]
    dead = LayerTerms(layer.node, np.array([1.0, math.inf]), np.ones(2), np.ones(2), np.ones(2))
    assert effective_parameters([dead], 0.0)[0].value == math.inf
    assert effective_parameters([dead], 0.5)[0].zeta_value == pytest.approx(
        16.0
    )  # its clip is 1/√16
    zero = LayerTerms(layer.node, np.ones(2), np.ones(2), np.array([0.0, 0.5]), np.ones(2))
    (record,) = effective_parameters([zero], 0.5)
    assert record.value == math.inf
    assert record.zeta_value == pytest.approx(64.0)
    assert record.to_json()["value"] is None


def test_capacity_is_equation_2_of_the_note() -> None:
    layers = [
        terms(dense_node(), 6, 8),
        terms(conv_node((3, 3), (1, 1)), 6, 9),
        terms(dense_node(4), 6, 10, False),
    ]
    products = [float(layer.cushion.min() * layer.minimal.min()) for layer in layers]
    assert capacity(3, 1.7, layers) == pytest.approx((3 * 1.7 / min(products)) ** 2)
    zero = LayerTerms(layers[0].node, np.ones(1), np.ones(1), np.zeros(1), np.ones(1))
    assert capacity(1, 1.0, [zero]) == math.inf


@pytest.mark.parametrize("place", [0, 1, 2])
def test_capacity_does_not_depend_on_where_a_layer_stands_that_says_nothing(place: int) -> None:
    """A layer that never sees a signal has only NaN; the product of the others decides."""
    live = LayerTerms(dense_node(4), np.ones(3), np.ones(3), np.full(3, 0.5), np.full(3, 0.25))
    silent = LayerTerms(
        dense_node(4), np.ones(3), np.ones(3), np.full(3, math.nan), np.full(3, math.nan)
    )
    layers = [live, live]
    layers.insert(place, silent)
    assert capacity(3, 1.0, layers) == pytest.approx((3 / 0.125) ** 2)


def sample(case: Case, m: int, classes: int) -> Dataset:
    return Dataset("noise", case.inputs(m).numpy(), np.arange(m) % classes, classes)


def moved(case: Case, scale: float) -> nn.Module:
    """The case's net with other weights: an initialisation to measure from."""
    module = case.module()
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
    return module


@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny", "conv-stride", "mlp-batchnorm"])
def test_from_initialisation_the_distance_takes_the_place_of_the_norm(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    module, start = case.module(), moved(case, 0.1)
    data = sample(case, 10, 2)
    table = cushion.measure(module, data, only="stability", stability=QUICK, init=start)
    net, initial = trace(module, case.input_shape), trace(start, case.input_shape)
    total = 0.0
    for row, node, other in zip(
        table.layers, net.affine_layers, initial.affine_layers, strict=True
    ):
        weight = node.affine.operator.weight.double()
        distance = float((weight - other.affine.operator.weight.double()).norm())
        record, own, minimal, beta = (
            row.from_initialisation,
            row.layer_cushion,
            row.minimal_interlayer_cushion,
            row.jacobian_beta,
        )
        assert record is not None
        assert own is not None
        assert minimal is not None
        assert beta is not None
        assert row.effective_parameters is not None
        assert record.layer_cushion is not None
        assert record.effective_parameters is not None
        assert record.distance == pytest.approx(distance, rel=1e-5)
        ratio = float(weight.norm()) / distance
        assert record.layer_cushion.value == pytest.approx(own.value * ratio, rel=1e-4)
        assert record.layer_cushion.quantiles["0.5"] == pytest.approx(
            own.quantiles["0.5"] * ratio, rel=1e-4
        )
        # all rows were measured, so Table 1 follows from the worst values that the record itself
        # states
        c = 1.0 if row.activation_contraction is None else row.activation_contraction.value
        overlap = (
            row.effective_parameters.value * (own.value * minimal.value / (c * beta.value)) ** 2
        )
        kernel, stride = (
            ((3, 3), node.affine.operator.stride)
            if node.affine.kind == "conv2d"
            else ((1, 1), (1, 1))
        )  # type: ignore[attr-defined]
        assert overlap == pytest.approx(
            math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True)), rel=1e-4
        )
        assert record.effective_parameters.value == pytest.approx(
            row.effective_parameters.value / ratio**2, rel=1e-4
        )
        total += record.effective_parameters.value
        assert record.noise_sensitivity is not None
        difference = (
            node.affine.operator.with_weight(weight.float() - other.affine.operator.weight)
            .dense()
            .double()
        )
        assert row.noise_sensitivity is not None
        change = float(difference.norm() / node.affine.operator.dense().double().norm()) ** 2
        assert record.noise_sensitivity.value == pytest.approx(
            row.noise_sensitivity.value * change, rel=1e-4
        )
    whole = table.net.stability
    assert whole is not None
    assert whole.effective_parameters_from_initialisation == pytest.approx(total, rel=1e-6)
    assert whole.effective_parameters == pytest.approx(
        sum(row.effective_parameters.value for row in table.layers if row.effective_parameters),
        rel=1e-9,
    )
    assert whole.effective_parameters_zeta is not None
    assert whole.effective_parameters_zeta <= whole.effective_parameters
    worst = min(
        row.layer_cushion.value * row.minimal_interlayer_cushion.value for row in table.layers
    )  # type: ignore[union-attr]
    c = max(row.activation_contraction.value for row in table.layers if row.activation_contraction)
    assert whole.activation_contraction == c
    assert whole.capacity == pytest.approx((len(table.layers) * c / worst) ** 2, rel=1e-6)


def test_layers_that_did_not_move_have_no_version_from_initialisation() -> None:
    case = next(case for case in CASES if case.name == "mlp")
    table = cushion.measure(
        case.module(), sample(case, 6, 2), only="stability", stability=QUICK, init=moved(case, 0.0)
    )
    for row in table.layers:
        record = row.from_initialisation
        assert record is not None
        assert record.distance == 0.0
        assert record.layer_cushion is None
        assert record.noise_sensitivity is None
        assert record.effective_parameters is None
    assert table.net.stability is not None
    assert table.net.stability.effective_parameters_from_initialisation is None
    assert table.net.stability.effective_parameters is not None


@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny"])
def test_on_some_rows_the_columns_of_the_table_still_multiply(name: str) -> None:
    """Measured on 5 of 20 rows: c and μ come from all 20, the rest from the 5, as printed; ζ drops
    from the 5 alone.
    """
    case = next(case for case in CASES if case.name == name)
    data = sample(case, 20, 2)
    rows = np.sort(permutation(20, 3)[:5])
    options = StabilityOptions(
        examples=5, draws=0, attenuation_draws=0, method="exact", zeta=0.2, seed=3
    )
    some = cushion.measure(case.module(), data, only="stability", stability=options)
    few = Dataset("few", data.x[rows], data.y[rows], 2)
    alone = cushion.measure(case.module(), few, only="stability", stability=options)
    for a, b in zip(some.layers, alone.layers, strict=True):
        effective, minimal, beta = (
            a.effective_parameters,
            a.minimal_interlayer_cushion,
            a.jacobian_beta,
        )
        assert effective is not None
        assert minimal is not None
        assert beta is not None
        assert a.layer_cushion is not None
        assert b.effective_parameters is not None
        c = 1.0 if a.activation_contraction is None else a.activation_contraction.value
        overlap = 1.0
        if a.kind == "conv2d":
            stride = round(a.input_shape[1] / a.output_shape[1])
            overlap = math.prod(math.ceil(taps / stride) for taps in a.shape[2:])
        expected = (c * beta.value / (a.layer_cushion.value * minimal.value)) ** 2 * overlap
        assert effective.value == pytest.approx(expected, rel=1e-4)
        assert effective.value >= b.effective_parameters.value * (1 - 1e-4)
        assert effective.zeta_value == pytest.approx(b.effective_parameters.zeta_value, rel=1e-4)
        assert a.layer_cushion.count > 5


def test_a_layer_that_is_switched_off_for_all_examples_has_no_finite_capacity() -> None:
    """Definition 6 has no finite c if one example is switched off, and none either if all of them
    are.
    """
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        module[0].bias.fill_(-1e4)
        module[2].bias.fill_(1.0)
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    table = cushion.measure(
        module, Dataset("d", x, np.arange(6) % 2, 2), only="stability", stability=QUICK
    )
    assert table.net.stability is not None
    assert table.net.stability.activation_contraction in (None, math.inf)
    assert table.net.stability.capacity in (None, math.inf)

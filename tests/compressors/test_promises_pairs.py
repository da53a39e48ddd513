"""Lemmas 2 and 13 on pairs of layers: Jacobians by automatic differentiation, allowances by
formula, coverage.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cases import CASES
from tests.jacobian_cases import activations, brute_jacobian, traced

from cushion.compressors.perturbations import Allowance, PairRatios, check_pairs, overlap
from cushion.compressors.projection.checks import allowances, lemma_pairs
from cushion.compressors.projection.conv_project import Located
from cushion.compressors.projection.matrix_project import project
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.storing import LayerPlan, store_net
from cushion.compressors.storage.stored import Kept, Numbers
from cushion.compressors.storage.stored_net import StoredNet
from cushion.data.dataset import Dataset
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d
from cushion.nets.operators.sign_projection import sign_projection_k
from cushion.theorems.noise_stability import epsilon_of_k

NAMED = {case.name: case for case in CASES}


def moved(net: Network) -> Network:
    generator = torch.Generator().manual_seed(3)
    changes = {}
    for node in net.affine_layers:
        weight = node.affine.operator.weight
        noise = 0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        bias = node.affine.bias  # a bias that moves is no part of Δ
        changes[node.index] = replace(
            node.affine,
            operator=node.affine.operator.with_weight(weight + noise),
            bias=None if bias is None else bias + 1,
        )
    return net.with_affine(changes)


def sample(name: str, rows: int = 5) -> Dataset:
    return Dataset(name, NAMED[name].inputs(rows).numpy(), np.zeros(rows, dtype=np.int64), 3)


@pytest.mark.parametrize(
    "name", ["mlp", "mlp-deep", "vgg-tiny", "conv-overlapping", "conv-dilation", "residual"]
)
@pytest.mark.parametrize("spread", [False, True])
def test_ratios_with_jacobians_by_automatic_differentiation(name: str, spread: bool) -> None:
    net, data = traced(NAMED[name]), sample(name)
    other, layers = moved(net), net.affine_layers
    allowed = [
        Allowance(0.1 * (at + 1), node.affine.operator.frobenius(), factor=1.5, spread=spread)
        for at, node in enumerate(layers)
    ]
    found = check_pairs(
        net, other, data, allowed, probes=500
    )  # so many that every output is pulled back: exact
    assert set(found.ratios) == set(found.exact)
    reached = set()
    for row in range(len(data)):
        x = torch.from_numpy(data.x[row : row + 1]).double()
        values = activations(net, x)
        for i, node in enumerate(layers):
            v = values[node.inputs[0]]
            noise = (
                other.nodes[node.index].affine.operator.apply(v) - node.affine.operator.apply(v)
            ).flatten()
            places = math.prod(node.shape[1:])
            for j in range(i, len(layers)):
                size = node.affine.operator.output_size
                jacobian = torch.eye(size, dtype=torch.float64)
                if j > i:
                    jacobian = brute_jacobian(net, x, node, layers[j])
                norm = float(torch.linalg.matrix_norm(jacobian))
                if norm == 0:
                    continue
                limit = (
                    allowed[i].epsilon
                    * 1.5
                    * allowed[i].frobenius
                    * norm
                    * float(torch.linalg.vector_norm(v))
                )
                if spread:  # β² = places · the largest share of a place in ‖J‖² (Definition 9)
                    shares = (
                        jacobian.square().reshape(len(jacobian), -1, places).sum((0, 1)) / norm**2
                    )
                    limit *= math.sqrt(places * float(shares.max())) / math.sqrt(places)
                expected = float(torch.linalg.vector_norm(jacobian @ noise)) / limit
                assert found.ratios[i, j][row] == pytest.approx(expected, rel=1e-8), (i, j)
                reached.add((i, j))
    assert reached == set(found.ratios)
    assert found.worst(0) == max(values.max() for (i, _), values in found.ratios.items() if i == 0)


def test_a_layer_without_allowance_is_left_out_and_zero_input_is_no_error() -> None:
    net, data = traced(NAMED["mlp-no-bias"]), sample("mlp-no-bias")
    data.x[0] = 0.0
    one = Allowance(0.5, 2.0)
    found = check_pairs(net, moved(net), data, [None, one])
    assert set(found.ratios) == {(1, 1)}
    assert found.ratios[1, 1][0] == 0.0 < found.ratios[1, 1][1]
    assert found.worst(0) == 0.0
    nothing = check_pairs(net, moved(net), data, [None, replace(one, epsilon=math.inf)])
    assert not nothing.ratios[1, 1].any()
    none = check_pairs(net, moved(net), data, [None, replace(one, frobenius=0.0)])
    assert none.ratios[1, 1][1] == math.inf  # it moved although nothing was allowed


def test_probes_are_no_exact_norms() -> None:
    net, data = traced(NAMED["vgg-tiny"]), sample("vgg-tiny")
    allowed = [Allowance(0.1, 1.0) for _ in net.affine_layers]
    exact = check_pairs(net, moved(net), data, allowed, probes=500)
    some = check_pairs(net, moved(net), data, allowed, probes=4, seed=1)
    assert set(some.ratios) == set(exact.ratios)
    probed = set(some.ratios) - some.exact
    assert probed == {
        (0, 2)
    }  # (1, 2) is adjacent, (0, 1) too; 5 and 3 outputs are pulled back one by one
    for pair in set(some.ratios):
        close = 1e-9 if pair in some.exact else 1.0
        assert some.ratios[pair] == pytest.approx(exact.ratios[pair], rel=close)
    again = check_pairs(net, moved(net), data, allowed, probes=4, seed=2)
    assert (again.ratios[0, 2] != some.ratios[0, 2]).any()


# ---- allowances


def conv_net() -> tuple[Network, StoredNet]:
    net = traced(NAMED["conv-stride"])
    plans = (LayerPlan(size=2, p=3), LayerPlan(size=4000))
    return net, store_net(net, None, "conv-project", plans, NetOptions(number_bits=12), 5)


def test_the_three_allowances_by_their_formulas() -> None:
    net, stored = conv_net()
    located, dense = stored.layers
    assert isinstance(located, Located)
    first, last = allowances(net, stored, 1e-3, 2.5, [0.7, 0.9])
    # Lemma 13's k is Q⌈3/2⌉² ln²(1/η)/ε²
    assert first.epsilon == pytest.approx(math.sqrt(2.5 * 4 * math.log(1e3) ** 2 / 2))
    assert (first.spread, first.factor, first.frobenius) == (True, 1.0, 0.7)
    least = epsilon_of_k(4000, 1e-3)
    assert least is not None
    assert math.log(4 / 1e-3) / (least**2 / 4 - least**3 / 6) == pytest.approx(4000, rel=1e-9)
    rounding = dense.numbers[0].step / 2 * math.sqrt(2 * (1 + least)) / 0.9
    assert rounding > 1e-5
    assert last.epsilon == pytest.approx(least + rounding, rel=1e-10)
    assert (last.spread, last.factor, last.frobenius) == (False, 1.0, 0.9)

    shared = StoredNet(
        5, (project(net.affine_layers[0].affine.operator, 3000, 12, 5, 1), dense), stored.biases
    )
    one, _ = allowances(net, shared, 1e-3, 2.5, [0.7, 0.9])
    assert one.factor == 2.0  # ⌈3/2⌉ on both sides: √4
    assert not one.spread


def test_nothing_is_promised_of_what_is_kept_or_too_small() -> None:
    net, stored = conv_net()
    kept = Kept(Numbers.fitted(net.affine_layers[0].affine.operator.weight.numpy(), 16))
    few = project(net.affine_layers[1].affine.operator, 99, 12, 5, 2)  # 12 ln(4/η) = 99.5
    found = allowances(net, StoredNet(5, (kept, few), stored.biases), 1e-3, 1.0, [1.0, 1.0])
    assert [one.epsilon for one in found] == [math.inf, math.inf]
    enough = project(net.affine_layers[1].affine.operator, 100, 12, 5, 2)
    assert (
        allowances(net, StoredNet(5, (kept, enough), stored.biases), 1e-3, 1.0, [1.0, 1.0])[
            1
        ].epsilon
        < 1.1
    )
    still = allowances(net, StoredNet(5, (kept, enough), stored.biases), 1e-3, 1.0, [1.0, 0.0])[1]
    assert still.epsilon == math.inf  # from an initialisation that was not left: ‖A - A₀‖_F = 0


def test_pairs_as_one_check() -> None:
    ratios = PairRatios(
        {
            (0, 0): np.array([0.5, 1.5]),
            (0, 1): np.array([0.7, 0.2]),
            (1, 1): np.array([9.0, np.nan]),
        },
        frozenset({(0, 0), (1, 1)}),
    )
    finite, silent = Allowance(0.3, 1.0), Allowance(math.inf, 1.0)
    found = lemma_pairs("Lemma 2", ratios, [finite, silent], 0.0, chosen=[True, True])
    assert found.own == ((0.3, 1.5), None)
    assert (found.check.held, found.check.worst_ratio, found.check.cases) == (False, 1.5, 4)
    assert "2 pairs of layers (1 with an exact" in found.check.meaning
    kept = lemma_pairs("Lemma 2", ratios, [finite, silent], 0.5, chosen=[True, True])
    assert (kept.check.held, kept.check.worst_ratio) == (
        True,
        0.7,
    )  # an example's worst pair, without the worst example
    other = lemma_pairs("Lemma 2", ratios, [finite, finite], 0.0, chosen=[False, True])
    assert (other.own, other.check.worst_ratio) == ((None, (0.3, 9.0)), 9.0)
    unproved = lemma_pairs(
        "Lemma 2", ratios, [finite, finite], 0.0, chosen=[True, True], silent="because"
    )
    assert (unproved.check.held, unproved.check.worst_ratio) == (None, 9.0)
    assert unproved.check.meaning.endswith("; because")
    noted = lemma_pairs(
        "Lemma 13", ratios, [finite, finite], 0.0, chosen=[True, True], note="no proof"
    )
    assert (noted.check.held, noted.check.meaning.endswith("; no proof")) == (False, True)
    none = lemma_pairs("Lemma 2", ratios, [silent, silent], 0.0, chosen=[True, True])
    assert (none.check.held, none.check.worst_ratio, none.own) == (None, None, (None, None))


# ---- one kernel at every place: the factor ⌈κ/s⌉

GEOMETRIES = [  # kernel, stride, dilation, padding (above, below, left, right), groups
    ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),
    ((2, 3), (2, 1), (1, 1), (0, 0, 0, 0), 1),
    ((1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 1),
    ((3, 3), (2, 2), (2, 2), (0, 0, 0, 0), 1),
    ((3, 2), (4, 3), (2, 3), (1, 0, 0, 2), 1),
    ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 2),
]


def convolution(kernel, stride, dilation, padding, groups) -> Conv2d:  # type: ignore[no-untyped-def]
    weight = torch.randn(
        4, 2 // groups, *kernel, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    return Conv2d(weight, (2, 13, 14), stride, padding, dilation, groups)


def kernel_matrix(operator: Conv2d, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """B with uᵀ(A * v) = ⟨A, B⟩ for every kernel A: the gradient of a linear function of the
    kernel.
    """
    weight = operator.weight.clone().requires_grad_()
    image = operator.with_weight(weight).apply(v[None])
    (b,) = torch.autograd.grad((image[0] * u).sum(), weight)
    return b


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_no_number_of_the_input_is_in_more_patches(geometry: tuple) -> None:  # type: ignore[type-arg]
    """By brute force: how many places of one output channel change when one number of the input
    does.
    """
    operator = convolution(*geometry)
    ones = operator.with_weight(torch.ones_like(operator.weight))
    most = 0
    for place in itertools.product(*map(range, operator.input_shape)):
        x = torch.zeros(1, *operator.input_shape, dtype=torch.float64)
        x[(0, *place)] = 1.0
        most = max(most, int((ones.apply(x)[0] != 0).sum(dim=(1, 2)).max()))
    # reached: 13 x 14 is large enough for every one of these kernels
    assert overlap(operator) == most
    if geometry[2] == (1, 1):
        (a, b), (s, t) = geometry[:2]
        assert overlap(operator) == math.ceil(a / s) * math.ceil(b / t)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_matrix_of_one_kernel_is_no_longer_than_the_factor_says(geometry: tuple) -> None:  # type: ignore[type-arg]
    operator = convolution(*geometry)
    limit = math.sqrt(overlap(operator))
    generator = torch.Generator().manual_seed(0)
    longest = 0.0
    for trial in range(12):
        v = torch.randn(operator.input_shape, generator=generator, dtype=torch.float64)
        u = torch.randn(operator.output_shape, generator=generator, dtype=torch.float64)
        for _ in range(
            20 if trial < 6 else 0
        ):  # alternate: the u, then the v, that make ⟨B, B⟩ largest
            b = kernel_matrix(operator, u, v)
            u = operator.with_weight(b).apply(v[None])[0]
            u = u / torch.linalg.vector_norm(u)
            b = kernel_matrix(operator, u, v)
            v = operator.with_weight(b).adjoint(u[None])[0]
            v = v / torch.linalg.vector_norm(v)
        b = kernel_matrix(operator, u, v)
        ratio = float(
            torch.linalg.vector_norm(b) / torch.linalg.vector_norm(u) / torch.linalg.vector_norm(v)
        )
        longest = max(longest, ratio)
    assert longest <= limit * (1 + 1e-9)
    # Needed: 1, as for a dense layer, would not be enough where patches overlap.
    assert longest > 1 + 1e-6 if limit > 1 else longest == pytest.approx(1.0)


@pytest.mark.parametrize("stride", [1, 2])
def test_lemma_2_for_one_kernel_fails_no_more_often_than_stated(stride: int) -> None:
    """Signs of many helper strings against the direction that is hardest for the kernel, B = its
    own multiple.
    """
    weight = torch.randn(
        2, 1, 2, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    operator = Conv2d(weight, (1, 6, 6), (stride, stride))
    epsilon, eta, runs = 0.7, 0.05, 1500
    k = sign_projection_k(epsilon, eta)
    v = torch.randn(1, 6, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    u = operator.apply(v[None])[0]  # then uᵀAv = ‖Av‖²
    norm = torch.linalg.vector_norm
    limit = epsilon * math.sqrt(overlap(operator)) * norm(weight) * norm(u) * norm(v)
    # what Lemma 2 says of B itself: tighter
    own = epsilon * norm(weight) * norm(kernel_matrix(operator, u, v))
    rng = np.random.default_rng(6)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], (runs, k, weight.numel())))
    kernels = torch.einsum("rkn,rk->rn", signs, signs @ weight.flatten()) / k - weight.flatten()
    images = [
        operator.with_weight(kernel.reshape(weight.shape)).apply(v[None])[0] for kernel in kernels
    ]
    observed = torch.stack([(image * u).sum() for image in images])
    deviation = 3 * math.sqrt(eta * (1 - eta) / runs)
    assert float((observed.abs() > own).double().mean()) <= eta + deviation
    assert float((observed.abs() > limit).double().mean()) <= eta + deviation
    assert own <= limit
    # The size is the right one: at a quarter of the allowance failures are common.
    assert float((observed.abs() > own / 4).double().mean()) > 0.1

"""LocalConv2d against its definition (a loop over places), against Conv2d with equal filters, and
inside a net.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from tests.cases import CASES

from cushion.errors import BadInput
from cushion.nets.linearisation import Activations, Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operators import Conv2d, LocalConv2d
from cushion.nets.operators import conv2d as conv2d_module
from cushion.nets.operators import local_conv2d as module
from cushion.nets.tracing import trace

torch.set_num_threads(1)


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64
    )


def _random(convolution: Conv2d, seed: int) -> LocalConv2d:
    places = math.prod(convolution.output_shape[1:])
    return LocalConv2d.of(convolution, _normal(places, *convolution.weight.shape, seed=seed))


CONVOLUTIONS = [
    Conv2d(_normal(3, 2, *kernel, seed=number), (2, 6, 5), stride, padding, dilation)
    for number, (kernel, stride, padding, dilation) in enumerate(
        itertools.product(
            [(3, 3), (2, 3), (1, 1)],
            [(1, 1), (2, 1), (3, 2)],
            [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 3, 2)],
            [(1, 1), (2, 1)],
        )
    )
]
LOCAL = [_random(convolution, number) for number, convolution in enumerate(CONVOLUTIONS)]


def naive_matrix(operator: LocalConv2d) -> np.ndarray:
    """One product of one weight and one input at a time; the filter is that of the output's own
    place.
    """
    weight = operator.weight.double().numpy()
    channels, height, width = operator.input_shape
    above, _, left, _ = operator.padding
    out, rows, columns = operator.output_shape
    matrix = np.zeros((out, rows, columns, channels, height, width))
    for o, i, j, c, u, v in np.ndindex(out, rows, columns, channels, *weight.shape[3:]):
        y = i * operator.stride[0] + u * operator.dilation[0] - above
        x = j * operator.stride[1] + v * operator.dilation[1] - left
        if 0 <= y < height and 0 <= x < width:
            matrix[o, i, j, c, y, x] += weight[i * columns + j, o, c, u, v]
    return matrix.reshape(out * rows * columns, channels * height * width)


@pytest.mark.parametrize("start", range(3))
def test_every_geometry_follows_the_definition(start: int) -> None:
    for operator in LOCAL[start::3]:
        matrix = naive_matrix(operator)
        np.testing.assert_array_equal(operator.dense().numpy(), matrix)
        x, y = _normal(3, *operator.input_shape), _normal(3, *operator.output_shape, seed=1)
        np.testing.assert_allclose(
            operator.apply(x).flatten(1).numpy(), x.flatten(1).numpy() @ matrix.T, atol=1e-12
        )
        np.testing.assert_allclose(
            operator.adjoint(y).flatten(1).numpy(), y.flatten(1).numpy() @ matrix, atol=1e-12
        )
        assert operator.adjoint(y).shape == x.shape
        energies = np.square(matrix).sum(0).reshape(operator.input_shape)
        np.testing.assert_allclose(operator.column_energies().numpy(), energies, rtol=1e-12)
        assert operator.operator_frobenius() == pytest.approx(np.linalg.norm(matrix), rel=1e-12)
        largest = float(torch.linalg.svdvals(torch.from_numpy(matrix)).max())
        assert operator.spectral() == pytest.approx(largest, rel=1e-6)
        assert largest <= operator.spectral_upper() <= 1.001 * largest
        # a number is read once for every nonzero in its column of one output channel
        reads = np.count_nonzero(
            matrix.reshape(operator.output_shape[0], -1, operator.input_size), axis=1
        )
        assert operator.overlap == reads.max()


def test_equal_filters_are_a_convolution() -> None:
    for convolution in CONVOLUTIONS:
        local = LocalConv2d.of(convolution)
        assert local.output_shape == convolution.output_shape
        assert local.multiplications == convolution.multiplications
        np.testing.assert_array_equal(local.dense().numpy(), convolution.dense().numpy())
        x, y = _normal(2, *local.input_shape), _normal(2, *local.output_shape)
        bias, scale = _normal(3), _normal(3, seed=1)
        torch.testing.assert_close(local.apply(x, bias), convolution.apply(x, bias))
        torch.testing.assert_close(local.scaled(scale).apply(x), convolution.scaled(scale).apply(x))
        torch.testing.assert_close(local.adjoint(y), convolution.adjoint(y))
        torch.testing.assert_close(local.column_energies(), convolution.column_energies())
        assert local.operator_frobenius() == pytest.approx(
            convolution.operator_frobenius(), rel=1e-12
        )
        assert local.frobenius() == pytest.approx(
            convolution.frobenius(), rel=1e-12
        )  # a typical filter's norm


def test_the_bound_of_large_maps_is_above_the_norm_and_sharp_where_it_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conv2d_module, "EXPLICIT", 0)
    monkeypatch.setattr(module, "_CHUNK", 40)  # several chunks of filters
    for operator in LOCAL:
        largest = float(torch.linalg.svdvals(operator.dense()).max())
        assert largest <= operator.spectral_upper() <= math.sqrt(operator.overlap) * 3 * largest
    # patches that do not overlap: the norm is that of the worst filter (gram_upper adds up to 0.2 %
    # without a guess)
    apart = _random(Conv2d(_normal(3, 2, 2, 2), (2, 6, 4), (2, 2)), 5)
    assert apart.spectral_upper() == pytest.approx(
        float(torch.linalg.svdvals(apart.dense()).max()), rel=5e-3
    )
    # a kernel of ones on a large map: every number is read 9 times and √9·‖1‖ = 9 is nearly
    # attained by a constant
    ones = LocalConv2d.of(
        Conv2d(torch.ones(1, 1, 3, 3, dtype=torch.float64), (1, 40, 40), padding=(1, 1, 1, 1))
    )
    assert ones.spectral() <= ones.spectral_upper() <= 1.02 * ones.spectral()


def test_the_batch_in_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = LOCAL[8]
    x, y = _normal(7, *operator.input_shape), _normal(7, *operator.output_shape)
    whole = operator.apply(x), operator.adjoint(y)
    monkeypatch.setattr(
        module, "_CHUNK", 2 * len(operator.weight) * operator.weight[0, 0].numel()
    )  # two examples
    assert [len(part) for part in operator._chunks(x)] == [2, 2, 2, 1]
    torch.testing.assert_close(operator.apply(x), whole[0])
    torch.testing.assert_close(operator.adjoint(y), whole[1])
    assert operator.apply(x[:0]).shape == (0, *operator.output_shape)


def test_what_does_not_fit_is_refused() -> None:
    convolution = CONVOLUTIONS[0]
    with pytest.raises(BadInput, match="needs as many filters"):
        LocalConv2d.of(convolution, _normal(3, *convolution.weight.shape))
    with pytest.raises(BadInput, match="2 groups"):
        LocalConv2d.of(Conv2d(_normal(4, 1, 3, 3), (2, 6, 6), groups=2))
    with pytest.raises(BadInput, match="cannot have the shape"):
        LocalConv2d(_normal(3, 2, 3, 3), (2, 6, 6))
    with pytest.raises(BadInput, match="does not fit"):
        LocalConv2d(_normal(1, 3, 2, 3, 3), (2, 2, 2))
    difference = _random(convolution, 3).minus(LocalConv2d.of(convolution))
    torch.testing.assert_close(
        difference.weight, _random(convolution, 3).weight - convolution.weight
    )


def _localised(net: Network) -> Network:
    """The same net with every ungrouped convolution written as a filter at every place."""
    changes: dict[int, Affine] = {}
    for node in net.affine_layers:
        operator = node.affine.operator
        if isinstance(operator, Conv2d) and operator.groups == 1:
            changes[node.index] = Affine(
                LocalConv2d.of(operator), node.affine.bias, node.affine.kind
            )
    return net.with_affine(changes)


def test_a_net_of_local_convolutions_linearises_like_the_net_itself() -> None:
    """Pushes, pulls and energies through recorded masks: all that Linearisation does with a
    layer.
    """
    compared = 0
    for case in CASES:
        net = trace(case.module(), case.input_shape).double()
        local = _localised(net)
        if all(a is b for a, b in zip(net.nodes, local.nodes, strict=True)):
            continue
        x = _normal(3, *case.input_shape)
        torch.testing.assert_close(local.forward(x), net.forward(x))
        shown: list[list[torch.Tensor]] = []
        for one in (net, local):
            values: list[torch.Tensor] = []

            def keep(node: Node, t: torch.Tensor, values: list[torch.Tensor] = values) -> None:
                values.append(t.clone())

            linear = Linearisation(one, x)
            first, last = one.affine_layers[0], one.affine_layers[-1]
            linear.push(first, _normal(2, 3, *first.shape), keep)
            linear.pull(last, _normal(2, 1, *last.shape), keep)
            found = [linear.pull_energy(node) for node in one.affine_layers[1:]]
            values += [pair[1] for pair in found if pair is not None]
            Activations(one, x).rerun(first, _normal(3, *first.shape), keep)
            shown.append([*values, *linear.outputs.values()])
        assert len(shown[0]) == len(shown[1])
        for a, b in zip(*shown, strict=True):
            torch.testing.assert_close(a, b)
        compared += 1
    assert compared >= 3

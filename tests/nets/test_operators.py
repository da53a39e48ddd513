"""Operators against their explicit matrices, which are built tap by tap here and not by torch's
convolution.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from tests.cases import LAYERS, Layer, every
from torch import nn

from cushion.errors import BadInput
from cushion.measures.norms.layers import row_norms
from cushion.nets.operators import (
    Conv2d,
    ConvNd,
    Diagonal,
    Linear,
    Operator,
    Positionwise,
    convolution,
    fourier,
)
from cushion.nets.operators.conv2d import same_padding
from cushion.nets.operators.fourier import circular_upper
from cushion.nets.operators.norms import EXPLICIT, gram_upper
from cushion.nets.operators.path_sums import PathSums, Powers, as_map
from cushion.nets.operators.spectrum import singular_values

torch.set_num_threads(1)


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


KERNELS = [(3, 3), (2, 3), (1, 1)]
STRIDES = [(1, 1), (2, 1), (3, 2)]
PADDINGS = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 3, 2)]
DILATIONS = [(1, 1), (2, 1), (2, 3)]

CONVOLUTIONS = [
    Conv2d(
        _normal(4, 4 // groups, *kernel, seed=number), (4, 6, 7), stride, padding, dilation, groups
    )
    for number, (kernel, stride, padding, dilation, groups) in enumerate(
        itertools.product(KERNELS, STRIDES, PADDINGS, DILATIONS, (1, 2, 4))
    )
]
GENERAL = [
    ConvNd(_normal(4, 2, 3), (4, 7), (2,), (1, 0), (2,), 2),
    ConvNd(_normal(4, 4, 2), (4, 6), (1,), (0, 1), (1,)),
    ConvNd(_normal(2, 3, 2, 1, 3), (3, 3, 2, 4), (1, 2, 1), (1, 1, 0, 1, 2, 0), (1, 1, 2)),
    ConvNd(_normal(4, 3, 3, 2), (4, 3, 4), (2, 3), (1, 0, 0, 0), (1, 1), 2, transposed=True),
    ConvNd(_normal(2, 3, 2, 2), (2, 3, 3), (2, 2), (0, 0, 0, 0), (1, 1), transposed=True),
    ConvNd(_normal(3, 2, 3), (3, 5), (1,), (1, -1), (3,), transposed=True),
    ConvNd(_normal(1, 2, 2, 2, 2), (1, 2, 3, 2), (2, 1, 2), (0,) * 6, (1, 2, 1), 1, True),
    Positionwise(_normal(3, 5), (4, 5)),
    Positionwise(_normal(6, 2), (2, 3, 2)),
    Positionwise.embedding(_normal(7, 3), 4),
]
SMALL: list[Operator | Layer] = [
    *CONVOLUTIONS[::5],
    *GENERAL,
    Linear(_normal(5, 9)),
    Linear(_normal(9, 5)),
    Linear(_normal(1, 6)),
    Linear(torch.zeros(3, 4)),
    Diagonal(_normal(5), (5,)),
    Diagonal(_normal(3), (3, 2, 4)),
    *LAYERS,
]
EVERY = every(SMALL)


def naive_matrix(operator: Operator) -> np.ndarray:
    """The matrix of the map from its definition, one product of one weight and one input at a
    time.
    """
    weight = operator.weight.double().numpy()
    if isinstance(operator, Linear):
        return weight
    if isinstance(operator, Diagonal):
        return np.diag(np.repeat(weight, math.prod(operator.input_shape[1:])))
    if isinstance(operator, Positionwise):
        return np.kron(np.eye(math.prod(operator.input_shape[:-1])), weight)
    if isinstance(operator, ConvNd):
        return naive_convolution(operator)
    assert isinstance(operator, Conv2d)
    channels, height, width = operator.input_shape
    above, _, left, _ = operator.padding
    out, per_group, high, wide = weight.shape
    _, rows, columns = operator.output_shape
    matrix = np.zeros((out, rows, columns, channels, height, width))
    for o, i, j, c, u, v in np.ndindex(out, rows, columns, per_group, high, wide):
        y = i * operator.stride[0] + u * operator.dilation[0] - above
        x = j * operator.stride[1] + v * operator.dilation[1] - left
        if 0 <= y < height and 0 <= x < width:
            group = o // (out // operator.groups)
            matrix[o, i, j, group * per_group + c, y, x] += weight[o, c, u, v]
    return matrix.reshape(out * rows * columns, channels * height * width)


def naive_convolution(operator: ConvNd) -> np.ndarray:
    """In any number of dimensions: output o reads place o·stride + tap·dilation - padding. A
    transposed one is that of the larger map, turned over.
    """
    weight = operator.weight.double().numpy()
    large, small = operator.input_shape, operator.output_shape
    if operator.transposed:
        large, small = small, large
    out, per_group, *kernel = weight.shape
    matrix = np.zeros((*small, *large))
    for o, c, *tap in np.ndindex(out, per_group, *kernel):
        for place in np.ndindex(*small[1:]):
            reads = [
                at * operator.stride[k] + tap[k] * operator.dilation[k] - operator.padding[2 * k]
                for k, at in enumerate(place)
            ]
            if all(0 <= at < side for at, side in zip(reads, large[1:], strict=True)):
                group = o // (out // operator.groups)
                matrix[(o, *place, group * per_group + c, *reads)] += weight[(o, c, *tap)]
    matrix = matrix.reshape(math.prod(small), math.prod(large))
    return matrix.T if operator.transposed else matrix


def _largest(matrix: np.ndarray) -> float:
    return float(
        torch.linalg.svdvals(torch.from_numpy(matrix)).max()
    )  # torch keeps to one thread here


@EVERY
def test_matrix_adjoint_and_norms_match_the_definition(operator: Operator) -> None:
    matrix = naive_matrix(operator)
    np.testing.assert_array_equal(operator.dense().double().numpy(), matrix)
    basis = torch.eye(operator.input_size).reshape(-1, *operator.input_shape)
    np.testing.assert_allclose(
        operator.apply(basis).reshape(operator.input_size, -1).T.numpy(), matrix, atol=1e-6
    )
    assert matrix.shape == (operator.output_size, operator.input_size)

    double = operator.to(torch.float64)
    x, y = _normal(3, *operator.input_shape).double(), _normal(3, *operator.output_shape).double()
    torch.testing.assert_close((double.apply(x) * y).sum(), (x * double.adjoint(y)).sum())
    np.testing.assert_allclose(
        double.adjoint(y).reshape(3, -1).numpy(), y.reshape(3, -1).numpy() @ matrix, atol=1e-10
    )

    largest = _largest(matrix)
    assert operator.spectral() == pytest.approx(largest, rel=1e-6)
    assert operator.operator_frobenius() == pytest.approx(np.linalg.norm(matrix), rel=1e-12)
    assert operator.frobenius() == pytest.approx(float(operator.weight.double().norm()), rel=1e-12)
    assert largest <= operator.spectral_upper() <= 1.05 * largest
    assert operator.parameters == operator.weight.numel()


def test_a_wide_map_needs_no_matrix_of_its_input_size() -> None:
    operator = Linear(_normal(10, 200_000))  # a square matrix of its input size would need 320 GB
    gram = operator.weight.double() @ operator.weight.double().T
    assert operator.spectral() ** 2 == pytest.approx(
        float(torch.linalg.eigvalsh(gram).max()), rel=1e-6
    )


@pytest.mark.parametrize("start", range(3))
def test_every_combination_of_options(start: int) -> None:
    """All 243 paddings, strides, dilations and groups: the matrix, the closed-form norm, the
    circulant bound.
    """
    for operator in CONVOLUTIONS[start::3]:
        matrix = naive_matrix(operator)
        np.testing.assert_array_equal(operator.dense().double().numpy(), matrix)
        np.testing.assert_allclose(
            operator.adjoint(torch.eye(operator.output_size).reshape(-1, *operator.output_shape))
            .reshape(operator.output_size, -1)
            .numpy(),
            matrix,
            atol=1e-6,
        )
        assert operator.operator_frobenius() == pytest.approx(np.linalg.norm(matrix), rel=1e-12)
        largest = _largest(matrix)
        # loose only because the maps are tiny
        assert largest <= operator.large_upper() <= 2 * largest


def _spread(values: torch.Tensor, operator: Operator) -> torch.Tensor:
    """A number for each channel, which is the first axis but of one that acts at every position."""
    if isinstance(operator, Positionwise):
        return values
    return values.reshape(-1, *(1 for _ in operator.output_shape[1:]))


@EVERY
def test_bias_is_added_per_channel(operator: Operator) -> None:
    bias = _normal(operator.channels)
    x = _normal(2, *operator.input_shape)
    expected = operator.apply(x) + _spread(bias, operator)
    torch.testing.assert_close(operator.apply(x, bias), expected)


@EVERY
def test_scaled_multiplies_output_channels(operator: Operator) -> None:
    scale = _normal(operator.channels)
    x = _normal(2, *operator.input_shape)
    expected = operator.apply(x) * _spread(scale, operator)
    torch.testing.assert_close(operator.scaled(scale).apply(x), expected)


def test_same_padding_is_torchs() -> None:
    for kernel, dilation in itertools.product([(3, 3), (2, 4), (1, 5)], [(1, 1), (3, 2)]):
        weight, x = _normal(2, 3, *kernel), _normal(2, 3, 8, 9)
        operator = Conv2d(
            weight, (3, 8, 9), padding=same_padding(kernel, dilation), dilation=dilation
        )
        expected = torch.nn.functional.conv2d(x, weight, padding="same", dilation=dilation)
        torch.testing.assert_close(operator.apply(x), expected)


@pytest.mark.parametrize(
    "operator",
    [
        Linear(_normal(300, 180)),
        Linear(_normal(60, 700)),
        Conv2d(_normal(8, 6, 3, 3), (6, 13, 11), padding=(1, 1, 1, 1)),
        Conv2d(_normal(8, 6, 3, 3), (6, 14, 13), stride=(2, 2), padding=(1, 1, 1, 1)),
        Conv2d(_normal(12, 3, 5, 5), (6, 13, 12), padding=(2, 2, 2, 2), groups=2),
    ],
    ids=["tall", "wide", "conv", "strided", "grouped"],
)
def test_lanczos_and_upper_bound_on_larger_maps(operator: Operator) -> None:
    largest = float(torch.linalg.matrix_norm(operator.to(torch.float64).dense(), 2))
    assert operator.spectral() == pytest.approx(largest, rel=1e-6)
    # the start vector is fixed
    assert operator.spectral() == operator.to(operator.weight.dtype).spectral()
    assert largest <= operator.spectral_upper() <= 1.05 * largest


def test_norms_of_a_map_too_large_to_write_out() -> None:
    """Both are computed without the matrix here, and compared with it in parts: ‖A‖ of a depthwise
    convolution.
    """
    operator = Conv2d(_normal(16, 1, 3, 3), (16, 16, 16), padding=(1, 1, 1, 1), groups=16)
    assert operator.input_size * operator.output_size > EXPLICIT
    channels = [
        Conv2d(operator.weight[c : c + 1], (1, 16, 16), padding=(1, 1, 1, 1)) for c in range(16)
    ]
    largest = max(_largest(naive_matrix(channel)) for channel in channels)
    assert operator.spectral() == pytest.approx(largest, rel=1e-6)
    assert largest <= operator.spectral_upper() <= 1.05 * largest


def test_upper_bound_survives_ill_conditioned_and_extreme_weights() -> None:
    for scale in (1e-30, 1e-18, 1e18):
        for matrix in (_normal(40, 60) * scale, torch.ones(50, 50) * scale, torch.eye(64) * scale):
            largest = float(torch.linalg.matrix_norm(matrix.double(), 2))
            assert largest <= Linear(matrix).spectral_upper() <= 1.0001 * largest
    tiny = _normal(40, 60).double() * 1e-200
    assert gram_upper(tiny[None]) >= float(torch.linalg.matrix_norm(tiny, 2)) > 0


def test_a_wrong_guess_does_not_spoil_the_upper_bound() -> None:
    matrix = _normal(3, 20, 30).double()
    largest = float(torch.linalg.matrix_norm(matrix, 2).max())
    for guess in (0.0, 1e-3, largest * 0.999):
        assert largest <= gram_upper(matrix, guess) <= 1.02 * largest


def test_a_circular_grid_of_the_image_size_is_not_an_upper_bound() -> None:
    """The shortcut that looks right and is not: with zero padding the true norm exceeds the
    circular one.
    """
    taps = torch.tensor([-2.0, 1.0, 2.0])
    operator = Conv2d(taps.reshape(1, 1, 1, 3), (1, 1, 2), padding=(0, 0, 1, 1))
    wrapped = torch.tensor([taps[1], taps[0] + taps[2]])  # the kernel on a circle of two pixels
    circular = float(torch.fft.fft(wrapped).abs().max())
    assert circular == pytest.approx(1.0)
    assert operator.spectral() == pytest.approx(math.sqrt(5))
    assert operator.large_upper() >= math.sqrt(5)  # two pixels and two more to wrap into


def test_the_reshaped_kernel_underestimates_the_norm() -> None:
    operator = Conv2d(_normal(8, 8, 3, 3).abs(), (8, 9, 9), padding=(1, 1, 1, 1))
    reshaped = float(torch.linalg.matrix_norm(operator.weight.reshape(8, -1).double(), 2))
    assert operator.spectral() > 1.6 * reshaped


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(
        BadInput,
        match=r"a convolution with 3 input channels cannot read a feature map of shape \(4, 5, 5\)",
    ):
        Conv2d(torch.zeros(2, 3, 3, 3), (4, 5, 5))
    with pytest.raises(
        BadInput, match=r"a 3x3 kernel does not fit into a feature map of shape \(3, 2, 5\)"
    ):
        Conv2d(torch.zeros(2, 3, 3, 3), (3, 2, 5))


OPTIONS = [
    (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (4, 9)),
    (nn.Conv1d(2, 3, 4, padding="same"), (2, 7)),
    (nn.Conv1d(2, 3, 2, padding="valid"), (2, 7)),
    (nn.Conv2d(2, 3, (2, 3), stride=(2, 1), padding=(0, 1)), (2, 5, 4)),
    (nn.Conv3d(2, 2, (2, 1, 3), padding="same", dilation=(1, 1, 2)), (2, 3, 2, 4)),
    (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (4, 5)),
    (nn.ConvTranspose2d(2, 3, 3, stride=(2, 3), padding=(1, 0), output_padding=(1, 2)), (2, 3, 4)),
    (nn.ConvTranspose2d(2, 3, 2, dilation=3, output_padding=2), (2, 3, 3)),
    (nn.ConvTranspose3d(2, 2, 2, stride=2, padding=1), (2, 3, 2, 3)),
]


@pytest.mark.parametrize(("module", "shape"), OPTIONS, ids=lambda item: str(item)[:40])
def test_a_convolution_made_of_torchs_options_is_torchs(
    module: nn.Module, shape: tuple[int, ...]
) -> None:
    transposed = "Transpose" in type(module).__name__
    extra = {"output_padding": module.output_padding} if transposed else {}
    operator = convolution(
        module.weight.detach(),
        shape,
        stride=module.stride,
        padding=module.padding,
        dilation=module.dilation,
        groups=module.groups,
        transposed=transposed,
        **extra,
    )
    assert isinstance(operator, Conv2d if type(module) is nn.Conv2d else ConvNd)
    x = _normal(3, *shape)
    with torch.no_grad():
        torch.testing.assert_close(operator.apply(x, module.bias), module(x))
    sizes = operator.multiplications / operator.parameters
    small = shape if transposed else operator.output_shape
    assert sizes == math.prod(small[1:])


@pytest.mark.parametrize("operator", [o for o in GENERAL if isinstance(o, ConvNd)], ids=str)
def test_the_circular_bound_of_any_convolution_is_above_its_norm(operator: ConvNd) -> None:
    outputs = (operator.input_shape if operator.transposed else operator.output_shape)[1:]
    taken = operator.stride, operator.dilation, operator.groups
    largest = _largest(naive_matrix(operator))
    assert largest <= circular_upper(operator.weight, outputs, *taken) <= 2 * largest


@pytest.mark.parametrize(
    ("shape", "outputs", "stride", "groups"),
    [
        ((5, 4, 3, 3), (6, 7), (1, 1), 1),
        ((4, 6, 3, 2), (5, 4), (2, 1), 2),
        ((3, 3, 7), (9,), (2,), 1),
        ((2, 3, 2, 1, 3), (4, 3, 5), (1, 1, 2), 1),
        ((6, 1, 3, 3), (8, 8), (1, 1), 6),
    ],
)
def test_gram_matrices_from_correlations_are_those_of_the_fourier_blocks(
    shape: tuple[int, ...], outputs: tuple[int, ...], stride: tuple[int, ...], groups: int
) -> None:
    taps = fourier._polyphase_kernel(_normal(*shape), stride, (1,) * len(stride), groups)
    sizes = taps.shape[3:]
    grid = [places + size - 1 for places, size in zip(outputs, sizes, strict=True)]
    seen = [*grid[:-1], grid[-1] // 2 + 1]
    fast, slack = fourier._from_correlations(taps.flatten(3), sizes, grid, seen)
    naive, _ = fourier._from_blocks(taps.flatten(3), sizes, grid, seen)
    found, expected = torch.cat(list(fast)), torch.cat(list(naive))
    assert float(torch.linalg.matrix_norm(found - expected).max()) <= slack < 1e-9
    full = [torch.fft.fftn(kernel, grid, dim=tuple(range(2, 2 + len(grid)))) for kernel in taps]
    largest = max(
        float(torch.linalg.svdvals(one.flatten(2).permute(2, 0, 1)).max()) for one in full
    )
    assert float(torch.linalg.eigvalsh(found).max()) == pytest.approx(largest**2)
    for guess in (0.0, 0.9 * largest, largest):
        upper = circular_upper(_normal(*shape), outputs, stride, (1,) * len(stride), groups, guess)
        assert largest <= upper <= 1.02 * largest


def test_norms_of_a_transposed_map_too_large_to_write_out() -> None:
    """‖A‖ is that of the convolution whose adjoint it is."""
    operator = ConvNd(_normal(4, 4, 3, 3), (4, 30, 30), (2, 2), (1, 0, 1, 0), (1, 1), 1, True)
    assert operator.input_size * operator.output_size > EXPLICIT
    plain = Conv2d(operator.weight, operator.output_shape, (2, 2), (1, 0, 1, 0))
    assert plain.output_shape == operator.input_shape
    assert operator.spectral() == pytest.approx(plain.spectral(), rel=1e-6)
    assert operator.spectral() <= operator.spectral_upper() <= 1.05 * operator.spectral()


@every([*GENERAL, *CONVOLUTIONS[::40]])
def test_sums_of_powers_over_rows_and_columns_are_those_of_the_matrix(operator: Operator) -> None:
    matrix = np.abs(naive_matrix(operator))
    rows = row_norms(operator, 3.0).flatten().numpy()
    np.testing.assert_allclose(rows, (matrix**3).sum(1) ** (1 / 3), atol=1e-9)
    ones = PathSums(np.ones(as_map(operator.output_shape)), *_every_place(operator.output_shape))
    (before,) = operator.sums_before([ones], Powers([1.5]))
    assert before is not None
    found = before.expanded().ravel() * 2.0**before.exponent
    np.testing.assert_allclose(found, (matrix**1.5).sum(0), rtol=1e-6)


def _every_place(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    _, height, width = as_map(shape)
    return tuple(range(height)), tuple(range(width))


@pytest.mark.parametrize("operator", GENERAL, ids=str)
def test_a_general_map_is_rebuilt_from_its_setting(operator: Operator) -> None:
    again = type(operator).rebuild(dict(operator.setting), operator.weight)
    np.testing.assert_array_equal(again.dense().numpy(), operator.dense().numpy())


def test_all_singular_values_of_a_layer_at_every_position() -> None:
    operator = Positionwise(_normal(3, 5), (4, 5))
    expected = np.linalg.svd(naive_matrix(operator), compute_uv=False)[:12]
    np.testing.assert_allclose(singular_values(operator)[:12], expected, rtol=1e-6)


def test_general_maps_that_do_not_fit() -> None:
    with pytest.raises(BadInput, match=r"with 3 input channels cannot read a feature map of shap"):
        ConvNd(torch.zeros(2, 3, 3), (4, 5), (1,), (0, 0), (1,))
    with pytest.raises(BadInput, match="a 3 kernel does not fit into a feature map"):
        ConvNd(torch.zeros(2, 3, 3), (3, 2), (1,), (0, 0), (1,))
    with pytest.raises(BadInput, match="does not describe 3 dimensions"):
        convolution(torch.zeros(2, 3, 3, 3, 3), (3, 9, 9, 9), stride=(1, 2))
    with pytest.raises(
        BadInput, match=r"reads 5 numbers cannot read a feature map of shape \(5, 4\)"
    ):
        Positionwise(torch.zeros(3, 5), (5, 4))

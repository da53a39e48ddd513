"""A written-out map against plain matrix products, and against the convolution that it came
from.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cushion.errors import BadInput
from cushion.nets.operators import Conv2d, FlatMap

IN, OUT = (3, 2, 4), (5, 2, 2)


def flat(seed: int = 0, dtype: torch.dtype = torch.float64) -> FlatMap:
    generator = torch.Generator().manual_seed(seed)
    return FlatMap(torch.randn(20, 24, generator=generator, dtype=torch.float64).to(dtype), IN, OUT)


def batch(shape: tuple[int, ...], seed: int = 1) -> torch.Tensor:
    return torch.randn(
        3, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def test_it_applies_its_matrix_in_row_major_order() -> None:
    operator, x, bias = flat(), batch(IN), torch.arange(5.0, dtype=torch.float64)
    y = operator.apply(x, bias)
    assert tuple(y.shape) == (3, *OUT)
    for example in range(3):
        for channel in range(5):
            for row in range(2):
                for column in range(2):
                    at = channel * 4 + row * 2 + column
                    expected = sum(
                        float(operator.weight[at, i]) * float(x[example].reshape(-1)[i])
                        for i in range(24)
                    ) + float(bias[channel])  # one bias a channel
                    assert float(y[example, channel, row, column]) == pytest.approx(
                        expected, abs=1e-12
                    )
    assert torch.equal(operator.apply(x), operator.apply(x, torch.zeros(5, dtype=torch.float64)))


def test_its_adjoint_is_the_transposed_map() -> None:
    operator, x, y = flat(), batch(IN), batch(OUT, 2)
    assert tuple(operator.adjoint(y).shape) == (3, *IN)
    for example in range(3):
        left = float((operator.apply(x)[example] * y[example]).sum())
        assert left == pytest.approx(
            float((x[example] * operator.adjoint(y)[example]).sum()), rel=1e-12
        )


def test_norms_and_energies_are_those_of_the_matrix() -> None:
    operator = flat(3)
    matrix = operator.weight.numpy()
    norm = np.linalg.norm(matrix, 2)
    assert operator.spectral() == pytest.approx(norm, rel=1e-6)
    assert norm <= operator.spectral_upper() <= norm * (1 + 2e-5)
    assert (
        operator.frobenius()
        == operator.operator_frobenius()
        == pytest.approx(np.linalg.norm(matrix), rel=1e-12)
    )
    assert operator.column_energies().shape == IN
    np.testing.assert_allclose(
        operator.column_energies().reshape(-1), np.square(matrix).sum(0), rtol=1e-12
    )
    assert operator.multiplications == operator.parameters == 20 * 24
    assert torch.equal(operator.dense(), operator.weight)


def test_a_large_map_goes_through_lanczos() -> None:
    generator = torch.Generator().manual_seed(5)
    operator = FlatMap(torch.randn(120, 90, generator=generator), (10, 3, 3), (30, 2, 2))
    assert operator.spectral() == pytest.approx(
        np.linalg.norm(operator.weight.numpy(), 2), rel=1e-5
    )


def test_scaling_is_by_channel() -> None:
    operator, scale = flat(4), torch.tensor([2.0, -1.0, 0.0, 3.0, 0.5], dtype=torch.float64)
    x = batch(IN)
    expected = operator.apply(x) * scale[None, :, None, None]
    assert torch.allclose(operator.scaled(scale).apply(x), expected, rtol=1e-13)


def test_it_is_the_convolution_that_it_was_written_from() -> None:
    kernel = torch.randn(
        4, 3, 3, 3, generator=torch.Generator().manual_seed(6), dtype=torch.float64
    )
    convolution = Conv2d(kernel, (3, 5, 6), (2, 1), (1, 0, 1, 1))
    operator = FlatMap(convolution.dense(), convolution.input_shape, convolution.output_shape)
    x, bias = batch((3, 5, 6)), torch.arange(4.0, dtype=torch.float64)
    assert torch.allclose(operator.apply(x, bias), convolution.apply(x, bias), atol=1e-12)
    y = batch(convolution.output_shape)
    assert torch.allclose(operator.adjoint(y), convolution.adjoint(y), atol=1e-12)
    assert operator.operator_frobenius() == pytest.approx(
        convolution.operator_frobenius(), rel=1e-12
    )
    assert torch.allclose(operator.column_energies(), convolution.column_energies(), atol=1e-12)


def test_dtype_and_differences() -> None:
    one, other = flat(7, torch.float32), flat(8, torch.float32)
    assert one.to(torch.float64).weight.dtype == torch.float64
    assert torch.equal(one.minus(other).weight, one.weight.double() - other.weight.double())
    with pytest.raises(BadInput, match="differ"):
        one.minus(FlatMap(other.weight, (24,), (20,)))


@pytest.mark.parametrize("shape", [(24, 20), (20, 23), (480,), (20, 24, 1)])
def test_a_matrix_of_another_size_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="does not map"):
        FlatMap(torch.zeros(math.prod(shape)).reshape(shape), IN, OUT)

"""Inputs: byte shifts and float quantisers against exact fractions, odd floats, limits, and the
fitted quantiser.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import format_reader

from cushion.certificates.format.inputs import Bytes, Floats, Input, fit_floats
from cushion.errors import BadInput, Malformed

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(FLOATS, min_size=1, max_size=4),
    st.integers(-128, 128),
    st.integers(-(2**24), 2**24),
    st.integers(1, 12),
)
def test_quantised_floats_equal_exact_fractions(
    x: list[float], exponent: int, offset: int, width: int
) -> None:
    quantiser = Floats(width, (exponent,), (offset,))
    quantiser.check(len(x))
    row = np.array([x], dtype=np.float32)
    expected = format_reader.quantised(
        {"width": width, "pairs": [(exponent, offset)] * len(x)}, row[0].tolist()
    )
    with np.errstate(all="raise"):
        assert quantiser.read(row, np.float64).tolist() == [expected]
        assert quantiser.read(row, np.float32).tolist() == [expected]


def test_each_feature_has_its_own_quantiser() -> None:
    quantiser = Floats(3, (0, 1, -1), (-2, 1, 0))
    x = np.array([[0.5, 1.75, 9.0], [-1.5, 0.4, -1.0]], dtype=np.float32)
    assert quantiser.read(x, np.float32).tolist() == [[2, 2, 4], [0, 0, 0]]
    assert quantiser.largest == 7


def test_odd_floats_have_their_places() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, -0.0, 1e-45, -1e-45]], dtype=np.float32)
    assert Floats(4, (0,), (-1,)).read(x, np.float32).tolist() == [[0, 15, 0, 1, 1, 0]]


@pytest.mark.parametrize("shift", range(8))
def test_bytes_are_shifted(shift: int) -> None:
    x = np.arange(256, dtype=np.uint8)[None]
    assert Bytes(shift).read(x, np.float32).tolist() == [
        [value // 2**shift for value in range(256)]
    ]
    assert Bytes(shift).largest == 255 // 2**shift


@pytest.mark.parametrize(
    "quantiser",
    [
        Bytes(-1),
        Bytes(8),
        Floats(0, (0,), (0,)),
        Floats(13, (0,), (0,)),
        Floats(4, (129,), (0,)),
        Floats(4, (-129,), (0,)),
        Floats(4, (0,), (2**24 + 1,)),
        Floats(4, (0,), (-(2**24) - 1,)),
        Floats(4, (0, 0), (0, 0)),
        Floats(4, (0,), (0, 0)),
        Floats(4, (), ()),
    ],
)
def test_inputs_outside_the_format_are_refused(quantiser: Input) -> None:
    with pytest.raises(Malformed):
        quantiser.check(3)


def test_wrong_types_are_named() -> None:
    assert "uint8" in Bytes(0).fault(np.zeros((1, 2), dtype=np.float32))
    assert "float32" in Floats(4, (0,), (0,)).fault(np.zeros((1, 2), dtype=np.float64))
    assert not Bytes(0).fault(np.zeros((1, 2), dtype=np.uint8))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(FLOATS, min_size=2, max_size=2), min_size=1, max_size=30), st.integers(1, 12)
)
def test_a_fitted_quantiser_is_always_in_the_format(rows: list[list[float]], width: int) -> None:
    quantiser = fit_floats(np.array(rows, dtype=np.float32), width)
    quantiser.check(2)
    assert quantiser.width == width


def test_a_fitted_quantiser_uses_at_least_half_of_its_window() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4000, 3)) * [1e-3, 1.0, 1e6] + [5.0, 0.0, -3e6]).astype(np.float32)
    values = fit_floats(x, 6).read(x, np.float32)
    assert values.min() == 0
    for column in values.T:
        inner = np.quantile(column, [0.01, 0.99])
        assert inner[1] - inner[0] >= 2**5 - 2
        assert (column == 63).mean() < 0.02


def test_features_of_one_scale_share_a_quantiser() -> None:
    """Standardised columns share one window; a column that would get less than an eighth of it
    keeps all apart.
    """
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((4000, 8)) * np.linspace(0.5, 1.5, 8) + np.linspace(-1, 1, 8)).astype(
        np.float32
    )
    quantiser = fit_floats(x)
    assert len(quantiser.exponents) == len(quantiser.offsets) == 1
    for column in quantiser.read(x, np.float32).T:
        inner = np.quantile(column, [0.01, 0.99])
        assert inner[1] - inner[0] >= 2**3
        assert ((column == 0) | (column == 63)).mean() < 0.025
    constant = np.concatenate([x, np.full((4000, 1), 0.25, dtype=np.float32)], axis=1)
    assert fit_floats(constant) == quantiser
    fine = np.concatenate([x, 0.01 * x[:, :1]], axis=1)
    assert len(fit_floats(fine).exponents) == 9
    assert len(fit_floats(fine, alike=True).exponents) == 1


def test_a_constant_feature_is_split_at_its_value() -> None:
    x = np.full((10, 1), 5.0, dtype=np.float32)
    quantiser = fit_floats(x)
    seen = quantiser.read(np.array([[4.999], [5.0], [5.001]], dtype=np.float32), np.float32)
    assert seen.reshape(-1).tolist() == [0, 0, 63]
    with pytest.raises(BadInput, match="empty"):
        fit_floats(np.zeros((0, 2), dtype=np.float32))
    assert math.isfinite(fit_floats(np.full((2, 1), np.nan, dtype=np.float32)).exponents[0])

"""Rows that a sample repeats and columns that it standardised: against naive versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cushion.data import Dataset
from cushion.data.rows import count_repeated, count_shared, row_hashes
from cushion.data.standardised import _OFF, _SHARE, _are_standard, find_standardised


def naive_repeated(x: np.ndarray, y: np.ndarray) -> int:
    """Each row against all before it."""
    return sum(
        any(np.array_equal(x[i], x[j]) and y[i] == y[j] for j in range(i)) for i in range(len(x))
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 2**32),
    st.sampled_from([np.uint8, np.float32, np.int64]),
)
def test_repeated_and_shared_rows_are_those_of_double_loops(
    m: int, n: int, values: int, width: int, seed: int, kind: type
) -> None:
    rng = np.random.default_rng(seed)
    x, other = (rng.integers(0, values, (k, width)).astype(kind) for k in (m, n))
    y = rng.integers(0, 2, m)
    assert count_repeated(x, y) == naive_repeated(x, y)
    assert count_shared(other, x) == sum(any((row == one).all() for one in x) for row in other)


def test_hashes_see_every_byte_and_do_not_depend_on_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random((300, 5), dtype=np.float32)
    whole = row_hashes(x, np.arange(300) % 3)
    monkeypatch.setattr("cushion.data.streaming._PIECE", 200)
    assert np.array_equal(row_hashes(x[:, ::-1][:, ::-1], np.arange(300) % 3), whole)
    assert len(set(whole.tolist())) == 300
    for column in range(5):
        other = x.copy()
        other[:, column] = np.nextafter(other[:, column], np.float32(2))
        assert not (row_hashes(other, np.arange(300) % 3) == whole).any()
    assert not (row_hashes(x, np.arange(300) % 3 + 1) == whole).any()


def test_named_inputs_are_rows_too() -> None:
    x = np.zeros(4, [("a", np.uint8, (3,)), ("b", np.int64)])
    x["b"] = [0, 1, 0, 1]
    assert count_repeated(x, np.array([0, 0, 0, 1])) == 1


def naive_standardised(x: np.ndarray) -> bool:
    """Whether each column that is not all zeros has mean 0 and deviation 1."""
    wide = [x[:, k].astype(float) for k in range(x.shape[1]) if x[:, k].any()]
    return bool(wide) and all(
        abs(c.mean()) < 2e-5 and min(abs(c.std(ddof=d) - 1) for d in (0, 1)) < 2e-5 for c in wide
    )


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_sample_standardised_itself_is_found(seed: int, ddof: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(rng.normal(size=6) * 50, rng.random(6) * 9 + 0.1, (400, 6))
    own = ((raw - raw.mean(0)) / raw.std(0, ddof=ddof)).astype(np.float32)
    flat = np.concatenate([own, np.zeros((400, 1), np.float32)], axis=1)  # a constant column
    fresh = rng.normal(size=(400, 6)).astype(np.float32)  # under constants of the distribution
    for x in (own, flat, fresh, own[:200], raw.astype(np.float32)):
        assert (find_standardised(x) == "columns") == naive_standardised(x)
    assert find_standardised(own) == find_standardised(flat) == "columns"
    assert find_standardised(fresh) == find_standardised(own[:200]) == ""
    mixed = np.concatenate([own[:, :2], raw[:, :4].astype(np.float32)], axis=1)
    assert find_standardised(mixed) == "columns", "two columns are no accident"
    single = (raw.astype(np.float32) - raw.astype(np.float32).mean(0)) / raw.astype(np.float32).std(
        0
    )
    assert find_standardised(single) == "columns", "computed in float32"


def test_many_fresh_columns_of_many_rows_are_no_accident_either() -> None:
    """Sums of fresh rows under true constants, drawn from their laws: 2000 columns, m = 10^7."""
    m, rng = 10**7, np.random.default_rng(0)
    means = rng.normal(size=2000) / np.sqrt(m)
    squares = 1 + rng.normal(size=2000) * np.sqrt(2 / m)
    assert not _are_standard(means * m, squares * m, m, min(_OFF, _SHARE / np.sqrt(m)))
    assert _are_standard(means * m, squares * m, m, _OFF), "one tolerance would not do"
    assert _are_standard(means * 0, squares * 0 + m, m, _SHARE / np.sqrt(m))


def test_channels_and_whole_arrays_are_found_too() -> None:
    raw = np.random.default_rng(1).random((60, 3, 4, 4))
    channels = (raw - raw.mean((0, 2, 3), keepdims=True)) / raw.std((0, 2, 3), keepdims=True)
    assert find_standardised(channels.astype(np.float32)) == "channels"
    assert find_standardised(((raw - raw.mean()) / raw.std()).astype(np.float32)) == "values"
    assert find_standardised(((raw - 0.5) / 0.29).astype(np.float32)) == ""
    assert find_standardised((raw * 255).astype(np.uint8)) == ""
    assert find_standardised(np.ones((1, 2), np.float32)) == ""
    assert find_standardised(np.zeros((9, 2), np.float32)) == ""


def test_a_dataset_says_what_was_found() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((50, 2), dtype=np.float32), np.arange(50) % 2
    assert Dataset(x, y).found == {}
    assert Dataset(x, y).remarks == ()
    twice = Dataset(np.concatenate([x, x[:7]]), np.concatenate([y, y[:7]]), name="mine")
    assert twice.found == {"repeated_rows": 7}
    assert twice.remarks[0].startswith("7 rows of mine repeat earlier ones, labels included")
    own = Dataset((x - x.mean(0)) / x.std(0), y, name="mine")
    assert own.found == {"standardised": "columns"}
    assert own.doubts[0].startswith("the columns of mine have mean 0 and deviation 1 exactly")

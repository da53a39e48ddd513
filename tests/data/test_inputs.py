"""Unlabelled inputs: where they come from, their fingerprint, and rows that they share with the
sample.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from cushion.data import load_pair, subset
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs, as_inputs, count_shared, freshness_fault
from cushion.errors import BadInput


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 1, 2, 3), dtype=np.uint8)


def test_the_fingerprint_is_what_the_format_says() -> None:
    x = images(3)
    assert (
        Inputs("a", x).fingerprint
        == hashlib.sha256(b"cushion-inputs-1\n|u1 3,1,2,3\n" + x.tobytes()).hexdigest()
    )
    floats = x.astype(np.float32)
    expected = hashlib.sha256(
        b"cushion-inputs-1\n<f4 3,1,2,3\n" + floats.astype("<f4").tobytes()
    ).hexdigest()
    assert Inputs("b", floats[:, :, ::-1][:, :, ::-1]).fingerprint == expected, (
        "memory order does not matter"
    )


def test_labels_are_ignored() -> None:
    x = images(4)
    both = [
        Inputs("a", x),
        *(as_inputs(Dataset("a", x, np.array(y), 2)) for y in ([0, 1, 0, 1], [1, 1, 1, 1])),
    ]
    assert len({inputs.fingerprint for inputs in both}) == 1
    assert as_inputs(both[0]) is both[0]


def test_a_file_may_lack_labels(tmp_path: Path) -> None:
    x, other = images(4), images(2, 1)
    np.savez(tmp_path / "bare.npz", x=x, x_test=other)
    assert np.array_equal(as_inputs(str(tmp_path / "bare.npz")).x, x)
    assert np.array_equal(as_inputs(f"{tmp_path / 'bare.npz'},split=test").x, other)
    assert len(as_inputs(f"{tmp_path / 'bare.npz'},subset=3,seed=1")) == 3


def test_the_held_out_part_of_a_set() -> None:
    sample, held_out = load_pair("digits")
    assert held_out is not None
    assert np.array_equal(as_inputs("digits,split=test").x, held_out.x)
    assert np.array_equal(as_inputs("digits,split=train").x, sample.x)
    assert np.array_equal(as_inputs("digits").x, sample.x)
    assert np.array_equal(
        as_inputs("digits,split=test,subset=5,seed=2").x, subset(held_out, 5, 2).x
    )


def test_bad_sources_get_a_sentence(tmp_path: Path) -> None:
    np.savez(tmp_path / "nothing.npz", z=np.zeros(3))
    np.savez(tmp_path / "whole.npz", x=np.zeros((3, 2), np.int16))
    np.savez(tmp_path / "set.npz", x=images(3), y=np.array([0, 1, 0]))
    np.savez(tmp_path / "nan.npz", x=np.full((3, 2), np.nan, np.float32))
    for source, words in [
        ("", "empty"),
        ("digits,split=valid", "train or test"),
        ("no-such-set", "named sets"),
        (f"{tmp_path}/nothing.npz", "need the array x"),
        (f"{tmp_path}/whole.npz", "int16"),
        (f"{tmp_path}/set.npz,split=test", "need the array x_test"),
        (f"{tmp_path}/nan.npz", "NaN"),
        ("digits,frobnicate=3", "frobnicate"),
    ]:
        with pytest.raises(BadInput, match=words):
            as_inputs(source)


def test_shared_rows_are_counted_like_a_double_loop() -> None:
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(0, 2, (40, 1, 2, 2), dtype=np.uint8),
        rng.integers(0, 2, (6, 1, 2, 2), dtype=np.uint8),
    )
    naive = sum(any(np.array_equal(row, other) for other in b) for row in a)
    assert 0 < count_shared(a, b) == naive < 40
    assert count_shared(a, b.astype(np.float32)) == 0
    assert count_shared(a, b.reshape(6, 4)) == naive, "the shape of a row does not matter"


def test_one_row_of_a_sample_without_repetitions_is_too_many() -> None:
    x, mine = images(50), images(20, 1)
    assert freshness_fault(mine, x) == ""
    mine[4] = x[9]
    assert "1 of the 20 are rows of the sample" in freshness_fault(mine, x)
    for copy in (x, x[::-1], x.reshape(50, -1)):
        assert "50 of the 50" in freshness_fault(copy, x)


def test_draws_from_few_possible_rows_may_meet_but_a_copy_may_not() -> None:
    """Independent draws from 3000 equally likely rows: both parts repeat rows, and that is no
    fault.
    """
    rows = images(3000, seed=99)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        sample, mine = rows[rng.integers(0, 3000, 1000)], rows[rng.integers(0, 3000, 300)]
        assert count_shared(mine, sample) > 50
        assert freshness_fault(mine, sample) == ""
        assert freshness_fault(sample[:300], sample) != ""
    coins = np.zeros((20, 1, 1, 1), dtype=np.uint8)
    assert "10 of the 10" in freshness_fault(coins[:10], coins), "more than half of them"
    few = np.arange(40, dtype=np.float32)[np.random.default_rng(1).integers(0, 40, (80, 1))]
    assert freshness_fault(np.r_[few[:9], few[:9] + 50], few[9:]) == ""
    assert freshness_fault(coins, coins) != "", "the sample itself, whatever it repeats"
    twice = np.repeat(images(40), 2, axis=0)
    assert freshness_fault(twice[::-1], twice) != "", "the same in another order"

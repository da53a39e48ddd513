"""The counter, permutations, subsets and splits: golden values, a naive version, uniformity,
refusals.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest

from cushion.data import Dataset, permutation, split, subset
from cushion.data.counter import splitmix64, stream
from cushion.errors import BadInput

MASK = (1 << 64) - 1


def naive_splitmix64(state: int, n: int) -> list[int]:
    """The published loop on Python integers."""
    values = []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        values.append(z ^ (z >> 31))
    return values


def naive_permutation(n: int, seed: int) -> list[int]:
    state = int.from_bytes(hashlib.sha256(f"permutation {seed}".encode()).digest()[:8], "little")
    hashes = naive_splitmix64(state, n)
    return sorted(range(n), key=lambda row: hashes[row])


def numbered(n: int = 20) -> Dataset:
    return Dataset(
        "toy", np.arange(n, dtype=np.uint8)[:, None], np.arange(n, dtype=np.int64) % 4, 4
    )


@pytest.mark.parametrize("state", [0, 1234567, MASK])
def test_splitmix64_is_the_published_generator(state: int) -> None:
    assert [int(v) for v in splitmix64(state, 50)] == naive_splitmix64(state, 50)


def test_splitmix64_golden_values() -> None:
    assert [int(v) for v in splitmix64(1234567, 5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_streams_of_other_purposes_and_seeds_share_nothing() -> None:
    streams = [
        stream(purpose, seed, 100) for purpose in ("labels", "permutation") for seed in (0, 1)
    ]
    assert len(set(np.concatenate(streams).tolist())) == 400


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (1, 0), (10, 0), (1797, 0), (1000, 2**70)])
def test_permutation_equals_the_naive_one(n: int, seed: int) -> None:
    assert permutation(n, seed).tolist() == naive_permutation(n, seed)


def test_permutation_golden_values() -> None:
    """Certificates name rows by these seeds, so no release may change them."""
    assert permutation(10, 0).tolist() == [4, 7, 2, 8, 9, 3, 6, 1, 5, 0]
    digest = hashlib.sha256(permutation(1797, 0).astype("<i8").tobytes()).hexdigest()
    assert digest == "40430d0944d95e3c7ff9fbfe3545bf8cdfa9243ea9525d7156c70491f2795505"


def test_permutations_are_uniform_over_seeds() -> None:
    counts = Counter(tuple(permutation(4, seed).tolist()) for seed in range(4800))
    chi_square = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert len(counts) == 24
    assert 7 < chi_square < 50  # 23 degrees of freedom: outside with probability about 0.001


def test_subset_takes_rows_with_their_labels_and_says_so() -> None:
    part = subset(numbered(), 7, seed=3)
    rows = naive_permutation(20, 3)[:7]
    assert part.x[:, 0].tolist() == rows
    assert part.y.tolist() == [row % 4 for row in rows]
    assert part.history == ("subset: the first 7 rows of permutation(20, seed=3)",)
    assert len(subset(numbered(), 20, seed=3)) == 20


def test_split_is_disjoint_and_complete_and_says_so() -> None:
    first, rest = split(numbered(), 15, seed=5)
    assert first.x[:, 0].tolist() == subset(numbered(), 15, seed=5).x[:, 0].tolist()
    assert sorted([*first.x[:, 0].tolist(), *rest.x[:, 0].tolist()]) == list(range(20))
    assert len(rest) == 5
    assert first.history == ("split: the first 15 rows of permutation(20, seed=5)",)
    assert rest.history == ("split: the last 5 rows of permutation(20, seed=5)",)


def test_history_grows_in_order() -> None:
    part = subset(split(numbered(), 15, seed=5)[0], 3, seed=1)
    assert [step.split(":")[0] for step in part.history] == ["split", "subset"]


@pytest.mark.parametrize("n", [0, -1, 21])
def test_bad_subset_sizes(n: int) -> None:
    with pytest.raises(
        BadInput, match=f"^toy: a subset of {n} rows cannot be drawn from 20; ask for 1 to 20$"
    ):
        subset(numbered(), n, seed=0)


@pytest.mark.parametrize("n", [0, -1, 20, 21])
def test_bad_split_sizes(n: int) -> None:
    with pytest.raises(
        BadInput, match=f"^toy: 20 rows cannot be split at {n}; both parts need at least one row$"
    ):
        split(numbered(), n, seed=0)


def test_bad_seed_and_size() -> None:
    with pytest.raises(BadInput, match=r"^a seed must be a whole number of at least 0, not -1$"):
        permutation(3, -1)
    with pytest.raises(BadInput, match=r"^a permutation needs at least 0 rows, not -3$"):
        permutation(-3, 0)

"""Random labels, shuffled labels, confusion sets: what changes, what stays, and how uniform it
is.
"""

from __future__ import annotations

import numpy as np
import pytest

from cushion.data import Dataset, permutation, randomize_labels, shuffle_labels, with_confusion_set
from cushion.errors import BadInput

M, CLASSES = 2000, 10


@pytest.fixture
def sample() -> Dataset:
    """Row i holds the pixel pair (i // 256, i % 256), so a row can be recognised after it moved."""
    rows = np.arange(M)
    x = np.stack([rows // 256, rows % 256], axis=1).astype(np.uint8)
    y = (np.minimum(rows // 100, 9)).astype(np.int64)  # far from uniform: class 9 holds over half
    return Dataset("toy", x, y, CLASSES)


def rows_of(dataset: Dataset) -> list[int]:
    return [int(high) * 256 + int(low) for high, low in dataset.x]


def chi_square(labels: np.ndarray) -> float:
    expected = len(labels) / CLASSES
    return float(((np.bincount(labels, minlength=CLASSES) - expected) ** 2 / expected).sum())


def test_randomized_labels_are_uniform_and_leave_the_inputs(sample: Dataset) -> None:
    noisy = randomize_labels(sample, 1.0, seed=0)
    assert noisy.x is sample.x
    assert chi_square(sample.y) > 1000
    assert 0.5 < chi_square(noisy.y) < 30  # 9 degrees of freedom
    right = (noisy.y == sample.y).mean()
    assert 0.07 < right < 0.13  # a uniform label is the true one for a tenth of the rows
    for label in range(CLASSES):  # and it does not depend on the true label
        assert chi_square(noisy.y[sample.y == label]) < 35


def test_a_fraction_changes_only_the_chosen_rows(sample: Dataset) -> None:
    noisy = randomize_labels(sample, 0.25, seed=4)
    chosen = set(permutation(M, 4)[:500].tolist())
    changed = set(np.flatnonzero(noisy.y != sample.y).tolist())
    assert changed <= chosen
    assert 420 < len(changed) < 480  # nine tenths of 500
    assert noisy.history == ("random labels: uniform over 10 classes on 500 of 2000 rows, seed=4",)


def test_fraction_zero_changes_nothing_and_never_the_original(sample: Dataset) -> None:
    before = sample.y.copy()
    assert (randomize_labels(sample, 0.0, seed=0).y == before).all()
    randomize_labels(sample, 1.0, seed=0)
    assert (sample.y == before).all()


def test_seeds_repeat_and_differ(sample: Dataset) -> None:
    first, again, other = (randomize_labels(sample, 1.0, seed=s) for s in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert randomize_labels(sample, 1.0, seed=0).y[:12].tolist() == [
        8,
        3,
        5,
        9,
        8,
        9,
        2,
        0,
        2,
        5,
        6,
        0,
    ]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf")])
def test_bad_fraction(sample: Dataset, fraction: float) -> None:
    with pytest.raises(
        BadInput, match=f"^toy: the fraction of random labels must lie in 0 to 1, not {fraction}$"
    ):
        randomize_labels(sample, fraction, seed=0)


def test_shuffled_labels_keep_their_counts_and_lose_their_rows(sample: Dataset) -> None:
    shuffled = shuffle_labels(sample, seed=0)
    assert shuffled.x is sample.x
    assert np.bincount(shuffled.y).tolist() == np.bincount(sample.y).tolist()
    assert shuffled.y.tolist() == [int(sample.y[row]) for row in permutation(M, 0)]
    by_chance = float(((np.bincount(sample.y) / M) ** 2).sum())
    assert abs((shuffled.y == sample.y).mean() - by_chance) < 0.04
    assert shuffled.history == (
        "shuffled labels: y taken in the order of permutation(2000, seed=0)",
    )


def test_the_confusion_set_is_disjoint_and_comes_last(sample: Dataset) -> None:
    union = with_confusion_set(sample, true_size=700, confusion_size=1200, seed=0)
    rows = rows_of(union)
    assert len(set(rows)) == len(union) == 1900
    assert (union.y[:700] == sample.y[rows[:700]]).all()
    assert 0.5 < chi_square(union.y[700:]) < 30
    assert 0.07 < (union.y[700:] == sample.y[rows[700:]]).mean() < 0.13
    assert union.history == (
        "subset: the first 1900 rows of permutation(2000, seed=0)",
        "confusion set: the first 700 rows keep their true labels, the other 1200 have labels "
        "uniform over 10 classes, seed=0",
    )


def test_a_larger_confusion_set_joins_the_same_true_rows(sample: Dataset) -> None:
    small = with_confusion_set(sample, 500, 100, seed=7)
    large = with_confusion_set(sample, 500, 900, seed=7)
    assert rows_of(large)[:600] == rows_of(small)
    assert large.y[:600].tolist() == small.y.tolist()
    assert len(with_confusion_set(sample, 500, 0, seed=7)) == 500
    assert len(with_confusion_set(sample, 1500, 500, seed=7)) == 2000


def test_the_nearest_number_of_rows_gets_random_labels(sample: Dataset) -> None:
    (said,) = randomize_labels(sample, 0.00075, seed=0).history  # 1.5 rows: to even
    assert "on 2 of 2000 rows" in said


@pytest.mark.parametrize(
    ("true_size", "confusion_size", "sentence"),
    [
        (0, 5, "the true part needs at least 1 row and the confusion set at least 0, not 0 and 5"),
        (
            5,
            -1,
            "the true part needs at least 1 row and the confusion set at least 0, not 5 and -1",
        ),
        (
            1500,
            501,
            "1500 true and 501 confusion rows are more than the 2000 there are; ask for fewer",
        ),
    ],
)
def test_bad_confusion_sizes(
    sample: Dataset, true_size: int, confusion_size: int, sentence: str
) -> None:
    with pytest.raises(BadInput, match=f"^toy: {sentence}$"):
        with_confusion_set(sample, true_size, confusion_size, seed=0)

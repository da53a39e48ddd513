"""Labels as people write them: what they become, what is said, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cushion.data import Dataset, as_dataset, load_pair
from cushion.errors import BadInput


def read(y: Any, **more: Any) -> tuple[list[int], int, str]:
    """Classes, their number, and what was said."""
    x = np.arange(len(y), dtype=np.uint8)[:, None]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = Dataset(x, y, name="toy", **more)
    assert tuple(str(one.message) for one in told) == found.notes, "all that is noted is told"
    return found.y.tolist(), found.classes, "; ".join(found.notes)


@pytest.mark.parametrize(
    ("y", "classes", "many", "said"),
    [
        ([0, 1, 2], [0, 1, 2], 3, ""),
        (np.array([2, 0], np.uint8), [2, 0], 3, ""),
        ([0, 0], [0, 0], 2, ""),
        ([3, 5], [3, 5], 6, ""),
        (
            [1, 2, 3],
            [0, 1, 2],
            3,
            "labels run from 1 to 3 and were taken as classes 0 to 2; if cla",
        ),
        ([1, 3], [1, 3], 4, ""),
        ([1, 1], [1, 1], 2, ""),
        ([-1, 1, 1], [0, 1, 1], 2, "labels are -1 and 1, taken as classes 0 and 1"),
        ([True, False], [1, 0], 2, "toy: y was bool: False is class 0, True is class 1"),
        ([2.0, 0.0], [2, 0], 3, "toy: y was float64"),
        (torch.tensor([[1.0], [0.0]]), [1, 0], 2, "toy: y was float32"),
        ([[0, 1], [1, 0], [0, 1]], [1, 0, 1], 2, "toy: y was one-hot"),
        (np.array([[False, False, True]]), [2], 3, "toy: y was one-hot"),
        ([[3], [0]], [3, 0], 4, ""),
        (["dog", "cat", "dog"], [1, 0, 1], 2, "labels are text and were numbered in the order of"),
        ([b"b", b"a"], [1, 0], 2, "labels are text"),
        (["10", "9", "0"], [10, 9, 0], 11, "toy: y was text"),
        (["2", "1"], [1, 0], 2, "toy: y was text; labels run from 1 to 2"),
        (["1", "01"], [1, 0], 2, "labels are text"),
        (pd.Series(["x", "y"], dtype="category").to_numpy(), [0, 1], 2, "labels are text"),
        (np.array([1, 0], object), [1, 0], 2, ""),
    ],
)
def test_labels_with_one_meaning_are_numbered_and_it_is_said(
    y: Any, classes: list[int], many: int, said: str
) -> None:
    found = read(y)
    assert found[:2] == (classes, many)
    assert found[2].startswith(said)
    assert bool(found[2]) == bool(said)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([-1, 0, 1], "toy: y has the label -1, but classes start at 0; number the labels 0, 1, 2"),
        ([0.5, 1.0], "toy: y has the label 0.5, which is no whole number; number the classes"),
        ([np.nan, 1.0], "toy: y has the label nan"),
        ([1e300, 1.0], "which is no whole number"),
        ([[0.2, 0.8], [0.5, 0.5]], "is not one-hot; give one class for each example, such as"),
        ([[1, 1], [0, 1]], "is not one-hot"),
        ([[[0]], [[1]]], "y must be a vector of labels, not int64 \\(2, 1, 1\\)"),
        ([1, "a"], "toy: y mixes text and numbers; give all of one kind"),
        (np.array([1, "a"], object), "holds Python objects \\(int, str\\)"),
        ([10**30, 1], "toy: y has a label that no number of 64 bits holds; number the classes"),
        (np.array([0xD800, 2], np.uint32).view("<U1"), "toy: y holds text that is no Unicode"),
        (np.array([2**31, 65], np.uint32).view("<U1"), "toy: y holds text that is no Unicode"),
        (np.ma.masked_array([0, 1], [False, True]), "toy: y is a masked array; fill its masked"),
        ([None, 1], "holds Python objects"),
        ([0, 10_000], "has the label 10000, which would make more than 10000 classes"),
        (range(1, 10_002), "more than 10000 classes"),
        ([1j, 0], "must hold whole numbers or strings, not complex128"),
    ],
)
def test_labels_without_one_get_a_sentence(y: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        read(y)
    assert "\n" not in str(caught.value)


def test_text_without_characters_is_text() -> None:
    assert read(np.empty(3, np.dtype("<U0")))[:2] == ([0, 0, 0], 2)
    assert read(np.array(["b", "a"], ">U1"))[:2] == ([1, 0], 2)


def test_a_stated_number_of_classes_decides() -> None:
    assert read([1, 2, 3], classes=4) == ([1, 2, 3], 4, "")
    assert read([1, 2, 3], classes=3)[:2] == ([0, 1, 2], 3)
    assert read([1, 3], classes=3)[:2] == ([0, 2], 3), "label 3 has no other meaning"
    assert read(["a", "b"], classes=5)[1] == 5
    for y, classes, words in (
        ([0, 4], 3, "label 4 is outside the 3 classes"),
        (["a", "b", "c"], 2, "3 different labels for 2 classes"),
        ([-1, 1], 3, "has the label -1"),
    ):
        with pytest.raises(BadInput, match=words):
            read(y, classes=classes)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abcé0 ", min_size=1, max_size=2), min_size=2, max_size=30), st.data())
def test_the_held_out_part_is_numbered_as_the_sample(names: list[str], data: st.DataObject) -> None:
    """However few of the classes it has, and whether it comes as arrays or as a Dataset."""
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=10))

    def rows(y: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(y), 1), np.uint8), np.array([f"c{name}".strip("\0") for name in y])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = as_dataset(rows(names))
        order = sorted(set(rows(names)[1].tolist()))
        for held_out in (rows(some), as_dataset(rows(some))):
            found = as_dataset(held_out, like=sample)
            assert [order[k] for k in found.y] == rows(some)[1].tolist()
            assert (found.classes, found.labels) == (sample.classes, sample.labels)


def test_shifted_numbers_shift_alike() -> None:
    x = np.zeros((3, 1), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from_one, from_zero = as_dataset((x, [1, 2, 3])), as_dataset((x, [0, 1, 2]))
        ones = as_dataset((x, [1, 2, 2]))
    assert as_dataset(ones, like=from_one).y.tolist() == [0, 1, 1]
    assert as_dataset(ones, like=from_zero).y.tolist() == [1, 2, 2]
    assert as_dataset((x, [3, 3, 3]), like=from_one).y.tolist() == [2, 2, 2]
    assert as_dataset(from_zero, like=from_zero) is from_zero
    for held_out in ((x, [0, 1, 2]), from_zero):
        with pytest.raises(BadInput, match="has the label 0, which the sample lacks"):
            as_dataset(held_out, like=from_one)
    with pytest.raises(BadInput, match="labels of another kind than"):
        as_dataset((x, ["a", "b", "c"]), like=from_one)
    with pytest.raises(BadInput, match="label 2 is outside the 2 classes"):
        as_dataset((x, [0, 1, 2]), like=as_dataset((x, [0, 1, 1])))


def test_both_parts_of_a_file_say_how_labels_start(tmp_path: Path) -> None:
    x = np.zeros((3, 1), np.uint8)
    path = tmp_path / "toy.npz"
    np.savez(path, x=x, y=[1, 2, 3], x_test=x, y_test=[1, 1, 3])
    with pytest.warns(UserWarning, match="from 1 to 3") as told:
        sample, held_out = load_pair(path)
    assert held_out is not None
    assert len(told) == 1, "said once"
    assert (sample.y.tolist(), held_out.y.tolist()) == ([0, 1, 2], [0, 0, 2])
    np.savez(path, x=x, y=[1, 2, 3], x_test=x, y_test=[0, 1, 3])
    sample, _ = load_pair(path)
    assert (sample.y.tolist(), sample.classes) == ([1, 2, 3], 4)

"""Steps behind a source: each equals the function it names, in order, with one seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cushion.data import (
    load,
    load_pair,
    randomize_labels,
    shuffle_labels,
    subset,
    with_confusion_set,
)
from cushion.errors import BadInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("digits,subset=100,seed=4", lambda d: subset(d, 100, 4)),
        ("digits,seed=4,subset=100", lambda d: subset(d, 100, 4)),
        ("digits,random-labels=0.25", lambda d: randomize_labels(d, 0.25, 0)),
        ("digits,shuffle-labels,seed=2", lambda d: shuffle_labels(d, 2)),
        ("digits,confusion=200+50,seed=9", lambda d: with_confusion_set(d, 200, 50, 9)),
        (
            "digits,subset=100,random-labels=1,seed=3",
            lambda d: randomize_labels(subset(d, 100, 3), 1.0, 3),
        ),
    ],
)
def test_a_step_is_its_function(text: str, expected) -> None:
    sample, held_out = load_pair(text)
    wanted = expected(load("digits"))
    assert sample.fingerprint == wanted.fingerprint
    assert sample.history == wanted.history
    assert held_out is not None
    assert held_out.fingerprint == load("digits", "test").fingerprint


def test_a_path_with_a_comma_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a,subset=1.npz"
    np.savez(path, x=np.zeros((3, 2), np.uint8), y=np.array([0, 1, 0]))
    assert len(load(str(path))) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("digits,subset=0", "subset of 0"),
        ("digits,subset=x", "whole number"),
        ("digits,subset=", "whole number"),
        ("digits,subset=1501", "1501"),
        ("digits,random-labels=2", "0 to 1"),
        ("digits,random-labels=x", "fraction"),
        ("digits,random-labels=nan", "0 to 1"),
        ("digits,confusion=5", "confusion=10000\\+2000"),
        ("digits,confusion=5+x", "whole number"),
        ("digits,shuffle-labels=1", "not known"),
        ("digits,typo", "not known"),
        ("digits,split=test", "come together"),
        ("digits,seed=-1", "whole number"),
        ("nothing,subset=3", "nothing"),
    ],
)
def test_bad_steps_get_a_sentence(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        load_pair(text)

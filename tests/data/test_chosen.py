"""What a seed chose, in words that a certificate keeps; every step of --data has some."""

from __future__ import annotations

import numpy as np
import pytest

from cushion.data import Dataset, load_pair
from cushion.data import samples as steps
from cushion.data.chosen import are_chosen_words, chosen_words
from cushion.data.inputs import as_inputs

DATA = Dataset("rows", np.arange(60, dtype=np.uint8).reshape(60, 1), np.arange(60) % 3, 3)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (steps.subset(DATA, 20, 3), "subset=20,seed=3"),
        (steps.split(DATA, 20, 7)[0], "split=20,seed=7"),
        (steps.split(DATA, 20, 7)[1], "split=40,seed=7"),
        (steps.randomize_labels(DATA, 0.25, 1), "random-labels=15/60,seed=1"),
        (steps.shuffle_labels(DATA, 2**62), f"shuffle-labels,seed={2**62}"),
        (
            steps.with_confusion_set(DATA, 20, 5, 4),
            "subset=25,seed=4,confusion=20+5,seed=4",
        ),
        (
            steps.shuffle_labels(steps.subset(DATA, 9, 1), 0),
            "subset=9,seed=1,shuffle-labels,seed=0",
        ),
        (DATA.select(np.arange(5), "my own words \x1b[31m"), "own-step"),
        (DATA, ""),
    ],
)
def test_each_step_has_words(made: Dataset, words: str) -> None:
    assert chosen_words(made.history) == words
    assert are_chosen_words(words) == bool(words)


def test_a_named_set_s_own_split_is_nobody_s_choice() -> None:
    sample, held = load_pair("digits")
    assert chosen_words(sample.history) == ""
    assert held is None or chosen_words(held.history) == ""
    assert chosen_words(load_pair("digits,subset=100,seed=4")[0].history) == "subset=100,seed=4"


def test_inputs_keep_what_chose_them() -> None:
    assert chosen_words(as_inputs("digits,subset=50,seed=2").history) == "subset=50,seed=2"
    assert as_inputs(DATA.x).history == ()


@pytest.mark.parametrize(
    "words",
    [
        *(
            "",
            "trust me",
            "subset=20",
            "subset=20,seed=3,",
            ",subset=20,seed=3",
            "subset=20,seed=-1",
        ),
        *(
            "subset=20,seed=3\n",
            "subset=2\u0660,seed=3",
            "subset=20, seed=3",
            "own-step,own",
            7,
            None,
        ),
        *("own-step," * 60 + "own-step", ["own-step"], "subset=" + "1" * 21 + ",seed=1"),
    ],
)
def test_other_words_are_not_shown(words: object) -> None:
    assert not are_chosen_words(words)


def test_a_long_history_is_not_written_out() -> None:
    data = DATA
    for seed in range(40):
        data = steps.subset(data, 60, seed)
    assert chosen_words(data.history) == "own-step"

"""A doubt is loud where a net guesses or forgot its training, and silent elsewhere."""

from __future__ import annotations

import pytest
from torch import nn

import cushion
from cushion.cli.options import say_if_doubtful
from cushion.data.doubts import doubt_about_error
from cushion.nets.loading.weights import LoadedNet


@pytest.mark.parametrize(
    ("error", "classes", "stated", "words"),
    [
        (0.9, 10, None, "as guessing would (90.0 %)"),
        (0.82, 10, None, "as guessing would"),
        (0.80, 10, None, ""),
        (0.45, 2, None, "as guessing would (50.0 %)"),
        (0.44, 2, None, ""),
        (0.0, 10, 0.0, ""),
        (0.05, 10, 0.0, ""),
        (0.06, 10, 0.0, "but 0.0 % were stated"),
        (0.30, 10, 0.25, ""),
        (0.36, 10, 0.25, ""),
        (0.38, 10, 0.25, "but 25.0 % were stated"),
        (0.9, 10, 0.1, "but 10.0 % were stated"),
        (0.9, 10, 0.9, ""),
    ],
)
def test_what_is_doubted(error: float, classes: int, stated: float | None, words: str) -> None:
    said = doubt_about_error(error, classes, stated)
    assert (words in said) if words else not said
    assert not said or said.startswith(f"the net errs on {100 * error:.1f} % of its own training")
    assert not said or "is the input scaled as in training?" in said


def test_the_recorded_error_is_compared_on_the_very_data_that_it_is_about(
    recwarn: pytest.WarningsRecorder,
) -> None:
    data = cushion.load("digits,subset=20")
    meta = {"data_fingerprint": data.fingerprint, "metrics": {"train_error": 0.01}}
    say_if_doubtful(LoadedNet(nn.Identity(), None, meta), data, 0.02)
    say_if_doubtful(LoadedNet(nn.Identity(), None, {**meta, "data_fingerprint": ""}), data, 0.3)
    say_if_doubtful(LoadedNet(nn.Identity(), None, {}), data, 0.3)
    assert not recwarn.list
    say_if_doubtful(LoadedNet(nn.Identity(), None, meta), data, 0.3)
    assert [str(one.message)[:75] for one in recwarn.list] == [
        "the net errs on 30.0 % of its own training data, but 1.0 % were stated: is "
    ]

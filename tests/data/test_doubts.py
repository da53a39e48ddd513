"""A doubt is loud where a net guesses or forgot its training, and silent elsewhere."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import cushion
from cushion.cli.options import stated_error
from cushion.data.doubts import doubts_about_error
from cushion.errors import Remark
from cushion.nets.loading.weights import LoadedNet


@pytest.mark.parametrize(
    ("error", "classes", "stated", "words"),
    [
        (0.9, 10, None, "as guessing would (90.0 %)"),
        (0.82, 10, None, "as guessing would"),
        (0.80, 10, None, ""),
        (0.45, 2, None, "as guessing would (50.0 %)"),
        (0.44, 2, None, ""),
        (0.995, 4, None, "(75.0 %), so its classes are probably numbered otherwise"),
        (0.995, 4, 0.01, "but 1.0 % were stated: that is worse than guessing"),
        (0.80, 4, None, "as guessing would (75.0 %)"),
        (1.0, 1000, None, "as guessing would (99.9 %)"),
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
    said = " ".join(doubts_about_error(error, classes, stated))
    assert (words in said) if words else not said
    assert not said or said.startswith(f"the net errs on {100 * error:.1f} % of its own training")
    asked = "numbered otherwise" if "worse than guessing" in said else "scaled as in training?"
    assert not said or asked in said


def test_the_recorded_error_is_that_of_the_very_data_that_it_is_about() -> None:
    data = cushion.load("digits,subset=20")
    meta = {"data_fingerprint": data.fingerprint, "metrics": {"train_error": 0.01}}
    assert stated_error(LoadedNet(nn.Identity(), None, meta), data) == 0.01
    other = {**meta, "data_fingerprint": ""}
    assert stated_error(LoadedNet(nn.Identity(), None, other), data) is None
    assert stated_error(LoadedNet(nn.Identity(), None, {}), data) is None
    assert stated_error(LoadedNet(nn.Identity(), None, meta), None) is None


def test_python_is_warned_at_its_own_line() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 2))
    x = torch.randn(40, 4)
    right = net(x).argmax(1)
    for call in (cushion.measure, cushion.bounds):
        with pytest.warns(Remark, match="errs on 100.0 % of its own") as said:
            call(net, (x, 1 - right))  # type: ignore[operator]
        assert {one.filename for one in said} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error", Remark)
        cushion.measure(net, (x, 1 - right), only="margins", stated_error=1.0)
        cushion.measure(net, (x, right), only="margins")

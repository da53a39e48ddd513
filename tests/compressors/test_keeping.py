"""compress without a method: the net on a grid, small, and its error kept."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kept_nets import CLASSES, blobs, naive_errors, traced, trained
from torch import nn

import cushion
from cushion.compressors.file import read_compressed
from cushion.compressors.tuning import course as courses
from cushion.compressors.tuning.learner import Learner, Pace, Regime
from cushion.compressors.tuning.options import KeepOptions
from cushion.errors import BadInput
from cushion.numerics import float_up
from cushion.theorems.occam import occam_bound


def naive_bound(k: int, m: int) -> float:
    """The p at which k or fewer errors of m are as likely as 0.05, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        tail = math.fsum(math.comb(m, i) * p**i * (1 - p) ** (m - i) for i in range(k + 1))
        low, high = (p, high) if tail > 0.05 else (low, p)
    return high


def test_by_default_the_net_is_small_and_errs_at_most_a_point_more(
    net: nn.Module, sample: cushion.Dataset, tmp_path: Path
) -> None:
    before = {name: part.clone() for name, part in net.state_dict().items()}
    held = blobs(400, 1)
    found = cushion.compress(net, sample, holdout=held, epochs=10)
    summary, file = found.summary, found.save(tmp_path / "small.net")
    assert summary.method == "rate"
    assert summary.met
    assert summary.bytes == file.stat().st_size
    assert summary.bytes_before == 4 * sum(part.numel() for part in net.parameters())
    assert summary.bytes < summary.bytes_before / 4
    small = cushion.load_compressed(file)
    assert summary.errors_before == naive_errors(net, sample)
    assert summary.errors == naive_errors(small, sample)
    assert summary.errors <= summary.errors_before + 6  # a point of 600
    assert summary.holdout_errors == naive_errors(small, held)
    assert summary.holdout_errors_before == naive_errors(net, held)
    assert summary.holdout_bound >= naive_bound(summary.holdout_errors, 400)
    assert summary.holdout_bound == pytest.approx(
        naive_bound(summary.holdout_errors, 400), abs=1e-6
    )
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())


def test_what_was_tried_is_told_and_one_is_taken(net: nn.Module, sample: cushion.Dataset) -> None:
    summary = cushion.compress(net, sample, epochs=1).summary
    (taken,) = [one for one in summary.tried if one.chosen]
    assert taken.front
    assert taken.bytes == summary.bytes
    allowed = summary.errors_before + 6
    fit = [one.bytes for one in summary.tried if one.checked_errors <= allowed]
    assert taken.bytes == min(fit)
    expected = occam_bound(summary.errors, 600, 8 * summary.bytes, Decimal("0.05"))
    assert taken.bound == float_up(expected)
    layers = summary.layers
    assert [one.before for one in layers] == [(24, 8), (12, 24), (3, 12)]
    assert sum(one.numbers for one in layers) <= taken.parameters
    # its layers and heads are the file
    assert sum(one.bits for one in layers) < 8 * summary.bytes
    json.dumps(summary.to_json(), allow_nan=False)


def test_a_size_is_reached_and_the_error_is_the_least_tried(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    summary = cushion.compress(net, sample, max_size="330B", epochs=2).summary
    assert summary.met
    assert summary.bytes <= 330
    fits = [one.checked_errors for one in summary.tried if one.bytes <= 330]
    assert summary.errors == min(fits)


def test_what_cannot_be_met_is_said_and_the_nearest_returned(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    summary = cushion.compress(net, sample, max_size="40B", epochs=1).summary
    assert not summary.met
    assert summary.bytes == min(one.bytes for one in summary.tried)
    wrong = cushion.Dataset(sample.x, (sample.y + 1) % CLASSES)
    summary = cushion.compress(net, wrong, max_error="0.1%", epochs=0).summary
    assert not summary.met
    assert summary.errors == min(one.checked_errors for one in summary.tried)


def test_the_smallest_bound_is_that_of_all_that_was_tried(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    summary = cushion.compress(net, sample, min_bound=True, epochs=1).summary
    assert summary.bound <= min(one.bound for one in summary.tried)
    assert summary.met


def test_without_training_only_grids_are_tried(net: nn.Module, sample: cushion.Dataset) -> None:
    summary = cushion.compress(net, sample, epochs=0).summary
    assert all("untrained" in one.asked for one in summary.tried)
    assert summary.met


def test_validation_rows_are_not_trained_on_and_decide(
    net: nn.Module, sample: cushion.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = courses.Learner.epoch

    def epoch(self: Learner, number: int, pace: Pace) -> float:
        seen.append(len(self.sample))
        return real(self, number, pace)

    monkeypatch.setattr(courses.Learner, "epoch", epoch)
    summary = cushion.compress(net, sample, validation=0.25, epochs=1).summary
    assert set(seen) == {450}
    assert summary.validation_rows == 150
    assert summary.validation_errors is not None
    assert summary.validation_errors_before is not None
    assert summary.validation_errors <= summary.validation_errors_before + 1
    assert summary.errors >= summary.validation_errors
    assert all(one.validation_error is not None for one in summary.tried)


def test_what_is_told_of_a_ruined_net_is_about_that_net(tmp_path: Path) -> None:
    """Far from NET, so that no number of the one can pass for one of the other."""
    x = np.random.default_rng(3).normal(size=(1000, 8)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    sample, held = cushion.Dataset(x[:600], y[:600]), cushion.Dataset(x[600:], y[600:])
    torch.manual_seed(0)
    net = trained(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)), sample)
    how = {"max_size": "1B", "epochs": 3, "holdout": held, "validation": 0.25}
    found = cushion.compress(net, sample, **how)  # type: ignore[arg-type]
    summary, small = found.summary, cushion.load_compressed(found.save(tmp_path / "n"))
    assert summary.holdout_errors_before == naive_errors(net, held)
    assert summary.holdout_errors == naive_errors(small, held)
    assert summary.holdout_errors > summary.holdout_errors_before + 20
    expected = naive_bound(summary.holdout_errors, 400)
    assert summary.holdout_bound == pytest.approx(expected, abs=1e-6)
    assert (summary.errors_before, summary.errors) == (
        naive_errors(net, sample),
        naive_errors(small, sample),
    )
    (taken,) = [one for one in summary.tried if one.chosen]
    bits = 8 * (tmp_path / "n").stat().st_size
    assert taken.bound == float_up(occam_bound(summary.errors, 600, bits, Decimal("0.05")))


def test_validation_rows_may_lie_beside_the_sample(net: nn.Module, sample: cushion.Dataset) -> None:
    other = blobs(300, 7)
    summary = cushion.compress(net, sample, validation=other, epochs=1).summary
    assert summary.validation_rows == 300
    assert summary.validation_errors_before == naive_errors(net, other)
    assert summary.validation_errors <= summary.validation_errors_before + 3
    assert (summary.m, summary.errors_before) == (600, naive_errors(net, sample))
    (taken,) = [one for one in summary.tried if one.chosen]
    assert taken.train_error == summary.errors / 600
    with pytest.raises(BadInput, match="does not take `validation`"):
        cushion.compress(net, sample, validation=other, method="low-rank")
    with pytest.raises(BadInput):  # rows of the sample
        cushion.compress(net, sample, validation=sample, epochs=0)


def test_the_certificate_is_about_the_net_in_the_file(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    many = blobs(4000, 3)
    net = trained(nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)), many)
    found = cushion.compress(net, many, epochs=1)
    assert found.certificate is not None
    assert found.bound < 0.5
    file = found.certificate.save(tmp_path / "c.cushion")
    assert cushion.verify(file, many).ok
    assert abs(found.certificate.claim.errors - found.summary.errors) < 20  # rows in whole numbers


def test_sizes_before_are_those_of_the_users_module(sample: cushion.Dataset) -> None:
    shared = nn.Linear(8, 8)
    twice = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(8, 3))
    summary = cushion.compress(twice, sample, epochs=0).summary
    assert (summary.parameters_before, summary.bytes_before) == (72 + 27, 4 * (72 + 27))
    for kind, size in ((torch.float64, 8), (torch.float16, 2)):
        net = nn.Sequential(nn.Linear(8, 3)).to(kind)
        assert cushion.compress(net, sample, epochs=0).summary.bytes_before == 27 * size


def test_what_no_certificate_can_hold_is_said_before_the_training(
    net: nn.Module, sample: cushion.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> float:
        raise AssertionError

    monkeypatch.setattr(Learner, "epoch", never)
    with pytest.raises(BadInput, match="there is no certificate for this net"):  # tanh
        cushion.compress(net, sample, certified=True)


def test_targets_may_be_numbers_and_inference_mode_is_no_matter(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    with torch.inference_mode():
        assert cushion.compress(net, sample, lose=2.0, epochs=1).summary.met
    summary = cushion.compress(net, sample, max_error=0.5, epochs=0).summary
    assert summary.target == "at most 50 % of errors"
    assert cushion.compress(net, sample, max_size=3000, epochs=0).summary.met


def test_small_sets_are_shown_more_often() -> None:
    options = KeepOptions()
    assert [options.epochs_on(m) for m in (400, 4000, 60_000)] == [100, 10, 5]
    assert KeepOptions(epochs=2).epochs_on(400) == 2


# ---- refusals


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"augment": "moved"}, "`augment` = moved is for images"),
        ({"augment": "upside-down"}, "`augment` must be one of none, moved, crop-flip"),
        ({"validation": 0.0001}, "leaves none on a side"),
        ({"lose": "1", "max_error": "3%"}, "are two targets"),
        ({"sparsity": 0.9}, "`method` = rate does not take `sparsity`"),
        ({"lr": 0.0}, "`lr` must be"),
        ({"seed": -1}, "`seed` = -1"),
    ],
)
def test_refusals(
    net: nn.Module, sample: cushion.Dataset, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        cushion.compress(net, sample, **given)


def test_a_diverging_training_is_one_sentence(net: nn.Module, sample: cushion.Dataset) -> None:
    broken = Learner(traced(net), sample, Regime(lr=1.0))
    broken.net.affine_layers[0].affine.operator.weight.data[0, 0] = math.nan
    with pytest.raises(BadInput, match="diverged in epoch 1; lower `lr`"):
        broken.epoch(0, Pace((1.0, 1.0), (1.0, 1.0)))


def test_a_net_is_needed(sample: cushion.Dataset) -> None:
    with pytest.raises(BadInput, match="`method` = rate compresses a trained net"):
        cushion.compress(None, sample, method="rate")
    with pytest.raises(BadInput, match="leave `resume` out"):
        cushion.compress(None, sample, method="integer", resume="here", minutes=0.01)


def test_a_file_is_no_longer_than_it_has_to_be(
    net: nn.Module, sample: cushion.Dataset, tmp_path: Path
) -> None:
    found = cushion.compress(net, sample, epochs=1)
    again = read_compressed(found.save(tmp_path / "n"))
    message = (again.stored.bits + 7) // 8
    assert found.summary.bytes - message < 130  # the graph of five layers, deflated, and the rest

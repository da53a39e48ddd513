"""compress without a method: the net on a grid, small, and its error kept."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion import progress
from cushion.compressors.file import read_compressed
from cushion.compressors.tuning import course as courses
from cushion.compressors.tuning import memory
from cushion.compressors.tuning.learner import Learner, Pace, Regime, State, count
from cushion.compressors.tuning.memory import Folder
from cushion.compressors.tuning.options import KeepOptions
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.theorems.occam import parse_delta

CLASSES = 3


def blobs(m: int, seed: int) -> cushion.Dataset:
    """Two informative numbers among eight, classes that overlap a little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, size=m)
    x = rng.normal(size=(m, 8)).astype(np.float32)
    x[:, 0] += 4 * np.cos(2 * np.pi * y / CLASSES)
    x[:, 1] += 4 * np.sin(2 * np.pi * y / CLASSES)
    return cushion.Dataset(x, y.astype(np.int64))


@pytest.fixture(scope="module")
def sample() -> cushion.Dataset:
    return blobs(600, 0)


def trained(net: nn.Module, sample: cushion.Dataset) -> nn.Module:
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    x, y = torch.from_numpy(sample.x.copy()), torch.from_numpy(sample.y.copy())
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


@pytest.fixture(scope="module")
def net(sample: cushion.Dataset) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 3))
    return trained(net, sample)


def traced(net: nn.Module) -> Network:
    return cushion.trace(net, (8,))


def naive_errors(net: nn.Module, data: cushion.Dataset) -> int:
    with torch.no_grad():
        scores = net(torch.from_numpy(data.x.copy())).tolist()
    wrong = 0
    for row, label in zip(scores, data.y.tolist(), strict=True):
        wrong += any(other >= row[label] for at, other in enumerate(row) if at != label)
    return wrong


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
    assert taken.bound == pytest.approx(
        float(
            cushion.compressors.tuning.keep.occam_bound(
                summary.errors, 600, 8 * summary.bytes, parse_delta("0.05")
            )
        ),
        abs=1e-6,
    )
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


# ---- the learner


def learner(net: nn.Module, sample: cushion.Dataset, **regime: Any) -> Learner:
    return Learner(traced(net), sample, Regime(batch=50, **regime))


def numbers(state: State) -> list[torch.Tensor]:
    nets = [state.net, *state.moments.values()]
    parts = [node.affine for one in nets for node in one.affine_layers]
    return [part.operator.weight for part in parts] + [p.bias for p in parts if p.bias is not None]


def test_an_epoch_follows_from_seed_number_and_state(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    pace, one = Pace((1.0, 0.5), (2.0, 2.0)), learner(net, sample)
    one.epoch(0, pace)
    one.narrow()
    between = one.state()
    one.epoch(1, pace)
    other = learner(net, sample)
    other.take(between)
    other.epoch(1, pace)
    for a, b in zip(numbers(one.state()), numbers(other.state()), strict=True):
        assert torch.equal(a, b)


def test_a_state_is_a_copy(net: nn.Module, sample: cushion.Dataset) -> None:
    one = learner(net, sample)
    state = one.state()
    kept = [part.clone() for part in numbers(state)]
    one.epoch(0, Pace((1.0, 1.0), (1.0, 1.0)))
    assert all(torch.equal(a, b) for a, b in zip(numbers(state), kept, strict=True))
    moved = numbers(one.state())
    assert not all(torch.equal(a, b) for a, b in zip(moved[:3], kept[:3], strict=True))


def test_units_that_were_dropped_change_no_answer(net: nn.Module, sample: cushion.Dataset) -> None:
    one = learner(net, sample)
    for epoch in range(4):
        one.epoch(epoch, Pace((1.0, 1.0), (8.0, 8.0)))
    before, wrong = one.rounded_net(), count(one.rounded_net(), sample)
    one.narrow()
    after = one.rounded_net()
    assert after.parameters < before.parameters
    assert count(after, sample) == wrong
    x = torch.from_numpy(sample.x.copy())
    assert torch.allclose(after.forward(x), before.forward(x), atol=1e-5)
    frame, stored = one.stored()
    assert torch.equal(stored.network(frame).forward(x), after.forward(x)) or torch.allclose(
        stored.network(frame).forward(x), after.forward(x), atol=1e-5
    )


def test_a_stronger_price_makes_a_smaller_message(net: nn.Module, sample: cushion.Dataset) -> None:
    bits = []
    for strength in (0.1, 1.0, 10.0):
        one = Learner(traced(net), sample, Regime(batch=10))
        for epoch in range(4):
            one.epoch(epoch, Pace((1.0, 0.1), (strength, strength)))
        bits.append(one.stored()[1].bits)
    assert bits[0] > bits[1] > bits[2]


def test_with_all_of_the_loss_from_the_net_no_label_matters(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    other = cushion.Dataset(sample.x, (sample.y + 1) % CLASSES)
    pace, states = Pace((1.0, 1.0), (1.0, 1.0)), []
    for distil in (1.0, 0.0):
        for data in (sample, other):
            one = Learner(traced(net), data, Regime(batch=50, distil=distil))
            # the order of the rows follows from the seed, not from the labels
            one.epoch(0, pace)
            states.append(numbers(one.state())[0])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[2], states[3])


def test_a_grid_gets_coarser_once_its_weights_are_many_steps(
    net: nn.Module, sample: cushion.Dataset
) -> None:
    one = learner(net, sample)
    first, *rest = [node.index for node in one.net.affine_layers]
    one.net.nodes[first].affine.operator.weight.data *= 4
    before = dict(one.exponents)
    one.coarsen()
    assert one.exponents[first] == before[first] + 1
    assert [one.exponents[at] for at in rest] == [before[at] for at in rest]
    one.narrow()
    assert one.state().exponents == one.exponents


class _Course:
    """A learner that learns nothing, for a course whose ranks are given."""

    def __init__(self) -> None:
        self.paces: list[tuple[int, Pace]] = []
        self.taken: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    def state(self) -> Any:
        return SimpleNamespace(net=None, at=len(self.paces))

    def take(self, state: Any) -> None:
        self.taken.append(state.at)

    def epoch(self, number: int, pace: Pace) -> None:
        self.paces.append((number, pace))

    def stored(self) -> tuple[None, None]:
        return None, None


def test_a_course_climbs_until_nothing_gets_better_and_looks_on_either_side() -> None:
    ranks = iter([5, 4, 3, 3.5, 3.6, 2.9, 9])
    one = _Course()
    course = courses.Course(
        one,
        2,
        lambda _: (next(ranks),),
        memory.Forgetful(),
        progress.Bar("", None),  # type: ignore[arg-type]
    )
    course._untrained = lambda _: None  # type: ignore[method-assign]
    course.run()
    strengths = [pace.strength[0] for _, pace in one.paces[::2]]
    assert strengths == pytest.approx(
        [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2**-2 * 2**0.5, 2**-2 / 2**0.5]
    )
    assert one.taken[-2:] == [6, 4]  # from the end of the best, and from its start
    assert len({number for number, _ in one.paces}) == len(one.paces)
    assert all(pace.rate[0] > pace.rate[1] > 0 for _, pace in one.paces)
    assert next(ranks, None) is None


def test_a_price_that_nothing_is_worth_leaves_a_constant_net(sample: cushion.Dataset) -> None:
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
    one = Learner(traced(net), sample, Regime(batch=10))
    for epoch in range(3):
        one.epoch(epoch, Pace((1.0, 1.0), (1e4, 1e4)))
        one.narrow()
    frame, stored = one.stored()
    assert stored.network(frame).parameters < 20
    assert not any(
        node.affine.operator.weight.any() for node in stored.network(frame).affine_layers
    )


# ---- killed and resumed


class Stop(Exception):
    pass


def run(net: nn.Module, sample: cushion.Dataset, folder: Path | None) -> Any:
    return cushion.compress(net, sample, epochs=2, resume=folder)


def test_what_was_climbed_is_not_climbed_again_and_the_file_is_the_same(
    net: nn.Module, sample: cushion.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(net, sample, None)
    real, calls = Learner.epoch, [0]

    def epoch(self: Learner, number: int, pace: Pace) -> float:
        if calls[0] == 5:
            raise Stop
        calls[0] += 1
        return real(self, number, pace)

    monkeypatch.setattr(Learner, "epoch", epoch)
    with pytest.raises(Stop):
        run(net, sample, tmp_path / "part")
    assert sorted(path.name for path in (tmp_path / "part").glob("rung*")) == [
        "rung-0.safetensors",
        "rung-1.safetensors",
        "rung-2.safetensors",
    ]
    calls[0] = -1000
    again = run(net, sample, tmp_path / "part")
    assert again.net.to_bytes() == whole.net.to_bytes()
    assert again.summary == whole.summary
    total = 2 * sum("strength" in one.asked for one in whole.summary.tried)
    assert calls[0] == -1000 + total - 5
    assert not (tmp_path / "part").exists()


def test_another_run_begins_anew_and_other_folders_are_left_alone(tmp_path: Path) -> None:
    first = Folder.of(tmp_path / "part", seed=0)
    (first.path / "rung-0.safetensors").write_bytes(b"damaged")
    (first.path / "mine.txt").write_text("...")
    assert Folder.of(tmp_path / "part", seed=0).recall(0) is None  # damaged: trained again
    Folder.of(tmp_path / "part", seed=1)
    assert not (tmp_path / "part" / "rung-0.safetensors").exists()
    assert (tmp_path / "part" / "mine.txt").exists()
    Folder.of(tmp_path / "part", seed=1).forget()
    assert [one.name for one in (tmp_path / "part").iterdir()] == ["mine.txt"]
    (tmp_path / "link").symlink_to(tmp_path / "part")
    with pytest.raises(BadInput, match="link is in the way"):
        Folder.of(tmp_path / "link", seed=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("...")
    (tmp_path / "mine" / "which.json").write_text("{}")
    with pytest.raises(BadInput, match="mine is in the way"):
        Folder.of(tmp_path / "mine", seed=0)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_an_interrupt_keeps_the_best_so_far(
    net: nn.Module, sample: cushion.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Learner.epoch, [0]

    def epoch(self: Learner, number: int, pace: Pace) -> float:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return real(self, number, pace)

    monkeypatch.setattr(Learner, "epoch", epoch)
    summary = cushion.compress(net, sample, epochs=1).summary
    assert summary.interrupted
    assert summary.met
    assert sum("strength" in one.asked for one in summary.tried) == 3


@pytest.mark.full
def test_kill_9_anywhere_and_the_same_file(
    net: nn.Module, sample: cushion.Dataset, tmp_path: Path
) -> None:
    torch.save(net.state_dict(), tmp_path / "w.pt")
    np.savez(tmp_path / "d.npz", x=sample.x, y=sample.y)
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 12), nn.Tanh(),"
        " nn.Linear(12, 3))\n"
    )

    def command(out: str) -> list[str]:
        words = f"compress mine.py:net --weights w.pt --data d.npz --epochs 2 -o {out}"
        return [sys.executable, "-m", "cushion", *words.split()]

    quiet: Any = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command("whole.net"), check=True, **quiet)
    for kill in range(8):
        with subprocess.Popen(command("killed.net"), **quiet) as process:
            deadline = time.monotonic() + 60
            some = kill + 1
            while len(list(tmp_path.glob("killed.net.part/rung*"))) < some:
                if process.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
    subprocess.run(command("killed.net"), check=True, **quiet)
    assert (tmp_path / "killed.net").read_bytes() == (tmp_path / "whole.net").read_bytes()
    assert not (tmp_path / "killed.net.part").exists()


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

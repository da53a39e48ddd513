"""--batch on every verb that streams a net over rows: memory and time follow it, no answer does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import Tensor, nn

import cushion
from cushion.certificates.answers import answer, score
from cushion.cli import build_parser
from cushion.errors import BadInput
from cushion.nets.batch_size import USUAL, batches, rows_at_a_time

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 256, (40, 6), dtype=np.uint8), np.arange(40) % 2
NET = "net.py:make --data d.npz"


class Memory(deque[int]):
    """An object of its own kind: what it holds is no part of a program."""


class Watched(nn.Sequential):
    """Remembers how many rows it was given at a time."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.seen = Memory()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        return super().forward(x)  # type: ignore[no-any-return]


@pytest.fixture
def net() -> Watched:
    torch.manual_seed(0)
    return Watched(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", x=X, y=Y)
    np.savez("u.npz", x=255 - X, y=Y)
    made = "torch.manual_seed(0)\n    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), "
    lines = f"import torch\nfrom torch import nn\ndef make():\n    {made}nn.Linear(4, 2))\n"
    Path("net.py").write_text(lines)
    return tmp_path


def numbers(value: Any) -> Iterator[Any]:
    """All leaves of a JSON value; floats as pytest compares them, rounding apart."""
    if isinstance(value, dict):
        for key in value:
            yield key
            yield from numbers(value[key])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from numbers(one)
    else:
        yield pytest.approx(value, rel=1e-4, abs=1e-6) if isinstance(value, float) else value


def test_every_verb_that_streams_a_net_has_the_flag() -> None:
    actions = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    having = {verb for verb in actions if "--batch" in actions[verb]._option_string_actions}
    assert having == {"measure", "bounds", "compress", "certify", "verify"}


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_bounds_do_not_depend_on_it(net: Watched, batch: int) -> None:
    usual = cushion.bounds(net, (X, Y)).to_json()
    assert list(numbers(cushion.bounds(net, (X, Y), batch=batch).to_json())) == list(numbers(usual))


@pytest.mark.parametrize("method", ["low-rank", "magnitude", "heavy-tail"])
def test_compressed_nets_do_not_depend_on_it(net: Watched, method: str) -> None:
    how: dict[str, Any] = {"method": method} | ({"k": 1} if method == "low-rank" else {})
    found = [cushion.compress(net, (X, Y), batch=b, **how).summary for b in (None, 7)]
    assert list(numbers(found[0].to_json())) == list(numbers(found[1].to_json()))


@pytest.mark.parametrize("batch", [1, 2, 7, 40])
def test_a_teacher_is_asked_so_many_rows_at_a_time(net: Watched, batch: int) -> None:
    usual = score(net, X)
    net.seen.clear()
    with batches(batch):
        found = score(net, X)
    assert max(net.seen) <= max(batch, 2)  # two rows are also scored by themselves
    assert net.seen.count(batch) >= len(X) // batch
    assert torch.allclose(found, usual, atol=1e-6)


def test_certify_asks_and_verify_replays_by_it(net: Watched, tmp_path: Path) -> None:
    file, fresh = tmp_path / "c.cushion", 255 - X
    how: dict[str, Any] = {"method": "supermask", "steps": 5, "unlabelled": (fresh, Y)}
    usual = cushion.certify(net, (X, Y), **how)
    net.seen.clear()
    found = cushion.certify(net, (X, Y), batch=8, device="cpu", **how)
    assert max(net.seen) == 8
    assert (found.claim.bound, found.message) == (usual.claim.bound, usual.message)
    found.save(file)
    net.seen.clear()
    verdict = cushion.verify(file, (X, Y), model=net, unlabelled=(fresh, Y), batch=8, device="cpu")
    assert verdict.ok
    assert "transfer" in verdict.replayed
    assert max(net.seen) == 8


def test_the_command_line_hands_it_on(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = f"certify --net {NET} --unlabelled u.npz --method supermask --steps 5 --json -"
    answers = [ask(capsys, *how.split(), "-o", "c", *more) for more in ([], ["--batch", "3"])]
    assert answers[0][:2] == answers[1][:2]
    check = f"verify c --net {NET} --unlabelled u.npz --batch 3"
    assert ask(capsys, *check.split())[0] == 0


@pytest.mark.parametrize("verb", ["measure", "bounds", "compress --method low-rank -o o"])
@pytest.mark.parametrize("value", ["0", "-1", "2.5", "x", ""])
def test_a_bad_value_is_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], verb: str, value: str
) -> None:
    first, *rest = verb.split()
    code, out, err = ask(capsys, first, *NET.split(), *rest, f"--batch={value}")
    assert (code, out) == (2, "")
    assert "--batch: must be a whole number of at least 1" in err


@pytest.mark.parametrize("verb", ["certify -o o", "verify o", "compress --method integer -o o"])
def test_without_a_net_it_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    code, _, err = ask(capsys, *verb.split(), "--data", "d.npz", "--batch", "8")
    assert code == 2
    assert "--batch says how a net answers; give " in err


@pytest.mark.parametrize("batch", [0, -3, 2.5, True, "8"])
def test_python_refuses_bad_values_too(net: Watched, batch: Any) -> None:
    for verb in (cushion.bounds, cushion.certify):
        with pytest.raises(BadInput, match="`batch` must be a whole number of at least 1, not"):
            verb(net, (X, Y), batch=batch)


def test_outside_it_is_as_before() -> None:
    with batches(3):
        assert rows_at_a_time() == 3
        with batches(None):
            assert rows_at_a_time() == 3
    with pytest.raises(ZeroDivisionError), batches(3):
        raise ZeroDivisionError
    assert rows_at_a_time() == USUAL


def test_memory_that_runs_out_halves_the_batch_of_answers_too(
    net: Watched, recwarn: pytest.WarningsRecorder
) -> None:
    usual = answer(net, X)
    whole = net.forward

    def forward(x: Tensor) -> Tensor:
        if len(x) > 10:
            raise MemoryError
        return whole(x)

    net.forward = forward  # type: ignore[method-assign]
    found = answer(net, X)
    assert np.array_equal(found.classes, usual.classes)
    said = [str(one.message) for one in recwarn if "memory ran out" in str(one.message)]
    assert said == ["memory ran out, so batches of 10 rows were taken instead of 40"]

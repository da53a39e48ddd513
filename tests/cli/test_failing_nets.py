"""A net that raises on some rows is a refusal in its own words that names the rows, and no bug."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

from cushion.errors import BadInput
from cushion.nets.calling import NetFailed, words_of_net
from cushion.nets.engine import map_shards

CODE = """
import torch
from torch import nn

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.last = nn.Embedding(50, 8), nn.Linear(8, 2)
    def forward(self, ids):
        return self.last(self.look_up(ids).mean(1))

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(5, 2)
    def forward(self, x):
        if len(x) > 20:
            raise RuntimeError("room for 20 rows.\\nsecond line")
        return self.last(x)

def tokens():
    torch.manual_seed(0)
    return Tokens()

def small():
    torch.manual_seed(0)
    return Small()

def large():
    torch.manual_seed(0)
    net = small()
    net.forward = net.last.forward
    return net
"""
Capture = pytest.CaptureFixture[str]
SMALL = "(RuntimeError: room for 20 rows)"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 50, (600, 6))
    np.savez("held.npz", x=ids[500:], y=ids[500:, 0] % 2)
    ids[430, 3] = 50
    np.savez("tokens.npz", x=ids[:500], y=ids[:500, 0] % 2)
    x = rng.normal(size=(400, 5)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    np.savez("d.npz", x=x[:200], y=y[:200])
    np.savez("h.npz", x=x[200:300], y=y[200:300])
    np.savez("u.npz", x=x[300:])
    return tmp_path


@pytest.mark.parametrize(
    "argv",
    [
        ("certify", "--data", "tokens.npz", "--holdout", "held.npz", "--net", "mine.py:tokens"),
        ("measure", "mine.py:tokens", "--data", "tokens.npz"),
        ("bounds", "mine.py:tokens", "--data", "tokens.npz"),
    ],
)
def test_a_token_that_the_net_does_not_know_is_refused_with_its_rows(
    argv: tuple[str, ...], capsys: Capture
) -> None:
    code, out, err = ask(capsys, *argv, *(("-o", "f") if argv[0] == "certify" else ()))
    assert (code, out, Path("f").exists()) == (2, "", False)
    said = "the net failed on rows 256 to 499 of 500, counted from 0 (IndexError: index out of"
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("more", "rows"),
    [
        (("--holdout", "h.npz"), "0 to 199 of 200"),
        (("--kind", "holdout", "--holdout", "h.npz"), "0 to 199 of 200"),
        (("--kind", "occam", "--method", "subspace", "--steps", "2"), "0 to 199 of 200"),
        (("--unlabelled", "u.npz"), "0 to 199 of 200"),
        (("--unlabelled", "u.npz", "--batch", "50"), "0 to 49 of 200"),
    ],
)
def test_a_net_without_room_for_a_batch_is_refused_by_every_kind(
    more: tuple[str, ...], rows: str, capsys: Capture
) -> None:
    argv = ("certify", "--data", "d.npz", "--net", "mine.py:small", "-o", "f", *more)
    code, out, err = ask(capsys, *argv)
    assert (code, out, Path("f").exists()) == (2, "", False)
    assert rows in err
    assert SMALL in err
    assert "fewer of them at a time (--batch)" in err
    assert ask(capsys, *argv, "--batch", "20")[0] == 0


def test_verify_says_where_the_net_failed_but_of_rows_under_a_ledger_nothing(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ("--kind", "holdout", "--holdout", "h.npz", "--net", "mine.py:large")
    assert ask(capsys, "certify", *argv, "-o", "f")[0] == 0
    again = ("--holdout", "h.npz", "--net", "mine.py:small")
    code, _, err = ask(capsys, "verify", "f", *again)
    assert (code, SMALL in err) == (2, True)
    np.savez("fresh.npz", x=np.load("u.npz")["x"], y=np.arange(100) % 2)
    assert ask(capsys, "holdout", "open", "fresh.npz", "-o", "h.looks")[0] == 0
    look = ("--holdout", "fresh.npz", "--looks", "h.looks")
    argv = ("--kind", "holdout", *look, "--net", "mine.py:large")
    assert ask(capsys, "certify", *argv, "-o", "g")[0] == 0
    code, out, err = ask(capsys, "verify", "g", *look, "--net", "mine.py:small")
    assert (code, err) == (1, "")
    assert "this is not the net f" in out, "another net is not asked about these rows"
    assert "20 rows" not in out
    code, out, err = ask(capsys, "certify", "--kind", "holdout", *look, "--net", "mine.py:small")
    assert "20 rows" not in out + err

    def fails(*_: object, **__: object) -> None:
        raise IndexError("row 7 of 20 rows")

    monkeypatch.setattr("cushion.certificates.answers.answer", fails)
    code, out, err = ask(capsys, "verify", "g", *look, "--net", "mine.py:large")
    assert (code, out, "how must not be told" in err) == (2, "", True)
    assert "row 7" not in err


def test_only_what_a_module_raises_is_the_nets_own() -> None:
    class Lost(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("lost")

    def bug(_: slice) -> dict[str, torch.Tensor]:
        raise KeyError("ours")

    def net(_: slice) -> dict[str, torch.Tensor]:
        Lost()(torch.ones(1))
        return {}

    with pytest.raises(KeyError, match="ours"):
        map_shards(5, 2, bug)  # type: ignore[arg-type]
    with pytest.raises(NetFailed, match=r"rows 0 to 1 of 5.*\(KeyError: 'lost'\)"):
        map_shards(5, 2, net)  # type: ignore[arg-type]
    assert words_of_net(BadInput("no")) == ""

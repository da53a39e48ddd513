"""cushion holdout and cushion certify --kind holdout, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

from cushion.data import load_pair

FACTORY = (
    "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mine.py and the weights of a net after few steps and after many."""
    folder = tmp_path_factory.mktemp("nets")
    (folder / "mine.py").write_text(FACTORY)
    data, _ = load_pair("digits")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    x, y = torch.from_numpy(data.x).float() / 255, torch.from_numpy(data.y)
    for step in range(101):
        if step in (4, 100):
            torch.save(net.state_dict(), folder / f"{step}.pt")
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return folder


@pytest.fixture
def place(nets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own(nets: Path, steps: int = 100) -> list[str]:
    return ["--net", f"{nets}/mine.py:net", "--weights", f"{nets}/{steps}.pt"]


def certify(nets: Path, *more: str, steps: int = 100, data: str = "digits") -> list[str]:
    flags = ["--data", data, "--kind", "holdout", "-o", "f.cushion"]
    return ["certify", *own(nets, steps), *flags, *more]


def test_five_lines_say_what_is_proved_on_what_and_how_to_check_it(
    capsys: Capture, nets: Path, place: Path
) -> None:
    code, out, _ = ask(capsys, *certify(nets))
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 5
    assert lines[0].startswith("With probability at least 95 %, your net f errs on at most")
    assert "of the 297 held-out examples of digits test; that this is their first use" in lines[1]
    command = lines[-1].removeprefix("Check it with: cushion ")
    assert command.startswith("verify f.cushion --net")
    code, out, _ = ask(capsys, *command.split())
    assert (code, out.splitlines()[0]) == (0, "ok: arithmetic, message and replay all hold")


def test_every_line_is_printed_and_in_the_json(capsys: Capture, nets: Path, place: Path) -> None:
    asked = ["--per-class", "--top-k", "3", "--selective", "15%"]
    code, out, _ = ask(capsys, *certify(nets, *asked))
    assert code == 0
    assert all(f"of class {number} it errs on at most" in out for number in range(10))
    assert "it answers at least" in out
    code, out, _ = ask(capsys, *certify(nets, *asked, "--json", "-"))
    obj = json.loads(out)
    assert (obj["kind"], obj["about"], obj["look"], len(obj["lines"])) == ("holdout", "f", None, 11)
    assert obj["selective"]["risk"] == pytest.approx(0.15)
    code, out, _ = ask(capsys, "inspect", "f.cushion")
    assert code == 0
    assert "errors of what is answered" in out


def test_a_ledger_from_open_to_close(capsys: Capture, nets: Path, place: Path) -> None:
    code, out, _ = ask(capsys, "holdout", "open", "digits", "-o", "H.looks")
    assert code == 0
    assert "the ledger of 297 held-out examples of digits test" in out
    code, out, _ = ask(capsys, *certify(nets, "--looks", "H.looks", steps=4))
    assert code == 0
    assert "This is look 1" in out
    code, out, _ = ask(capsys, *certify(nets, "--looks", "H.looks"))
    assert code == 0
    assert "This is look 2; it pays the 9 bits" in out
    command = out.splitlines()[-1].removeprefix("Check it with: cushion ")
    code, out, _ = ask(capsys, *command.split())
    assert (code, out.splitlines()[0]) == (0, "ok: arithmetic, message and replay all hold")
    Path("f.cushion").unlink()
    code, out, err = ask(capsys, *certify(nets, "--looks", "H.looks", "--top-k", "2", steps=4))
    assert (code, err) == (1, "")
    assert out.startswith("Your net is no better than the best so far")
    assert out.count("\n") == 1
    assert not Path("f.cushion").exists()
    code, out, _ = ask(capsys, "holdout", "status", "H.looks")
    assert "3 looks; the next one costs" in out
    code, out, _ = ask(capsys, "holdout", "status", "H.looks", "--json", "-")
    obj = json.loads(out)
    assert (obj["looks"], obj["closed"]) == (3, False)
    assert obj["price"] > 0
    code, out, _ = ask(capsys, "holdout", "close", "H.looks")
    assert (code, "closed after 3 looks" in out) == (0, True)
    code, _, err = ask(capsys, *certify(nets, "--looks", "H.looks", "--top-k", "3"))
    assert (code, "is closed" in err) == (2, True)


def test_other_verbs_do_without_rows_under_a_ledger_or_refuse_them(
    capsys: Capture, nets: Path, place: Path
) -> None:
    _, test = load_pair("digits")
    assert test is not None
    np.savez("h.npz", x=test.x, y=test.y)
    np.savez("few.npz", x=test.x[5:9], y=test.y[5:9])
    assert ask(capsys, "holdout", "open", "digits", "-o", "H.looks")[0] == 0
    net = own(nets)[1:]
    for file in ("h.npz", "few.npz"):
        for argv in (
            ["measure", *net, "--data", file, "--only", "margins"],
            ["bounds", *net, "--data", file],
            ["compress", *net, "--data", file, "--method", "magnitude", "-o", "g"],
            ["train", "small", "--data", file, "-o", "run", "--epochs", "1"],
            ["certify", "--data", file, "-o", "g.cushion"],
            ["certify", "--net", *net, "--data", "digits", "--unlabelled", file, "-o", "g.cushion"],
            ["certify", "--net", *net, "--kind", "holdout", "--holdout", file, "-o", "g.cushion"],
            ["holdout", "open", file, "-o", "again.looks"],
        ):
            code, out, err = ask(capsys, *argv)
            assert (code, out) == (2, ""), (argv, out)
            said = err.splitlines()[-1]
            assert "under the ledger of looks" in said, (argv, err)
    assert not list(Path().glob("g*"))
    code, out, err = ask(capsys, "bounds", *net, "--data", "digits")
    assert code == 0
    assert "held-out" not in out.splitlines()[0]
    assert "going on without them" in err
    code, out, err = ask(capsys, "train", "small", "--data", "digits", "-o", "run", "--epochs", "1")
    assert code == 0
    assert "test_error" not in out


def refusals(nets: Path) -> list[tuple[list[str], str]]:
    net = own(nets)
    kind = ["--kind", "holdout", "-o", "f.cushion"]
    return [
        (["certify", "--data", "digits", *kind], "give --net"),
        (["certify", *net, *kind], "needs held-out rows"),
        (["certify", *net, "--data", "digits", *kind, "--minutes", "1"], "--minutes does not"),
        (["certify", *net, "--data", "digits", *kind, "--unlabelled", "x"], "--unlabelled does"),
        (["certify", "--data", "digits", "-o", "g.cushion", "--top-k", "2"], "--top-k belongs to"),
        (["certify", "--data", "digits", "-o", "g.cushion", "--holdout", "h"], "--holdout belongs"),
        (["certify", "-o", "g.cushion"], "--data is missing"),
        (["certify", *net, "--data", "digits", *kind, "--top-k", "10"], "--top-k 10 of 10 classes"),
        (["certify", *net, "--data", "digits", *kind, "--selective", "2"], "--selective 2 must"),
        (["certify", *net, "--data", "digits", *kind, "--looks", "none"], "none: cannot be"),
        (["holdout", "open", "nothing", "-o", "H.looks"], "no such file"),
        (["holdout", "open", "digits", "-o", "H.looks", "--delta", "2"], "delta"),
        (["holdout", "status", "mine.looks"], "cannot be read"),
        (["verify", "f.cushion"], "--data is missing"),
    ]


@pytest.mark.parametrize("at", range(14))
def test_bad_input_gets_one_sentence(capsys: Capture, nets: Path, place: Path, at: int) -> None:
    argv, said = refusals(nets)[at]
    code, out, err = ask(capsys, *argv)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1], err
    assert "Traceback" not in err
    assert not [file for file in place.iterdir() if file.name != "store"]


def test_held_out_rows_of_their_own_need_no_sample(
    capsys: Capture, nets: Path, place: Path
) -> None:
    _, test = load_pair("digits")
    assert test is not None
    np.savez("h.npz", x=test.x, y=test.y)
    argv: list[Any] = ["certify", *own(nets), "--kind", "holdout", "--holdout", "h.npz"]
    assert ask(capsys, *argv, "-o", "a.cushion")[0] == 0
    assert ask(capsys, "verify", "a.cushion", *own(nets), "--holdout", "h.npz")[0] == 0
    code, out, _ = ask(capsys, "holdout", "open", "h.npz", "-o", "H.looks")
    assert (code, "--holdout h.npz" in out) == (0, True)
    assert ask(capsys, *argv, "-o", "b.cushion", "--looks", "H.looks")[0] == 0
    check = ["verify", "b.cushion", *own(nets), "--holdout", "h.npz", "--looks", "H.looks"]
    assert ask(capsys, *check)[0] == 0

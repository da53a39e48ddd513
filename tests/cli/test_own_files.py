"""What a command writes is never over what it reads: the user's own code, and what lies beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.centres import HELD, SAMPLE
from tests.command_line import ask

CODE = """
from torch import nn

def net():
    return nn.Linear(3, 3)

def fit(x, y, seed):
    return nn.Linear(3, 3)
"""
Capture = pytest.CaptureFixture[str]
CERTIFY = ("certify", "--data", "d.npz")
FIT = (*CERTIFY, "--kind", "picks", "--fit", "mine.py:fit", "--groups", "5")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)
    Path("link.py").symlink_to("mine.py")
    np.savez("d.npz", x=SAMPLE.x, y=SAMPLE.y, x_test=HELD.x, y_test=HELD.y)
    return tmp_path


@pytest.mark.parametrize("written", ["mine.py", "link.py", "./mine.py"])
@pytest.mark.parametrize(
    ("argv", "flag", "what"),
    [
        ((*CERTIFY, "--net", "mine.py:net"), "-o", "the net itself"),
        ((*CERTIFY, "--net", "link.py:net", "-o", "f"), "--json", "the net itself"),
        ((*CERTIFY, "--kind", "holdout", "--net", "mine.py:net"), "-o", "the net itself"),
        (FIT, "-o", "the training itself"),
        ((*CERTIFY, "--backbone", "mine.py:net"), "-o", "the backbone itself"),
        (("measure", "mine.py:net", "--data", "d.npz"), "--json", "the net itself"),
        (("measure", "mine.py:net", "--data", "d.npz"), "--save-margins", "the net itself"),
        (("bounds", "mine.py:net", "--data", "d.npz"), "--json", "the net itself"),
        (("compress", "mine.py:net", "--method", "magnitude"), "-o", "the net itself"),
        (("verify", "f", "--data", "d.npz", "--fit", "mine.py:fit"), "--json", "the training"),
    ],
)
def test_nothing_is_written_over_the_users_own_code(
    argv: tuple[str, ...], flag: str, what: str, written: str, capsys: Capture
) -> None:
    more = ("--data", "d.npz") if argv[0] == "compress" else ()
    code, _, err = ask(capsys, *argv, *more, flag, written)
    assert (code, err.count("\n")) == (2, 1)
    assert f"{flag} is {what}" in err
    assert Path("mine.py").read_text() == CODE
    assert Path("link.py").is_symlink()


def test_a_net_is_not_saved_over_another_file_beside_its_certificate(capsys: Capture) -> None:
    Path("v.safetensors").write_text("months of work")
    code, out, err = ask(capsys, *FIT, "-o", "v")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "v.safetensors, where the net would be saved, exists" in err
    assert Path("v.safetensors").read_text() == "months of work"
    assert not Path("v").exists()


def test_a_net_is_saved_over_that_of_an_earlier_run(capsys: Capture) -> None:
    for _ in range(2):
        assert ask(capsys, *FIT, "-o", "v")[0] == 0
    assert Path("v.safetensors").is_file()


@pytest.mark.parametrize("more", [(), ("--kind", "picks")])
def test_what_no_search_of_this_run_wrote_is_not_removed(
    more: tuple[str, ...], capsys: Capture
) -> None:
    Path("f.best").write_text("months of work")
    assert ask(capsys, *CERTIFY, *more, "-o", "f")[0] == 0
    assert Path("f.best").read_text() == "months of work"

"""No name, text or exception from a file ever steers the terminal; JSON stays JSON."""

from __future__ import annotations

import argparse
import io
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.command_line import ask

from cushion import progress as lines
from cushion.cli import options, output, render
from cushion.data import fetch
from cushion.records.text import harmless, harmless_json, one_line

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\u2066\x7f\r\x08"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
NET = """
from torch import nn
EVIL = {evil!r}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("a" + EVIL, nn.Linear(4, 2))
    def forward(self, x):
        return getattr(self, "a" + EVIL)(x)
def make():
    return Net()
def raises():
    raise ValueError("no " + EVIL)
def warns():
    import warnings
    warnings.warn("careful " + EVIL)
    return nn.Linear(4, 2)
class Odd(nn.Linear):
    def forward(self, x):
        raise RuntimeError("odd " + EVIL)
def odd():
    return Odd(4, 2)
"""


def naive(text: str) -> str:
    """Character by character, from Unicode's own tables: what steers is a control character, a
    separator of lines, or has a direction of its own that it gives to others.
    """
    found = ""
    for one in text:
        control = unicodedata.category(one) in ("Cc", "Zl", "Zp") and one not in "\n\t"
        turning = unicodedata.bidirectional(one) in TURNING
        if control or turning or one in "\u061c\u200e\u200f":
            found += f"\\x{ord(one):02x}" if ord(one) < 256 else f"\\u{ord(one):04x}"
        else:
            found += one
    return found


def test_exactly_the_steering_characters_are_escaped() -> None:
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x30000))))
    assert harmless(every) == naive(every)
    assert harmless("δ ≤ ε, naïve, 数\n\ttab") == "δ ≤ ε, naïve, 数\n\ttab"


def test_one_line_is_one_line() -> None:
    assert one_line("a\nb\tc\x1b") == "a\\nb c\\x1b"


def test_json_says_the_same_after_escaping() -> None:
    obj = {"a" + EVIL: [EVIL, "δ", 1.5]}
    text = harmless_json(json.dumps(obj, ensure_ascii=False, indent=2))
    assert (json.loads(text), STEERS.search(text)) == (obj, None)
    assert "δ" in text


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20, 4), dtype=np.uint8), np.arange(20) % 2
    for name in ("d.npz", f"d{EVIL}.npz"):
        np.savez(name, x=x, y=y)
    Path("net.py").write_text(NET.format(evil=EVIL.replace("\x9b", "")))
    weights = {"weight": torch.zeros(2, 4), "bias" + EVIL: torch.zeros(2)}
    save_file(weights, "w.safetensors")
    said = {"format": "cushion-net-1", "spec": "4: fc2" + EVIL}
    save_file({"x": torch.zeros(1)}, "spec.safetensors", said)
    Path(f"bad{EVIL}.cushion").write_bytes(b"no certificate")
    Path("run").mkdir()
    Path("run/run.json").write_text(json.dumps({"format": "cushion" + EVIL}))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("measure", "net.py:make", "--data", "d.npz", "--only", "norms,margins"),
        ("measure", "net.py:make", "--data", f"d{EVIL}.npz", "--only", "margins"),
        ("measure", "net.py:raises", "--data", "d.npz"),
        ("measure", "net.py:odd", "--data", "d.npz", "--only", "margins"),
        ("measure", "net.py:odd", "--data", "d.npz", "--weights", "w.safetensors"),
        ("measure", "spec.safetensors", "--data", "d.npz"),
        ("measure", "net.py:no" + EVIL, "--data", "d.npz"),
        ("measure", "net.py:make", "--data", "no" + EVIL),
        ("measure", "net.py:make", "--data", "d.npz,st" + EVIL),
        ("measure", "net.py:make", "--data", "d.npz", "--only", EVIL),
        ("measure", "net.py:make", "--data", "d.npz", "--examples", EVIL),
        ("measure", "net.py:make", "--data", "d.npz", "--only", "margins", "--save-margins", EVIL),
        ("bounds", "net.py:make", "--data", f"d{EVIL}.npz"),
        ("inspect", f"bad{EVIL}.cushion"),
        ("verify", f"bad{EVIL}.cushion", "--data", "d.npz"),
        ("certify", "--data", f"d{EVIL}.npz", "--steps", "2", "--method", "supermask", "-o", EVIL),
        ("certify", "--data", "d.npz", "-o", f"no{EVIL}/c"),
        ("train", "4: fc2" + EVIL, "--data", "d.npz", "-o", "r"),
        ("train", "4: fc2", "--data", "d.npz", "-o", "run"),
        ("data", "get", "no" + EVIL),
        ("reproduce", "no" + EVIL),
        ("measure", "n", "--data", "d", "--no" + EVIL),
        (EVIL,),
    ],
)
def test_the_command_line_never_prints_what_steers(
    place: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    _, out, err = ask(capsys, *words)
    assert STEERS.search(out + err) is None
    assert "\\x1b" in out + err


def test_warnings_of_the_code_that_the_user_brought_are_escaped(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(UserWarning, match="careful") as told:
        ask(capsys, "measure", "net.py:warns", "--data", "d.npz", "--only", "margins")
    assert [STEERS.search(str(one.message)) for one in told] == [None] * len(told)


def test_the_answer_in_json_holds_the_names_as_they_are(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("measure", "net.py:make", "--data", "d.npz", "--only", "norms", "--json")
    code, out, _ = ask(capsys, *words, "-")
    assert (code, STEERS.search(out)) == (0, None)
    ask(capsys, *words, "out.json")
    text = Path("out.json").read_text(encoding="utf-8")
    assert STEERS.search(text) is None
    assert json.loads(text) == json.loads(out)
    name = "a" + EVIL.replace("\x9b", "")
    assert name in [layer["name"] for layer in json.loads(text)["layers"]]


def test_a_bug_prints_its_traceback_without_what_steers(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(args: argparse.Namespace) -> None:
        raise KeyError("bug " + "\x1b[2J") from ValueError("\u202e")

    monkeypatch.setattr("cushion.cli.check_files", broken)
    code, _, err = ask(capsys, "data", "list")
    assert (code, STEERS.search(err)) == (70, None)
    assert "Traceback" in err
    assert "\\x1b[2J" in err


def test_tables_escape_cells_before_they_are_measured() -> None:
    drawn = render.table(["name", "n"], [["a\nb\x1b[31m", 1], ["c", 2]])
    assert drawn.splitlines() == ["name          n", "a\\nb\\x1b[31m  1", "c             2"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_of_progress_escapes_names_and_reads_no_markup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(lines, "_SHOWN", lines._Shown())
    monkeypatch.setattr(lines, "_QUIET", -1.0)
    monkeypatch.setattr(lines, "_EVERY", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with lines.working("set\x1b]0;title\x07 [link=https://x]y[/link]", 3.0) as bar:
        bar.say("\u202e")
        bar.advance()
    shown = terminal.getvalue()
    assert "\x1b]0;" not in shown
    assert "\x1b]8" not in shown
    assert "\u202e" not in shown
    assert "\\x1b]0;title\\x07 [link=https://x]y[/link]" in shown


def test_notes_and_news_of_fetching_are_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options.note("a" + EVIL)
    err = capsys.readouterr().err
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    fetch._say("b" + EVIL)
    assert STEERS.search(err + terminal.getvalue()) is None
    assert err.startswith("cushion: note: a\\x1b")
    assert terminal.getvalue().startswith("b\\x1b")


@pytest.mark.parametrize("to", ["-", None])
def test_an_answer_is_escaped_where_a_person_reads_it(
    to: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    args = argparse.Namespace(json=to, flags=frozenset())
    output.answer(args, {"name": EVIL}, "name " + EVIL)
    out = capsys.readouterr().out
    assert STEERS.search(out) is None
    if to == "-":
        assert json.loads(out) == {"name": EVIL}

"""What users complained of: rows that look alike, long lines, idle flags, wrong advice."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

import cushion
from cushion.cli import figures, render
from cushion.cli.figures import panels
from cushion.measures.records import MeasureTable
from cushion.numerics import counted

NET = "net.py:make --weights w.pt --data d.npz"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a net, its data, a certificate and a compressed net."""
    folder = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 1, 4, 4), dtype=np.uint8)
    np.savez(folder / "d.npz", x=x, y=np.arange(60) % 3)
    source = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), "
    (folder / "net.py").write_text(f"{source}nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))\n")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    torch.save(net.state_dict(), folder / "w.pt")
    data = str(folder / "d.npz")
    cushion.certify(None, data, method="supermask", steps=2).save(folder / "c.cushion")
    cushion.compress(net, data, method="low-rank", k=1).save(folder / "n.net")
    return folder


@pytest.fixture(autouse=True)
def there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def test_rows_are_told_apart_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = [["l2-norm", form, 1.5, 2.5, "a long sentence " * 4] for form in ("plotted", "printed")]
    parts = render.table(["bound", "form", "size", "value", "meaning"], rows).split("\n\n")
    assert len(parts) > 1
    assert all("plotted" in part and "printed" in part for part in parts)


def test_an_accent_takes_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = render.table(["lemma", "what"], [["Lemma 9", "‖f\u0302(x) - f(x)‖ over " * 9]])
    assert render.fitted(text) == text


@pytest.mark.parametrize(
    "words",
    [
        "certify --data d.npz --method supermask --steps 2 -o x.cushion",
        "verify c.cushion --data d.npz",
        "inspect c.cushion",
        f"compress {NET} --method low-rank --k 1 -o x.net",
        "compress --data d.npz --method supermask --steps 2 -o x.cushion",
    ],
)
def test_sentences_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    piped = ask(capsys, *words.split())[1]
    monkeypatch.setenv("COLUMNS", "60")
    code, narrow, err = ask(capsys, *words.split())
    assert code == 0, err
    assert max(map(len, narrow.splitlines())) <= 60
    assert max(map(len, piped.splitlines())) > 60


REFUSALS = [
    (f"measure {NET} --only nope", "--only nope: .* choose from stability, spectra, norms"),
    (f"compress {NET} --method matrix-project --k 3 --helper foo -o x", "one of signs, srht$"),
    (f"compress {NET} --method low-rank --k 1 --gamma 1 --level 0.1 -o x", "--gamma .*--level"),
    (f"measure {NET} --exact --method probes", "--exact is --method exact, not probes"),
    (f"measure {NET} --only norms --exact", "--exact is about stability"),
    (f"measure {NET} --only norms --bootstrap 3", "--bootstrap is about tails"),
    (f"measure {NET} --only margins --examples 5", "--examples is about stability"),
    (f"measure {NET} --only norms --paper", "--paper is about conditions and sharpness"),
    (f"measure {NET} --trust", "--trust is for .pt2 and TorchScript programs"),
    (f"bounds {NET} --trust", "--trust is for .pt2 and TorchScript programs"),
    ("measure c.cushion --data d.npz", "is a certificate and not a NET; .*cushion verify"),
    ("compress c.cushion --data d.npz --method low-rank --k 1 -o x", "certificate and not a NET"),
    ("verify n.net --data d.npz", "is a compressed net and not a certificate; .*--certificate"),
    ("inspect n.net", "is a compressed net and not a certificate"),
    (f"compress {NET} --method matrix-project --level 0.9 -o x", "^cushion: layer 1: the lemma"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSALS)
def test_what_does_nothing_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    code, _, err = ask(capsys, *words.split())
    assert code == 2
    assert re.search(sentence, err.strip()), err
    assert len(err.strip().splitlines()) == 1


def test_what_is_shared_with_a_measured_family_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"measure {NET} --only conditions,sharpness --examples 5 --seed 1 --ascent-steps 1"
    assert ask(capsys, *words.split(), "--sharpness-draws", "2")[0] == 0


def test_the_note_about_the_second_net_names_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    quick = "--examples 5 --sharpness-draws 2 --ascent-steps 1 --noisy-draws 4"
    words = f"bounds {NET} --beside net.py:make {quick}"
    assert "note: no --beside-weights, so net.py:make" in ask(capsys, *words.split())[2]


def test_a_margin_that_is_not_positive_is_mended_by_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = f"compress {NET} --method low-rank --k 1 -o x.net"
    out = ask(capsys, *words.split())[1]
    assert "a larger --level lets γ ignore" in out
    assert "--epsilon lets" not in out


def test_one_error_is_one_error() -> None:
    assert (counted(1, "error"), counted(0, "error")) == ("1 error", "0 errors")


def test_every_module_of_pictures_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A picture needs no line in a list: its module is found."""
    names = {path.stem for path in Path(figures.__file__).parent.glob("[a-z]*.py")}
    assert names == {"compression", "front", "neyshabur", "panels", "stability", "tails"}
    monkeypatch.setattr(panels, "OF", MeasureTable, raising=False)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(AttributeError, match="pictures"):
        figures.draw(cushion.measure(net, "d.npz", only="norms"), str(tmp_path))


def test_a_refusal_leaves_no_folder_behind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "pages"
    words = f"reproduce arora2018-table1 --from-records -o {out}"
    assert ask(capsys, *words.split())[0] == 2
    assert not out.exists()


@pytest.mark.parametrize("family", ["norms", "spectra", "paths", "margins", "sharpness"])
def test_the_net_beside_is_shown_by_every_family(
    capsys: pytest.CaptureFixture[str], family: str
) -> None:
    words = f"measure {NET} --only {family}"
    alone = ask(capsys, *words.split())[1]
    assert "beside" not in alone
    assert "beside" in ask(capsys, *words.split(), "--beside", "random")[1]

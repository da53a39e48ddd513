"""cushion holdout and cushion certify --kind holdout, as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.command_line import ask
from torch import nn

from cushion.certificates.holdout.certificate import read_rows
from cushion.data import load_pair
from cushion.errors import BadInput

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
            under = "have a ledger" if argv[0] == "holdout" else "under the ledger"
            code, out, err = ask(capsys, *argv)
            assert (code, out) == (2, ""), (argv, out)
            said = err.splitlines()[-1]
            assert f"{under} of looks" in said, (argv, err)
    assert not list(Path().glob("g*"))
    code, out, err = ask(capsys, "bounds", *net, "--data", "digits")
    assert code == 0
    assert "held-out" not in out.splitlines()[0]
    assert "going on without them" in err
    code, out, err = ask(capsys, "train", "small", "--data", "digits", "-o", "run", "--epochs", "1")
    assert code == 0
    assert "test_error" not in out


def test_open_never_takes_the_sample_where_the_held_out_part_has_a_ledger(
    capsys: Capture, nets: Path, place: Path
) -> None:
    sample, test = load_pair("digits")
    assert test is not None
    np.savez("both.npz", x=sample.x, y=sample.y, x_test=test.x[::-1], y_test=test.y[::-1])
    assert ask(capsys, "holdout", "open", "digits", "-o", "d1.looks")[0] == 0
    for source in ("digits", "both.npz"):
        code, out, err = ask(capsys, "holdout", "open", source, "-o", "d2.looks")
        assert (code, out) == (2, "")
        own = f"rows of {source} test have a ledger of looks already, {place}/d1.looks"
        assert err == f"cushion: {own}; go on with that one, or hold out fresh rows\n"
    assert not Path("d2.looks").exists()
    assert ask(capsys, "holdout", "close", "d1.looks")[0] == 0
    code, out, err = ask(capsys, "holdout", "open", "both.npz", "-o", "d2.looks")
    assert (code, out, "d1.looks; which is closed; hold out fresh" in err) == (2, "", True)


def test_held_out_rows_of_a_file_with_both_parts_are_those_held_out(
    capsys: Capture, nets: Path, place: Path
) -> None:
    sample, test = load_pair("digits")
    assert test is not None
    np.savez("both.npz", x=sample.x, y=sample.y, x_test=test.x, y_test=test.y)
    np.savez("s.npz", x=sample.x, y=sample.y)
    kind = ["certify", *own(nets), "--kind", "holdout", "--holdout", "both.npz"]
    said = "of the 297 held-out examples of both.npz test"
    for data in ([], ["--data", "s.npz"], ["--data", "both.npz"]):
        code, out, _ = ask(capsys, *kind, *data, "-o", "f.cushion")
        assert (code, said in out) == (0, True)
    check = ["verify", "f.cushion", *own(nets)]
    for rows in (["--holdout", "both.npz"], ["--data", "both.npz"]):
        assert ask(capsys, *check, *rows)[0] == 0
    ladder = ["certify", *own(nets), "--data", "s.npz", "--holdout", "both.npz", "-o", "l.cushion"]
    code, out, _ = ask(capsys, *ladder)
    assert (code, said in out) == (0, True)
    code, out, err = ask(capsys, "holdout", "open", "both.npz", "-o", "H.looks")
    assert (code, "note: a classifier was counted on both.npz test before this" in err) == (0, True)
    assert ask(capsys, *kind, "--looks", "H.looks", "-o", "k.cushion")[0] == 0
    assert ask(capsys, "verify", "k.cushion", *own(nets), *kind[-2:], "--looks", "H.looks")[0] == 0


def test_the_shares_of_delta_are_shown_with_four_digits(
    capsys: Capture, nets: Path, place: Path
) -> None:
    asked = ["--per-class", "--top-k", "2", "--selective", "15%"]
    assert ask(capsys, *certify(nets, *asked))[0] == 0
    _, out, _ = ask(capsys, "inspect", "f.cushion")
    assert re.search(r"^overall +0\.025 ", out, re.MULTILINE)
    assert re.search(r"^class 3 +0\.0008333 ", out, re.MULTILINE)
    assert "00000" not in out.split("What was paid")[1].split("What nobody")[0]


def refusals(nets: Path) -> list[tuple[list[str], str]]:
    net = own(nets)
    kind = ["--kind", "holdout", "-o", "f.cushion"]
    return [
        (["certify", "--data", "digits", *kind], "give --net"),
        (["certify", *net, *kind], "needs held-out rows"),
        (["certify", *net, "--data", "digits", *kind, "--minutes", "1"], "--minutes does not"),
        (["certify", *net, "--data", "digits", *kind, "--unlabelled", "x"], "--unlabelled does"),
        (["certify", "--data", "digits", "-o", "g.cushion", "--top-k", "2"], "--top-k belongs to"),
        (["certify", "--data", "digits", "-o", "g.cushion", "--holdout", "h"], "give --net"),
        (["certify", *net, "--data", "digits", *kind, "--looked", "10"], "Nth part of δ"),
        (["certify", *net, "--data", "digits", *kind, "--recipe", "3"], "--recipe does not"),
        (["certify", *net, "--data", "digits", *kind, "--mirror"], "--mirror does not"),
        (["certify", "-o", "g.cushion"], "--data is missing"),
        (["certify", *net, "--data", "digits", *kind, "--top-k", "10"], "--top-k 10 of 10 classes"),
        (["certify", *net, "--data", "digits", *kind, "--top-k", "1"], "at least 2, not 1"),
        (["certify", *net, "--data", "digits", *kind, "--selective", "2"], "--selective 2 must"),
        (["certify", *net, "--data", "digits", *kind, "--looks", "none"], "none does not exist"),
        (["holdout", "open", "nothing", "-o", "H.looks"], "no such file"),
        (["holdout", "open", "digits", "-o", "H.looks", "--delta", "2"], "delta"),
        (["holdout", "status", "mine.looks"], "does not exist; open a ledger"),
        (["verify", "f.cushion"], "--data is missing"),
    ]


@pytest.mark.parametrize("at", range(18))
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


def test_verify_opens_a_ledger_for_its_looks_alone(
    capsys: Capture, nets: Path, place: Path
) -> None:
    made = ["certify", "--data", "digits", "--kind", "occam", "--method", "subspace"]
    assert ask(capsys, *made, "--steps", "1", "-o", "g.cushion")[0] == 0
    assert ask(capsys, "holdout", "open", "digits", "-o", "H.looks")[0] == 0
    check = ["verify", "g.cushion", "--data", "digits"]
    code, out, err = ask(capsys, *check, "--looks", "H.looks")
    assert (code, out) == (2, "")
    assert err == ("cushion: g.cushion is not a look at rows under a ledger; leave --looks out\n")
    code, out, err = ask(capsys, *check, "--json", "-")
    assert code == 0
    assert "going on without them" in err
    assert json.loads(out)["holdout"] is None


def test_nothing_is_written_over_a_ledger(capsys: Capture, nets: Path, place: Path) -> None:
    """-o or --json may not be the ledger that is read, nor any other, wherever it was moved."""
    assert ask(capsys, "holdout", "open", "digits", "-o", "H.looks")[0] == 0
    assert ask(capsys, *certify(nets, "--looks", "H.looks"))[0] == 0
    Path("copy.looks").write_bytes(Path("H.looks").read_bytes())
    Path("link.looks").symlink_to("H.looks")
    before = {path: path.read_bytes() for path in (Path("H.looks"), Path("copy.looks"))}
    net, looks = own(nets), ["--looks", "H.looks"]
    look = ["certify", *net, "--data", "digits", "--kind", "holdout", *looks, "--top-k", "2"]
    first = ["certify", *net, "--data", "digits"]
    for argv, said in (
        ([*look, "-o", "H.looks"], "-o is the ledger of looks, H.looks"),
        ([*look, "-o", "link.looks"], "-o is the ledger of looks, H.looks"),
        ([*look, "-o", "copy.looks"], "copy.looks exists and is a ledger of looks"),
        ([*look, "-o", "g.cushion", "--json", "H.looks"], "H.looks exists and is a ledger"),
        ([*first, "-o", "H.looks"], "H.looks exists and is a ledger of looks"),
        ([*first, "--kind", "picks", "-o", "link.looks"], "link.looks exists and is a ledger"),
        (["verify", "f.cushion", *net, "--data", "digits", *looks, "--json", "H.looks"], "kept"),
        (["inspect", "f.cushion", "--json", "H.looks"], "is a ledger of looks, which is kept"),
        (["measure", *net[1:], "--data", "digits", "--only", "margins", "--json", "H.looks"], "ke"),
        (["compress", *net[1:], "--data", "digits", "--method", "magnitude", "-o", "H.looks"], ""),
        (["holdout", "status", "H.looks", "--json", "H.looks"], "H.looks exists and is a ledger"),
        (["holdout", "close", "H.looks", "--json", "H.looks"], "H.looks exists and is a ledger"),
        (["holdout", "open", "digits", "-o", "H.looks"], "H.looks exists and is a ledger"),
        (["holdout", "open", "digits", "-o", "copy.looks"], "copy.looks exists and is a ledger"),
    ):
        code, out, err = ask(capsys, *argv)
        assert (code, out) == (2, ""), argv
        assert said in err.splitlines()[-1], err
        assert "ledger" in err.splitlines()[-1], err
        assert {path: path.read_bytes() for path in before} == before
    held = place / "h.npz"
    np.savez(held, x=np.zeros((3, 64), np.uint8), y=np.arange(3))
    content = held.read_bytes()
    argv = ["certify", *net, "--kind", "holdout", "--holdout", "h.npz", "-o", "h.npz"]
    assert ask(capsys, *argv)[2] == "cushion: -o is the held-out rows, h.npz; give another name\n"
    assert held.read_bytes() == content


def test_after_close_no_certificate_says_first_use(
    capsys: Capture, nets: Path, place: Path
) -> None:
    assert ask(capsys, "holdout", "open", "digits", "-o", "H.looks")[0] == 0
    assert ask(capsys, "holdout", "close", "H.looks")[0] == 0
    code, out, err = ask(capsys, *certify(nets))
    assert (code, out) == (2, "")
    assert "H.looks, which is closed, so that this is their first use would be false" in err
    ladder = ["certify", *own(nets), "--data", "digits", "-o", "g.cushion"]
    code, out, err = ask(capsys, *ladder)
    assert code == 0
    assert "going on without a hold-out line" in err
    assert "best for you: picks" in out
    made = ["certify", *own(nets), "--data", "digits", "--kind", "occam", "--method", "subspace"]
    code, out, err = ask(capsys, *made, "--steps", "1", "-o", "o.cushion", "--json", "-")
    assert code == 0
    assert (json.loads(out)["holdout"], json.loads(out)["net"]["holdout"]) == (None, None)
    assert err.count("going on without a hold-out line") == 1


def test_f_beside_g_is_remembered_too(capsys: Capture, nets: Path, place: Path) -> None:
    made = ["certify", *own(nets), "--data", "digits", "--kind", "occam", "--method", "subspace"]
    code, _, err = ask(capsys, *made, "--steps", "1", "-o", "o.cushion")
    assert (code, "counted on" in err) == (0, False)  # f and g, of one command
    _, _, err = ask(capsys, *certify(nets))
    assert "another classifier was counted on" in err
    _, _, err = ask(capsys, *certify(nets, steps=4))
    assert "2 other classifiers were counted on" in err


def test_a_ledger_that_was_moved_goes_on(capsys: Capture, nets: Path, place: Path) -> None:
    assert ask(capsys, "holdout", "open", "digits", "-o", "H.looks")[0] == 0
    assert ask(capsys, *certify(nets, "--looks", "H.looks", steps=4))[0] == 0
    Path("away").mkdir()
    Path("H.looks").rename("away/moved.looks")
    moved = ["--looks", "away/moved.looks"]
    check = ["verify", "f.cushion", *own(nets, 4), "--data", "digits"]
    assert ask(capsys, *check, *moved)[0] == 0
    code, out, err = ask(capsys, *certify(nets, *moved))
    assert (code, err) == (0, "")
    assert "This is look 2" in out
    code, _, err = ask(capsys, *certify(nets))
    assert (code, "moved.looks" in err) == (2, True)  # where it is known now
    code, out, _ = ask(capsys, "holdout", "status", *moved[1:])
    assert "2 looks" in out


@pytest.mark.parametrize("there", [True, False], ids=["kept", "moved"])
@pytest.mark.parametrize("wrong", ["none.looks", "other.looks", "older.looks", "odd.looks"])
def test_a_wrong_ledger_is_told_which_is_right(
    capsys: Capture, nets: Path, place: Path, wrong: str, there: bool
) -> None:
    _, test = load_pair("digits")
    assert test is not None
    np.savez("h.npz", x=test.x[:, :, ::-1], y=test.y)
    assert ask(capsys, "holdout", "open", "digits", "-o", "H.looks")[0] == 0
    assert ask(capsys, "holdout", "open", "h.npz", "-o", "other.looks")[0] == 0
    Path("odd.looks").write_text('[]\n{"chain": 1}\n')
    Path("older.looks").write_bytes(Path("H.looks").read_bytes())
    assert ask(capsys, *certify(nets, "--looks", "H.looks"))[0] == 0
    if not there:
        Path("H.looks").rename("moved.looks")
    before = {path: path.read_bytes() for path in Path().glob("*.looks")}
    again = certify(nets, "--looks", wrong, "--top-k", "2")
    check = ["verify", "f.cushion", *own(nets), "--data", "digits", "--looks", wrong]
    for argv in (again, check) if wrong == "other.looks" else (again,):
        code, out, err = ask(capsys, *argv)
        assert (code, out) == (2, "")
        said = err.splitlines()[-1]
        assert "digits test has rows that are under the ledger of looks" in said, err
        assert f"H.looks, and {place / wrong} is not that one; give that one" in said, err
        assert said.endswith("as --looks")
        assert ("or where it was moved" in said) is not there
    assert {path: path.read_bytes() for path in Path().glob("*.looks")} == before


def test_how_held_out_labels_do_not_fit_a_sample_is_not_told(
    capsys: Capture, nets: Path, place: Path
) -> None:
    sample, test = load_pair("digits")
    assert test is not None
    names = np.array([f"class {label}" for label in test.y])
    np.savez("h.npz", x=test.x, y=names)
    few = sample.y < 9  # one label is missing
    np.savez("s.npz", x=sample.x[few], y=np.array([f"class {y}" for y in sample.y[few]]))
    assert ask(capsys, "holdout", "open", "h.npz", "-o", "H.looks")[0] == 0
    argv = ["certify", *own(nets), "--kind", "holdout", "--holdout", "h.npz", "-o", "f.cushion"]
    looks = ["--looks", "H.looks"]
    before = Path("H.looks").read_bytes()
    code, out, err = ask(capsys, *argv, "--data", "s.npz", *looks)
    assert (code, out) == (2, "")
    assert "the held-out examples do not fit the sample" in err
    assert "class 9" not in err
    assert Path("H.looks").read_bytes() == before
    code, _, err = ask(capsys, *argv, "--data", "s.npz", "--holdout", "nothing.npz", *looks)
    assert (code, "nothing.npz" in err) == (2, True)
    assert ask(capsys, *argv, *looks)[0] == 0
    pair = {"train": (sample.x[few], sample.y[few]), "test": (test.x, test.y)}
    with pytest.raises(BadInput, match="how must not be told"):
        read_rows({**pair, "test": (test.x, [f"class {y}" for y in test.y])}, None, "H.looks")

"""cushion certify without a kind: the ladder first, the best in the file, the rest beside it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.centres import FRESH, HELD, SAMPLE, net
from tests.command_line import ask

from cushion.certificates.format.container import unpack
from cushion.numerics import percent_up

FACTORY = "from torch import nn\ndef net():\n    return nn.Linear(3, 3)\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """mine.py with w.pt; the sample, held-out rows and fresh inputs as files."""
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FACTORY)
    torch.save(net().state_dict(), "w.pt")
    np.savez("d.npz", x=SAMPLE.x, y=SAMPLE.y)
    np.savez("h.npz", x=HELD.x, y=HELD.y)
    np.savez("u.npz", x=FRESH.x)
    return tmp_path


def certify(*more: str) -> list[str]:
    return ["certify", "--data", "d.npz", "-o", "f.cushion", *more]


OWN = ("--net", "mine.py:net", "--weights", "w.pt")


def check_commands(out: str) -> list[list[str]]:
    """The commands that the answer says to check it with."""
    said = [line for line in out.splitlines() if line.startswith("Check it with: cushion ")]
    return [shlex.split(line.removeprefix("Check it with: cushion ")) for line in said]


def test_the_ladder_is_the_first_thing_said_and_short(capsys: Capture) -> None:
    code, out, _ = ask(capsys, *certify(*OWN, "--holdout", "h.npz"))
    assert code == 0
    ladder = out.split("\n\n")[0].splitlines()
    assert len(ladder) <= 8
    assert [line.split()[0] for line in ladder[2:6]] == ["hold-out", "transfer", "picks", "Occam"]
    assert "your net f        0.025" in ladder[2]
    assert "not run" in ladder[5]
    assert "--kind occam" in ladder[5]
    assert ladder[0].startswith("best for you: hold-out. With probability at least 97.5 %, your")
    assert ladder[6] == "Written: f.cushion (hold-out), f.picks.cushion (picks)."
    assert "Together they fail with probability at most 0.05:" in out
    commands = check_commands(out)
    assert [one[1] for one in commands] == ["f.cushion", "f.picks.cushion"]
    for one in commands:
        assert ask(capsys, *one)[0] == 0


def test_json_has_the_ladder_its_files_and_shares_that_sum_to_delta(capsys: Capture) -> None:
    flags = ("--holdout", "h.npz", "--unlabelled", "u.npz", "--json", "-")
    code, out, _ = ask(capsys, *certify(*OWN, *flags))
    told = json.loads(out)
    assert (code, told["best"], told["kind"], told["about"]) == (0, "holdout", "holdout", "f")
    assert sum(one["delta"] for one in told["shares"]) == pytest.approx(0.05, abs=1e-15)
    assert [(one["kind"], one["file"]) for one in told["ladder"]] == [
        ("holdout", "f.cushion"),
        ("transfer", "f.transfer.cushion"),
        ("picks", "f.transfer.cushion"),
        ("occam", None),
    ]
    assert set(told["ladder"][0]) == {"kind", "about", "bound", "delta", "needs", "file"}
    assert not Path("f.cushion.best").exists()


def test_minutes_beside_fresh_inputs_run_both_and_every_file_can_be_checked(
    capsys: Capture,
) -> None:
    flags = ("--unlabelled", "u.npz", "--minutes", "0.02")
    code, out, _ = ask(capsys, *certify(*OWN, *flags, "--json", "told.json"))
    told = json.loads(Path("told.json").read_text())
    files = {one["kind"]: one["file"] for one in told["ladder"]}
    assert (code, told["about"], told["best"]) == (0, "f", "transfer")
    bounds = {one["kind"]: one["bound"] for one in told["ladder"]}
    assert told["bound"] == bounds["transfer"]
    assert files["transfer"] == "f.cushion"
    assert sorted([files["picks"], files["occam"]])[0] == "f.cushion"
    other = "occam" if files["picks"] == "f.cushion" else "picks"
    assert files[other] == f"f.{other}.cushion"
    commands = check_commands(out)
    assert {one[1] for one in commands} == set(files.values()) - {None}
    for one in commands:
        assert ask(capsys, *one)[0] == 0


def test_fresh_inputs_bound_the_net_and_the_command_said_replays_it(capsys: Capture) -> None:
    code, out, _ = ask(capsys, *certify(*OWN, "--unlabelled", "u.npz"))
    assert code == 0
    assert "best for you: transfer. With probability 95 %" in out
    assert "Written: f.cushion (transfer and picks)." in out
    (command,) = check_commands(out)
    code, out, _ = ask(capsys, *command, "--json", "-")
    told = json.loads(out)
    assert (code, told["ok"], told["level"], told["about"]) == (0, True, "replay", "f")


def test_a_net_without_labels_hears_what_would_bound_it(capsys: Capture) -> None:
    code, out, _ = ask(capsys, *certify(*OWN))
    assert code == 0
    assert "best for you: picks." in out
    assert "This is about g, not about your net f: held-out labels (--holdout) would bound f" in out
    assert "Written: f.cushion (picks)." in out


def test_without_a_net_nothing_is_said_about_one(capsys: Capture) -> None:
    code, out, _ = ask(capsys, *certify())
    assert (code, "about your net f:" in out) == (0, False)
    assert "--net, and held-out labels (--holdout)" in out
    (command,) = check_commands(out)
    assert ask(capsys, *command)[0] == 0


def test_where_a_file_beside_cannot_be_written_nothing_is(capsys: Capture) -> None:
    Path("f.picks.cushion").mkdir()
    code, out, err = ask(capsys, *certify(*OWN, "--holdout", "h.npz"))
    assert (code, out, Path("f.cushion").exists()) == (2, "", False)
    assert "f.picks.cushion is a folder" in err


def test_the_headline_the_ladder_and_the_numbers_say_one_bound_alike(capsys: Capture) -> None:
    """Of 32 errors on 200 the bound is 0.218300, and a float of that is above it."""
    with torch.no_grad():
        right = net()(torch.from_numpy(HELD.x)).argmax(1).numpy()
    y = np.where(np.arange(200) < 32, (right + 1) % 3, right)
    np.savez("wrong.npz", x=HELD.x, y=y)
    code, out, _ = ask(capsys, *certify(*OWN, "--holdout", "wrong.npz"))
    said = " ".join(out.split())
    assert (code, "errs on at most 21.83 % of new" in said) == (0, True)
    assert "hold-out 21.83 % your net f" in said
    assert "21.84 %" not in said


def test_a_held_out_bound_on_the_same_g_stands_beside_its_own(capsys: Capture) -> None:
    np.savez("both.npz", x=SAMPLE.x, y=SAMPLE.y, x_test=HELD.x, y_test=HELD.y)
    code, out, _ = ask(capsys, "certify", "--data", "both.npz", "-o", "g.cushion")
    line = unpack(Path("g.cushion").read_bytes())[0].holdout
    assert line is not None
    said = f"held out, the same g errs on at most {percent_up(line.bound)} (picks, δ = 0.05); quote"
    assert (code, said in out.split("\n\n")[0]) == (0, True)
    _, out, _ = ask(capsys, *certify(*OWN, "--holdout", "h.npz"))  # these are counted for f alone
    assert "held out, the same g" not in out


def test_assumptions_stand_under_the_rows_that_they_are_about(capsys: Capture) -> None:
    _, out, _ = ask(capsys, *certify(*OWN, "--holdout", "h.npz"))
    own, other = out.split("f.cushion, about 200 held-out examples of h.npz. What nobody")[1].split(
        "f.picks.cushion, about 400 examples of d.npz. What nobody"
    )
    assert "nothing was learnt from these examples before" in own
    assert "nothing was learnt from these examples before" not in other
    for part in (own, other):
        assert part.count("- the m examples are independent draws") == 1
        assert part.count("- δ was fixed in advance") == 1


@pytest.mark.parametrize("closed", [False, True])
def test_held_out_labels_under_a_ledger_are_said_to_be_withheld(
    closed: bool, capsys: Capture
) -> None:
    np.savez("both.npz", x=SAMPLE.x, y=SAMPLE.y, x_test=HELD.x, y_test=HELD.y)
    assert ask(capsys, "holdout", "open", "both.npz", "-o", "h.looks")[0] == 0
    if closed:
        assert ask(capsys, "holdout", "close", "h.looks")[0] == 0
    code, out, _ = ask(capsys, "certify", "--data", "both.npz", *OWN, "-o", "g.cushion")
    said = "withheld: they are under a ledger of looks (--kind holdout reads them)"
    if closed:
        said = "withheld: they were looked at under a ledger"
    assert (code, said in out) == (0, True)
    code, out, _ = ask(capsys, *certify(*OWN))
    assert "withheld" not in out


def test_without_a_sample_it_is_said_which_kind_needs_none(capsys: Capture) -> None:
    code, _, err = ask(capsys, "certify", *OWN, "--holdout", "h.npz", "-o", "f.cushion")
    assert (code, err.count("\n")) == (2, 1)
    assert "--data is missing; give the sample that is certified on, or --kind holdout" in err
    assert (
        ask(capsys, "certify", "--kind", "holdout", *OWN, "--holdout", "h.npz", "-o", "f")[0] == 0
    )


def test_a_hold_out_certificate_is_verified_with_its_net_alone(capsys: Capture) -> None:
    assert ask(capsys, *certify("--kind", "holdout", *OWN, "--holdout", "h.npz"))[0] == 0
    code, out, err = ask(capsys, "verify", "f.cushion", "--holdout", "h.npz")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "f.cushion is about the errors of your net; give it with --net" in err


def test_constants_before_the_net_are_shown_and_missed(capsys: Capture) -> None:
    step = ("--normalise", "0.1:0.2:0.3,1:2:3")
    rows = ("--holdout", "h.npz")
    assert ask(capsys, *certify("--kind", "holdout", *OWN, *rows, *step))[0] == 0
    assert "f reads (x - [0.1, 0.2, 0.3]) / [1, 2, 3]" in ask(capsys, "inspect", "f.cushion")[1]
    assert ask(capsys, "verify", "f.cushion", *OWN, *rows, *step)[0] == 0
    code, out, _ = ask(capsys, "verify", "f.cushion", *OWN, *rows)
    said = "f was certified with --normalise 0.1:0.2:0.3,1:2:3; give that too."
    assert (code, said in out) == (1, True)
    _, out, _ = ask(capsys, *certify(*OWN, *rows, *step))
    assert "f reads (x - [0.1, 0.2, 0.3]) / [1, 2, 3], as --normalise says" in out

"""cushion certify --kind picks: the user's training, a backbone, what is refused, Ctrl-C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.certificates import user_fit as trainings
from tests.nets.test_backbones import own_file
from tests.picks_cases import blobs

from cushion.certificates.format.claims import PicksClaim
from cushion.certificates.format.container import unpack
from cushion.certificates.picks.run import weights_beside
from cushion.cli import main

FIT = f"{trainings.__file__}:fit"
BREAK = """
def fit(x, y, seed):
    raise KeyboardInterrupt
"""


@pytest.fixture
def data(tmp_path: Path) -> str:
    sample, held_out = blobs(150, 0), blobs(60, 1)
    path = tmp_path / "blobs.npz"
    np.savez(path, x=sample.x, y=sample.y, x_test=held_out.x, y_test=held_out.y)
    return str(path)


def claim_in(path: Path) -> PicksClaim:
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, PicksClaim)
    return claim


def test_ones_own_training_is_certified_and_its_net_saved(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.cushion"
    args = ["certify", "--data", data, "--kind", "picks", "--fit", FIT, "--groups", "20,20,20"]
    assert main([*args, "--tried", "2", "--seed", "7", "-o", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    claim = claim_in(out)
    assert claim.fit is not None
    assert (claim.fit.groups, claim.fit.seed, claim.choices) == ((20, 20, 20), 7, 2)
    assert f"your net f, trained on {claim.picks} of them, errs on at most" in said
    assert "held out:" in said
    assert f"The net itself is in {weights_beside(out)}" in said
    assert weights_beside(out).is_file()
    assert f"Check it with: cushion verify {out} --data {data} --fit {FIT}" in said


def test_the_answer_as_json_names_the_net(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.cushion"
    args = ["certify", "--data", data, "--kind", "picks", "--fit", FIT, "--groups", "20,20"]
    assert main([*args, "-o", str(out), "--json", "-"]) == 0
    obj = json.loads(capsys.readouterr().out)
    claim = claim_in(out)
    assert obj["ok"]
    assert obj["about"] == "f"
    assert obj["net"] == str(weights_beside(out))
    assert (obj["picks"], obj["errors"]) == (claim.picks, claim.errors)
    assert obj["bound"] >= float(claim.bound)
    assert not obj["vacuous"]


def test_inspect_shows_what_was_paid(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.cushion"
    args = ["certify", "--data", data, "--kind", "picks", "--fit", FIT, "--groups", "20,20"]
    assert main([*args, "-o", str(out)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(out)]) == 0
    said = capsys.readouterr().out
    claim = claim_in(out)
    assert f"picks {claim.picks}" in " ".join(said.split())
    assert "each as dear as a pick" in said


def test_a_learner_of_the_list_and_a_backbone(
    tmp_path: Path,
    data: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    code, weights = own_file(tmp_path)
    out = tmp_path / "b.cushion"
    args = ["certify", "--data", data, "--kind", "picks", "-o", str(out), "--configuration", "115"]
    backbone = ["--backbone", f"{code}:make", "--backbone-weights", weights]
    more = ["--feature-scale", "6", "--feature-offset", "2", "--slack", "1", "--mirror"]
    assert main([*args, *backbone, *more]) == 0
    said = " ".join(capsys.readouterr().out.split())
    claim = claim_in(out)
    assert claim.features is not None
    assert (claim.features.scale, claim.features.offset, claim.features.mirror) == (6, 2, 1)
    assert (claim.slack, claim.configuration) == (1, 115)
    assert said.startswith("Provided that mine.py:make with the weights")
    assert "1 more allowed on other machines" in said
    check = (
        f"cushion verify {out} --data {data} --backbone {code}:make --backbone-weights {weights}"
    )
    assert check in said


def test_a_note_about_features_of_few_values_names_the_flag(
    tmp_path: Path,
    data: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    code, weights = own_file(tmp_path)
    args = ["certify", "--data", data, "--feature-scale", "0", "-o", str(tmp_path / "b.cushion")]
    assert main([*args, "--backbone", f"{code}:make", "--backbone-weights", weights]) == 0
    err = capsys.readouterr().err
    assert err.count("a larger --feature-scale may help (where they are signed") == 1
    assert "with --feature-offset 128)" in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--fit", FIT], "--fit belongs to --kind picks"),
        (["--groups", "5"], "--groups belongs to --kind picks"),
        (["--kind", "picks", "--groups", "5"], "--groups is about your own training"),
        (["--kind", "picks", "--tried", "5"], "--tried is about your own training or a backbone"),
        (["--kind", "picks", "--fit", FIT, "--minutes", "1"], "leave --minutes out"),
        (["--kind", "picks", "--fit", f"{FIT}s"], "has no function 'fits'"),
        (["--kind", "picks", "--fit", FIT, "--groups", "0"], "must be whole numbers of at least 1"),
        (["--slack", "3"], "give --backbone as well"),
        (["--kind", "picks", "--backbone", "x"], "--backbone x must be file.py:factory"),
    ],
)
def test_bad_flags_get_one_sentence_and_nothing_is_written(
    tmp_path: Path, data: str, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "mine.cushion"
    out.parent.mkdir()
    try:
        code = main(["certify", "--data", data, "-o", str(out), *flags])
    except SystemExit as stopped:
        code = int(str(stopped.code))
    assert code == 2
    assert said in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []


def test_the_training_of_the_page_on_picks_is_certified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "picks.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.py").write_text(block)
    out = tmp_path / "mine.cushion"
    fit = ["--kind", "picks", "--fit", f"{tmp_path / 'mine.py'}:fit", "--groups", "40,40"]
    assert main(["certify", "--data", "digits,subset=300,seed=0", *fit, "-o", str(out)]) == 0
    assert claim_in(out).picks > 0


def test_where_the_net_cannot_be_written_nothing_is_trained(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(BREAK)
    out = tmp_path / "mine.cushion"
    weights_beside(out).mkdir()
    fit = ["--kind", "picks", "--fit", f"{tmp_path / 'mine.py'}:fit"]
    assert main(["certify", "--data", data, *fit, "-o", str(out)]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert not out.exists()


def test_ctrl_c_writes_nothing(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(BREAK)
    out = tmp_path / "out" / "mine.cushion"
    out.parent.mkdir()
    fit = ["--kind", "picks", "--fit", f"{tmp_path / 'mine.py'}:fit"]
    assert main(["certify", "--data", data, *fit, "-o", str(out)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []

"""certify, verify and inspect with the user's own net f, as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.clock import own_clock
from torch import nn

from cushion.cli import main
from cushion.data import load_pair
from cushion.theorems.occam import holdout_bound

pytestmark = pytest.mark.usefixtures("clock")  # so that minutes are as long on every machine
FACTORY = (
    "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
)


def ask(capsys: pytest.CaptureFixture[str], argv: Sequence[str]) -> tuple[int, str, str]:
    try:
        code = main(argv)
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys: pytest.CaptureFixture[str], argv: Sequence[str], code: int = 0) -> Any:
    found, out, err = ask(capsys, [*argv, "--json", "-"])
    assert found == code, (out, err)
    return json.loads(out)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net of the user's own (mine.py and its weights), other weights, and a certificate that
    bounds the net.
    """
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(FACTORY)
    data, _ = load_pair("digits")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    torch.save(net.state_dict(), folder / "other.pt")
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    x, y = torch.from_numpy(data.x).float() / 255, torch.from_numpy(data.y)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    torch.save(net.state_dict(), folder / "mine.pt")
    written = ["-o", str(folder / "f.cushion"), "--json", str(folder / "certify.json")]
    with own_clock():
        assert main([*certify(folder), *written]) == 0
    return folder


def own(folder: Path, weights: str = "mine.pt", unlabelled: str = "digits,split=test") -> list[str]:
    net = ["--net", f"{folder / 'mine.py'}:net", "--weights", str(folder / weights)]
    return [*net, "--unlabelled", unlabelled]


def certify(folder: Path, unlabelled: str = "digits,split=test") -> list[str]:
    return [
        "certify",
        "--data",
        "digits",
        *own(folder, unlabelled=unlabelled),
        "--kind",
        "occam",
        "--minutes",
        "0.05",
    ]


def verify(folder: Path) -> list[str]:
    return ["verify", str(folder / "f.cushion"), "--data", "digits"]


def test_certify_says_which_net_each_number_is_about(place: Path) -> None:
    found = json.loads((place / "certify.json").read_text())
    assert (found["ok"], found["about"], found["m"]) == (True, "f", 1500)
    assert found["bound"] == found["bound_f"] == found["transfer"]["bound_f"]
    assert found["bound_f"] == pytest.approx(
        min(1, found["bound_g"] + found["transfer"]["bound"]), abs=1e-12
    )
    assert (found["delta"], found["delta_g"], found["transfer"]["delta"]) == (0.05, 0.04, 0.01)
    assert [share["delta"] for share in found["deltas"]] == [0.04, 0.01]
    assert found["errors"] / found["m"] < found["bound_g"] < 1
    assert found["transfer"]["m"] == found["holdout"]["m"] == found["net"]["holdout"]["m"] == 297
    net = found["net"]
    assert 0 < net["errors"] < 150
    line = net["holdout"]
    assert line["bound"] == pytest.approx(
        float(holdout_bound(line["errors"], 297, line["delta"])), abs=1e-9
    )


def test_the_count_of_disagreements_is_that_of_a_loop(place: Path) -> None:
    from cushion.certificates.format.container import unpack
    from cushion.certificates.format.message import decode

    claim, message = unpack((place / "f.cushion").read_bytes())
    g = decode(message, claim.bits)  # type: ignore[attr-defined]
    _, held_out = load_pair("digits")
    assert held_out is not None
    state = torch.load(place / "mine.pt", weights_only=True)
    weight, bias = (state[key].double().numpy() for key in ("1.weight", "1.bias"))
    count = 0
    for row in held_out.x:
        scores = weight @ (row.reshape(-1) / 255) + bias
        second, first = np.sort(scores)[-2:]
        wide = first - second > float(claim.transfer.tolerance)  # type: ignore[attr-defined]
        count += not wide or int(scores.argmax()) != int(g.answers(row[None])[0])
    assert claim.transfer.disagreements == count  # type: ignore[attr-defined]


def test_verify_with_and_without_the_net(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    stated = json.loads((place / "certify.json").read_text())
    found = answer(capsys, [*verify(place), *own(place)])
    assert (found["ok"], found["about"], "transfer" in found["replayed"]) == (True, "f", True)
    assert (found["bound"], found["delta"]) == (stated["bound_f"], 0.05)
    assert (found["bound_g"], found["given"]) == (stated["bound_g"], [])
    text = ask(capsys, [*verify(place), *own(place)])[1]
    assert "your net f" in text
    assert "NOT" not in text


def test_what_was_not_replayed_is_null_and_claimed(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    """An invented bound on f would stand beside "ok" otherwise."""
    stated = json.loads((place / "certify.json").read_text())
    found = answer(capsys, verify(place))
    assert (found["ok"], found["about"], "transfer" in found["replayed"]) == (True, "g", False)
    assert (found["bound"], found["delta"]) == (stated["bound_g"], 0.04)
    assert (found["bound_f"], found["transfer"]) == (None, None)
    assert found["claimed_bound_f"] == found["claimed_transfer"]["bound_f"] == stated["bound_f"]
    text = ask(capsys, verify(place))[1]
    assert "Claimed about f, NOT checked" in text
    assert text.index("g, the integer net in this file") < text.index("your net f")


def test_another_net_or_other_inputs_are_not_ok(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    found = answer(capsys, [*verify(place), *own(place, weights="other.pt")], code=1)
    assert "not the net f" in found["reason"]
    assert (found["ok"], found["about"], found["replayed"]) == (False, "g", ["holdout", "sample"])
    assert (found["level"], found["bound"], found["bound_f"]) == ("message", None, None)
    words = ask(capsys, [*verify(place), *own(place, weights="other.pt")])[1]
    assert "The errors on the sample were recounted and are as stated." in words
    assert (
        "297"
        in answer(capsys, [*verify(place), *own(place, unlabelled="digits")], code=1)["reason"]
    )


def test_inspect_shows_bits_positions_and_delta(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    seen = answer(capsys, ["inspect", str(place / "f.cushion")])
    start = 0
    for item in seen["ledger"]:
        assert (item["first_bit"], item["last_bit"]) == (start, start + item["bits"] - 1)
        start += item["bits"]
    assert start == seen["bits"]
    text = ask(capsys, ["inspect", str(place / "f.cushion")])[1]
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["format version"][2:4] == [
        str(seen["ledger"][0]["bits"]),
        f"0-{seen['ledger'][0]['bits'] - 1}",
    ]
    assert rows["bound on g, the net in the file"][8] == "0.04"
    assert rows["f and g disagree"][4] == "0.01"
    assert "0.05  that the statement about your net f is false" in text
    assert all(f"- {assumption}" in text for assumption in seen["assumptions"])
    assert len(seen["assumptions"]) == 8


def test_certify_prints_the_whole(
    capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path
) -> None:
    """Statement, training errors of both nets, hold-out of both, ledger, assumptions, and how to
    check all of it.
    """
    rows = load_pair("digits")[1]
    assert rows is not None
    np.savez(tmp_path / "bare.npz", x=rows.x[:200])  # inputs without labels
    out = str(tmp_path / "f.cushion")
    code, text, _ = ask(capsys, [*certify(place, f"{tmp_path}/bare.npz"), "-o", out])
    assert code == 0
    for words in (
        "your net f",
        "of the 200 unlabelled inputs, so on at most",
        "g errs on",
        "f errs on",
        "held-out examples bound g's error by",
        "bound f's error by",
        "Note: 200 of the 200 unlabelled inputs are held-out examples",
        "format version",
        "that the statement about your net f is false",
        "the unlabelled inputs are fresh",
        f"--unlabelled {tmp_path}/bare.npz",
    ):
        assert words in text, words
    command = text.splitlines()[-1].removeprefix("Check it with: cushion ").split()
    assert ask(capsys, command)[0] == 0, "the printed command verifies the bound on f"


def test_without_unlabelled_inputs_the_bound_is_about_g(
    capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "g.cushion")
    argv = [
        "certify",
        "--data",
        "digits",
        *own(place)[:4],
        "--kind",
        "occam",
        "--minutes",
        "0.02",
        "-o",
        out,
    ]
    code, text, _ = ask(capsys, argv)
    assert code == 0
    assert "not about f" in text
    found = answer(capsys, ["verify", out, "--data", "digits"])
    assert (found["about"], found["delta"], found["bound_f"], found["transfer"]) == (
        "g",
        0.05,
        None,
        None,
    )
    code, _, err = ask(capsys, ["verify", out, "--data", "digits", *own(place)])
    assert code == 2
    assert "nothing about a net f" in err


def test_the_same_in_python(place: Path, tmp_path: Path) -> None:
    import cushion
    from cushion.certificates.answers import answer as answers_on

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    model.load_state_dict(torch.load(place / "mine.pt", weights_only=True))
    assert model.training
    data, fresh = load_pair("digits")
    assert fresh is not None
    certificate = cushion.certify(
        model, data, unlabelled=fresh, delta="0.1", kind="occam", minutes=0.02
    )
    assert model.training
    assert (certificate.about, certificate.claim.delta) == ("f", "0.08")
    path = certificate.save(tmp_path / "f.cushion")
    verdict = cushion.verify(
        path, data, unlabelled=fresh, answering=lambda inputs: answers_on(model, inputs.x)
    )
    assert (verdict.ok, "transfer" in verdict.replayed) == (True, True)
    with pytest.raises(cushion.BadInput, match="`model`"):
        cushion.certify(
            cushion.trace(model, data.shape), data, unlabelled=fresh, kind="occam", minutes=0.02
        )
    with pytest.raises(cushion.BadInput, match="rows of the sample"):
        cushion.certify(model, data, unlabelled=data, minutes=0.02)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("certify --data digits --unlabelled digits,split=test -o {tmp}/x.cushion", "--net"),
        (
            "certify --data digits --net {net} --unlabelled digits -o {tmp}/x.cushion",
            "1500 of the 1500.*split=test",
        ),
        (
            "certify --data digits --net {net} --unlabelled {tmp}/one.npz -o {tmp}/x.cushion",
            "1 of the 3 are rows",
        ),
        (
            "certify --data digits --net {net} --unlabelled {tmp}/wide.npz -o {tmp}/x.cushion",
            "must be alike",
        ),
        ("certify --data digits --net {net} --unlabelled nowhere -o {tmp}/x.cushion", "nowhere"),
        (
            "certify --data digits --net {net} --unlabelled digits,split=x -o {tmp}/x.cushion",
            "train or test",
        ),
        (
            "certify --data digits --net {net} --unlabelled {tmp}/y.npz -o {tmp}/x.cushion",
            "array x",
        ),
        ("verify {file} --data digits --net {net}", "--unlabelled"),
        ("verify {file} --data digits --unlabelled digits,split=test", "--net"),
        ("verify {file} --data digits --weights w.pt", "--net"),
    ],
)
def test_bad_input_gets_one_sentence(
    capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path, argv: str, words: str
) -> None:
    import re

    data, held_out = load_pair("digits")
    assert held_out is not None
    np.savez(tmp_path / "one.npz", x=np.concatenate([held_out.x[:2], data.x[:1]]))
    np.savez(tmp_path / "wide.npz", x=np.zeros((3, 1, 9, 9), np.uint8))
    np.savez(tmp_path / "y.npz", y=np.zeros(3, np.int64))
    names = {
        "tmp": str(tmp_path),
        "net": f"{place / 'mine.py'}:net",
        "file": str(place / "f.cushion"),
    }
    code, out, err = ask(capsys, argv.format(**names).split())
    assert (code, out) == (2, ""), err
    assert re.search(words, err), err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "x.cushion").exists()

"""The command line as a user meets it: answers, JSON, exit codes, and one sentence for anything
bad.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.clock import Clock, own_clock
from tests.command_line import ask

from cushion.cli import build_parser, main

VERBS = ["data", "train", "measure", "certify", "verify", "inspect", "reproduce"]


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    code, out, err = ask(capsys, *argv, "--json", "-")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "digits"
    assert (
        main(
            [
                "train",
                "1x8x8: flatten fc16 relu fc10",
                "--data",
                "digits",
                "--epochs",
                "4",
                "-o",
                str(folder),
            ]
        )
        == 0
    )
    return folder


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("certificates") / "digits.cushion"
    with own_clock():
        assert main(["certify", "--data", "digits", "-o", str(file), "--minutes", "0.08"]) == 0
    return file


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    x = rng.integers(0, 100, (60, 1, 4, 4), dtype=np.uint8)
    x[y == 1, 0, :2] += 100
    np.savez(tmp_path / "toy.npz", x=x, y=y)
    return tmp_path / "toy.npz"


# ---- the contract


def test_data_list(capsys: pytest.CaptureFixture[str]) -> None:
    sets = answer(capsys, "data", "list")["sets"]
    assert [s["name"] for s in sets] == ["digits", "mnist", "fashion-mnist", "cifar10"]
    assert "digits" in ask(capsys, "data", "list")[1]


def test_train_measure_keys(capsys: pytest.CaptureFixture[str], run_folder: Path) -> None:
    found = answer(capsys, "measure", str(run_folder), "--data", "digits")
    assert found["kind"] == "measure"
    assert [layer["kind"] for layer in found["layers"]] == ["linear", "linear"]
    for key in (
        "name",
        "shape",
        "layer_cushion",
        "frobenius",
        "spectral",
        "spectral_upper",
        "stable_rank",
    ):
        assert key in found["layers"][0]
    assert found["layers"][0]["layer_cushion"]["value"] > 0
    assert found["net"]["m"] == 1500
    only = answer(
        capsys,
        "measure",
        str(run_folder / "net.safetensors"),
        "--data",
        "digits",
        "--only",
        "margins",
    )
    assert only["layers"][0]["spectral"] is None
    assert only["net"]["errors"] == found["net"]["errors"]
    text = ask(capsys, "measure", str(run_folder), "--data", "digits")[1]
    assert "not a bound" in text
    assert "cushion" in text


def test_measuring_on_other_examples_is_said(
    capsys: pytest.CaptureFixture[str], run_folder: Path
) -> None:
    assert ask(capsys, "measure", str(run_folder), "--data", "digits", "--only", "margins")[2] == ""
    code, _, err = ask(
        capsys, "measure", str(run_folder), "--data", "digits,shuffle-labels", "--only", "margins"
    )
    assert code == 0
    assert "other examples or labels" in err


def test_certify_verify_inspect(capsys: pytest.CaptureFixture[str], certificate: Path) -> None:
    found = answer(capsys, "verify", str(certificate), "--data", "digits")
    for key in (
        "ok",
        "level",
        "about",
        "errors",
        "m",
        "bits",
        "delta",
        "bound",
        "holdout",
        "assumptions",
    ):
        assert key in found
    assert (found["ok"], found["level"], found["about"], found["m"]) == (True, "replay", "g", 1500)
    assert found["holdout"]["m"] == 297
    assert found["replayed"] == ["holdout", "sample"]
    assert found["errors"] / found["m"] < found["bound"] < 0.6
    seen = answer(capsys, "inspect", str(certificate))
    assert sum(item["bits"] for item in seen["ledger"]) == found["bits"]
    assert (seen["bits"], seen["bound"]) == (found["bits"], found["bound"])
    assert "total" in ask(capsys, "inspect", str(certificate))[1]
    text = ask(capsys, "verify", str(certificate), "--data", "digits")[1]
    assert "With probability 95 %" in text
    assert "independent draws" in text


def test_a_certificate_that_does_not_hold_exits_with_1(
    capsys: pytest.CaptureFixture[str], certificate: Path, toy: Path
) -> None:
    code, out, _ = ask(capsys, "verify", str(certificate), "--data", str(toy))
    assert code == 1
    assert "NOT OK" in out
    code, out, _ = ask(capsys, "verify", str(certificate), "--data", str(toy), "--json", "-")
    assert (code, json.loads(out)["ok"]) == (1, False)


def test_a_damaged_certificate_exits_with_2(
    capsys: pytest.CaptureFixture[str], certificate: Path, tmp_path: Path
) -> None:
    content = bytearray(certificate.read_bytes())
    content[len(content) // 2] ^= 1
    bad = tmp_path / "bad.cushion"
    bad.write_bytes(content)
    for verb in (["verify", str(bad), "--data", "digits"], ["inspect", str(bad)]):
        code, out, err = ask(capsys, *verb)
        assert (code, out) == (2, "")
        assert "damaged" in err


def test_own_net_from_a_python_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, toy: Path, clock: Clock
) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef make():\n    convolution = [nn.Conv2d(1, 3, 3), "
        "nn.BatchNorm2d(3), nn.ReLU()]\n    return nn.Sequential(*convolution, nn.Flatten(), "
        "nn.Linear(12, 2))\n"
    )
    reference = f"{tmp_path / 'mine.py'}:make"
    found = answer(capsys, "measure", reference, "--data", str(toy))
    assert [layer["kind"] for layer in found["layers"]] == ["conv2d", "linear"]
    assert answer(capsys, "measure", reference, "--data", str(toy)) == found, (
        "a net without weights is seeded"
    )
    assert "no --weights" in ask(capsys, "measure", reference, "--data", str(toy))[2]
    out = str(tmp_path / "mine.cushion")
    stated = answer(
        capsys, "certify", "--data", str(toy), "--net", reference, "-o", out, "--minutes", "0.02"
    )
    assert stated["about"] == "g"
    assert ask(capsys, "verify", out, "--data", str(toy))[0] == 0


def test_tables_of_floats_are_certified_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, clock: Clock
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    np.savez(tmp_path / "table.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
    out = str(tmp_path / "table.cushion")
    argv = ["--data", str(tmp_path / "table.npz")]
    stated = answer(capsys, "certify", *argv, "-o", out, "--minutes", "0.05")
    found = answer(capsys, "verify", out, *argv)
    assert (found["ok"], found["bound"]) == (True, stated["bound"])
    assert found["bound"] < 0.9


def test_certificates_of_the_other_kind_are_read_by_their_own_rules(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from decimal import Decimal

    from tests.posterior_cases import coin, ones

    from cushion.certificates.pac_bayes import certify_gaussian

    data = ones(200)
    np.savez(tmp_path / "ones.npz", x=data.x, y=data.y)
    file = str(
        certify_gaussian(coin(), data, Decimal("0.05"), draws=10**5).save(tmp_path / "q.cushion")
    )
    found = answer(capsys, "verify", file, "--data", str(tmp_path / "ones.npz"))
    assert (found["ok"], found["kind"], found["about"]) == (True, "pac-bayes", "Q")
    assert found["delta_draws"] < found["delta"] == 0.05
    assert found["sample_bound"] < found["bound"] < 1
    assert "drawn anew" in ask(capsys, "verify", file, "--data", str(tmp_path / "ones.npz"))[1]
    assert answer(capsys, "inspect", file)["kl"] == found["kl"]
    assert "confidence" in ask(capsys, "inspect", file)[1]


def test_reproduce_list_and_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "pages")
    items = answer(capsys, "reproduce", "--list", "-o", out)["items"]
    assert {"id", "title", "done"} <= set(items[0])
    assert not items[0]["done"]
    assert ask(capsys, "reproduce", "cushion-occam-table", "-o", out)[0] == 0
    assert answer(capsys, "reproduce", "--list", "-o", out)["items"][0]["done"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = ask(capsys, verb, "--help")
    assert code == 0
    assert f"example: cushion {verb}" in " ".join(out.split())


def test_json_to_a_file_is_whole_and_the_text_still_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "list.json"
    code, out, _ = ask(capsys, "data", "list", "--json", str(target))
    assert code == 0
    assert "digits" in out
    assert json.loads(target.read_text())["sets"]


def test_devices_pipes_and_links_survive_being_written_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pipe, target, link = tmp_path / "pipe", tmp_path / "target.json", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(target)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    read: list[str] = []
    reader.start()
    assert ask(capsys, "data", "list", "--json", str(pipe))[0] == 0
    reader.join(timeout=10)
    assert json.loads(read[0])["sets"]
    assert pipe.is_fifo()
    assert ask(capsys, "data", "list", "--json", str(link))[0] == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["sets"]


def test_a_bug_is_not_the_answer_no(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cushion.data.fetch.list_sets", lambda: 1 / 0)
    code, _, err = ask(capsys, "data", "list")
    assert code == 70
    assert "bug in cushion" in err


# ---- bad input: one sentence, exit code 2, no traceback, nothing half-written


def nan_weights(run: Path, where: Path) -> str:
    tensors = load_file(run / "net.safetensors")
    key = sorted(tensors)[0]
    tensors[key] = torch.full_like(tensors[key], float("nan"))
    from safetensors import safe_open

    with safe_open(run / "net.safetensors", "pt") as file:
        metadata = {key: value for key, value in file.metadata().items() if key != "checksum"}
    save_file(tensors, where / "nan.safetensors", metadata=metadata)
    return str(where / "nan.safetensors")


def prepared(tmp_path: Path, run: Path, certificate: Path) -> dict[str, str]:
    """Files of every bad kind, by the name that the cases below use."""
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "lengths.npz", x=np.zeros((3, 4), np.uint8), y=np.zeros(2, np.int64))
    np.savez(tmp_path / "nothing.npz", x=np.zeros((0, 4), np.uint8), y=np.zeros(0, np.int64))
    np.savez(tmp_path / "negative.npz", x=np.zeros((2, 4), np.uint8), y=np.array([0, -1]))
    np.savez(tmp_path / "floats.npz", x=np.zeros((20, 4), np.float32), y=np.arange(20) % 2)
    np.savez(tmp_path / "classes.npz", x=np.zeros((2, 4), np.uint8), y=np.array([0, 10**9]))
    (tmp_path / "quits.py").write_text("import sys\ndef make():\n    sys.exit(0)\n")
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "train-images-idx3-ubyte").write_bytes(
        bytes([0, 0, 8, 3, 0, 0, 0, 9]) + bytes(20)
    )
    (tmp_path / "idx" / "train-labels-idx1-ubyte").write_bytes(
        bytes([0, 0, 8, 1, 0, 0, 0, 9]) + bytes(9)
    )
    (tmp_path / "lstm.py").write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        "
        "super().__init__()\n        self.cell = nn.LSTM(8, 10, batch_first=True)\n    def "
        "forward(self, x):\n        return self.cell(x[:, 0])[0][:, -1]\n"
    )
    (tmp_path / "fine.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, "
        "10))\n"
    )
    trap = tmp_path / "trap.txt"
    (tmp_path / "evil.pt").write_bytes(b"cos\nsystem\n(S'touch " + str(trap).encode() + b"'\ntR.")
    (tmp_path / "cut.safetensors").write_bytes((run / "net.safetensors").read_bytes()[:200])
    return {
        "tmp": str(tmp_path),
        "run": str(run),
        "nan": nan_weights(run, tmp_path),
        "certificate": str(certificate),
        "trap": str(trap),
    }


BAD = [
    ("measure {run} --data {tmp}/none.npz", "none.npz"),
    ("measure {tmp}/none.safetensors --data digits", "none.safetensors"),
    ("measure {tmp}/cut.safetensors --data digits", "cut.safetensors"),
    ("measure {nan} --data digits", "NaN|finite"),
    ("measure {run} --data {tmp}/empty", "empty"),
    ("measure {run} --data {tmp}/idx", "train-images"),
    ("measure {run} --data {tmp}/lengths.npz", "rows|lengths"),
    ("measure {run} --data {tmp}/nothing.npz", "empty"),
    ("measure {run} --data {tmp}/negative.npz", "label"),
    ("measure {run} --data {tmp}/floats.npz", "shape|reads"),
    ("measure {run} --data digits --only typo", "typo"),
    ("measure {tmp}/lstm.py:Net --data digits --only paths", "cell.*LSTM"),
    ("measure {tmp}/fine.py:nothing --data digits", "nothing"),
    ("measure {tmp}/fine.py:make --weights {tmp}/evil.pt --data digits", "evil.pt"),
    ("measure {tmp}/net.pt2 --data digits", "--trust|exist"),
    ("measure {run} --data mnist-typo", "named sets"),
    ("train no-such-recipe --data digits -o {tmp}/r", "no-such-recipe"),
    ("train small --data digits -o {tmp}/r --epochs 0", "epochs"),
    ("train small --data digits -o {tmp}/r --width -1", "width"),
    ("train small --data digits -o {tmp}/r --device tpu", "tpu"),
    ("train small --data digits -o {tmp}/r --typo 3", "typo"),
    ("train arora-vgg19 --data digits -o {tmp}/r", "8"),
    ("certify --data digits -o {tmp}/no/f.cushion", "not a folder"),
    ("certify --data digits -o {tmp}", "is a folder"),
    ("certify --data {tmp}/classes.npz -o {tmp}/f.cushion", "classes"),
    ("data list --json {tmp}", "is a folder"),
    ("measure {tmp}/quits.py:make --data digits", "SystemExit"),
    ("measure {run} --data ,subset=3", "no source"),
    ("certify --data digits -o {tmp}/f.cushion --delta 2", "--delta"),
    ("certify --data digits -o {tmp}/f.cushion --minutes 0", "minutes"),
    ("certify --data digits -o {tmp}/f.cushion --weights w.pt", "--net"),
    ("verify {tmp}/none.cushion --data digits", "none.cushion"),
    ("verify {tmp}/fine.py --data digits", "not a certificate"),
    ("verify {certificate}", "--data"),
    ("inspect {tmp}", "cannot be read"),
    ("reproduce", "--list"),
    ("reproduce nothing", "--list"),
    ("data get nothing", "named sets"),
    ("data get digits", "digits"),
    ("data list --json {tmp}/no/x.json", "not a folder"),
    ("frobnicate", "frobnicate"),
    ("measure {run} --data digits --seed x --dat digits", "dat|seed"),
]


@pytest.mark.parametrize(("command", "words"), BAD)
def test_bad_input_gets_one_sentence_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    run_folder: Path,
    certificate: Path,
    command: str,
    words: str,
) -> None:
    import re

    names = prepared(tmp_path, run_folder, certificate)

    def files() -> list[Path]:  # what Python writes beside a file that it imports does not count
        return sorted(p for p in tmp_path.rglob("*") if "__pycache__" not in p.parts)

    before = files()
    code, out, err = ask(capsys, *(word.format(**names) for word in command.split()))
    assert code == 2, (out, err)
    assert out == ""
    assert re.search(words, err), err
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    assert files() == before, "something was left behind"
    assert not Path(names["trap"]).exists(), "code from a pickle ran"


# ---- start-up


def test_start_up_loads_nothing_heavy() -> None:
    """What makes a start slow is what it imports; `python -m benchmarks start` has the seconds."""
    heavy = {"torch", "scipy", "sklearn", "pandas", "matplotlib", "PIL", "safetensors"}
    for words in ("import cushion", "from cushion.cli import main; main(['data', 'list'])"):
        shown = subprocess.run(
            [sys.executable, "-c", f"import sys; {words}; print(*sys.modules, file=sys.stderr)"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert heavy.isdisjoint(shown.stderr.split())


def test_python_m_cushion_is_the_command() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "cushion", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("cushion ")
    bad = subprocess.run(
        [sys.executable, "-m", "cushion", "verify", "x", "--data", "digits"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (bad.returncode, bad.stdout) == (2, "")


def test_a_closed_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m cushion data list | true; exit ${{PIPESTATUS[0]}}"
    assert (
        subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False).stderr
        == ""
    )


def test_the_parser_knows_exactly_these_verbs() -> None:
    text = build_parser().format_help()
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize("options", [[], ["--json", "-"]])
def test_a_terminal_that_knows_no_greek(
    certificate: Path, tmp_path: Path, options: list[str]
) -> None:
    """What it cannot show is shown by its code; nothing is lost in the JSON."""
    words = [
        sys.executable,
        "-m",
        "cushion",
        "verify",
        str(certificate),
        "--data",
        "digits",
        *options,
    ]
    world = {**os.environ, "PYTHONIOENCODING": "ascii", "CUSHION_DATA": str(tmp_path)}
    made = subprocess.run(words, capture_output=True, env=world, check=False)
    assert made.returncode == 0, made.stderr
    assert b"\\u03b4" in made.stdout
    if options:
        assert "δ" in json.loads(made.stdout)["assumptions"][2]

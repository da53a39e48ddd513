"""A pipe, socket, device or folder where a file is wanted is refused before it is opened.

Opening a pipe that nobody writes to waits forever, so every case here would hang, not fail.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import ask

import cushion
from cushion.data.files import check_regular, write_whole
from cushion.errors import BadInput
from cushion.nets.loading.weights import load_net

SECONDS = 20
NET = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(4, 2))\n"


@pytest.fixture(autouse=True)
def waited_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nobody waits for the tests of a mutant: a writer comes, and what was opened is empty."""

    def come() -> None:
        for pipe in request.getfixturevalue("tmp_path").rglob("*"):
            if pipe.is_fifo():
                os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))

    timer = threading.Timer(SECONDS, come)
    timer.start()
    yield
    timer.cancel()


def special(path: Path, kind: str) -> Path:
    """Something at the path that is no plain file."""
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
        os.chdir(here)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


KINDS = ("a pipe", "a socket", "a device", "a folder")


@pytest.mark.parametrize("kind", KINDS)
def test_the_helper_names_what_is_there(tmp_path: Path, kind: str) -> None:
    path = special(tmp_path / "x", kind)
    with pytest.raises(BadInput, match=f"x is {kind} and not a file; "):
        check_regular(path)


def test_the_helper_passes_files_links_to_files_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link", "missing"):
        assert check_regular(tmp_path / name) == tmp_path / name
    assert str(check_regular("a\0b")) == "a\0b"


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize(
    "words",
    [
        "inspect x.cushion",
        "verify x.cushion --data d.npz",
        "measure x.safetensors --data d.npz",
        "measure x.pt2 --trust --data d.npz",
        "measure x.py:make --data d.npz",
        "measure net.py:make --weights x.pt --data d.npz",
        "measure net.py:make --weights x.safetensors --data d.npz",
        "measure net.py:make --data x.npz",
        "certify --data d.npz --net net.py:make --unlabelled x.npz -o c",
        "bounds x --data d.npz",
        "compress x --data d.npz --method low-rank --k 1 -o c",
    ],
)
def test_every_input_of_the_command_line_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.integers(0, 256, (20, 4), dtype=np.uint8), y=np.arange(20) % 2)
    Path("net.py").write_text(NET)
    name = next(word.split(":")[0] for word in words.split() if word.startswith("x"))
    special(tmp_path / name, kind)
    code, out, err = ask(capsys, *words.split())
    assert (code, out) == (2, "")
    assert name in err
    assert "file" in err
    assert not (tmp_path / "c").exists()


def image_folder(folder: Path) -> Path:
    from PIL import Image

    for name in "ab":
        (folder / name).mkdir(parents=True)
        for k in range(2):
            Image.fromarray(np.full((2, 2), k, dtype=np.uint8)).save(folder / name / f"{k}.png")
    return folder / "b" / "1.png"


def npy_folder(folder: Path) -> Path:
    np.save(folder / "x_train.npy", np.zeros((4, 2), dtype=np.uint8))
    np.save(folder / "y_train.npy", np.arange(4) % 2)
    return folder / "y_train.npy"


def cifar_folder(folder: Path) -> Path:
    for name in [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]:
        (folder / name).write_bytes(bytes(3073))
    return folder / "data_batch_3.bin"


def python_cifar_folder(folder: Path) -> Path:
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        (folder / name).write_bytes(b"")
    return folder / "data_batch_1"


def idx_folder(folder: Path) -> Path:
    head = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1])
    (folder / "train-images-idx3-ubyte").write_bytes(head + bytes(2))
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 0, 1]))
    return folder / "train-labels-idx1-ubyte"


FOLDERS = (image_folder, npy_folder, cifar_folder, python_cifar_folder, idx_folder)


@pytest.mark.parametrize("make", FOLDERS)
def test_a_pipe_inside_a_folder_of_data_is_refused(tmp_path: Path, make: object) -> None:
    special(make(tmp_path), "a pipe")  # type: ignore[operator]
    with pytest.raises(BadInput):
        cushion.load(tmp_path)


@pytest.mark.parametrize("file", ["run.json", "net.safetensors", "init.safetensors"])
def test_a_pipe_inside_a_run_is_refused(tmp_path: Path, file: str) -> None:
    run = tmp_path / "run"
    data = cushion.load("digits,subset=20")
    cushion.train("small", data, run, epochs=1, progress=False)
    special(run / file, "a pipe")

    def again() -> None:
        cushion.train("small", data, run, epochs=1, progress=False)

    with pytest.raises(BadInput, match="is a pipe and not a file"):
        load_net(run) if file == "init.safetensors" else again()


def test_a_set_whose_statement_is_a_pipe_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path))
    (tmp_path / "mnist" / "arrays").mkdir(parents=True)
    special(tmp_path / "mnist" / "arrays" / "meta.json", "a pipe")
    with pytest.raises(BadInput, match="has not been downloaded"):
        cushion.load("mnist")


def test_an_answer_goes_into_a_pipe_that_is_there(tmp_path: Path) -> None:
    pipe = special(tmp_path / "x", "a pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "the answer\n")
    reader.join(SECONDS)
    assert (found, pipe.is_fifo()) == (["the answer\n"], True)


@pytest.mark.parametrize("to", ["/dev/null", "/dev/stdout"])
def test_an_answer_goes_to_a_device(to: str, tmp_path: Path) -> None:
    shutil.copy(
        Path(__file__).parents[1] / "certificates" / "valid" / "convolutions.cushion", tmp_path
    )
    words = [sys.executable, "-m", "cushion", "inspect", str(tmp_path / "convolutions.cushion")]
    done = subprocess.run([*words, "--json", to], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("/dev/null").is_char_device()
    if to == "/dev/stdout":
        assert json.JSONDecoder().raw_decode(done.stdout)[0]["ok"] is True

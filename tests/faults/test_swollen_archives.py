"""A small archive that unpacks to gigabytes is refused before it unpacks."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.command_line import ask


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gigabyte of zeros in some megabytes, written without ever holding it."""
    path, block, header = tmp_path_factory.mktemp("bomb") / "bomb.npz", bytes(2**20), io.BytesIO()
    stated = {"descr": "|u1", "fortran_order": False, "shape": (1100, 10**6)}
    np.lib.format.write_array_header_1_0(header, stated)
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("x.npy", "w") as stream:
        stream.write(header.getvalue())
        for _ in range(1050):
            stream.write(block)
    assert path.stat().st_size < 6e6
    return path


@pytest.mark.parametrize("words", ["certify -o out", "verify out", "measure net"])
def test_the_command_line_refuses_it_in_one_sentence(
    bomb: Path,
    tmp_path: Path,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(capsys, *words.split(), "--data", str(bomb))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{bomb}: " in err
    assert "unpack to 1.1 GB" in err

"""Figures: each picture that the table has numbers for, whole files, and clear refusals."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.cases import CASES

import cushion
from cushion.cli.figures import draw, prepare
from cushion.data.dataset import Dataset
from cushion.errors import BadInput

OPTIONS = cushion.StabilityOptions(draws=2, k=50, attenuation_draws=1, levels=(0.1, 0.5))


def measured(only: str, beside: Any = None) -> Any:
    case = next(case for case in CASES if case.name == "vgg-tiny")
    rng = np.random.default_rng(0)
    data = Dataset(
        "noise", rng.random((9, *case.input_shape), dtype=np.float32), rng.integers(0, 3, 9), 3
    )
    return cushion.measure(case.module(), data, only=only, stability=OPTIONS, beside=beside)


def test_every_picture_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    prepare(str(tmp_path / "new" / "folder"))
    paths = draw(measured("stability", "random"), str(tmp_path / "new" / "folder"))
    names = {
        "layer-cushion",
        "activation-contraction",
        "interlayer-cushion",
        "interlayer-smoothness",
        "jacobian-beta",
        "singular-values",
        "noise-attenuation-0.1",
        "noise-attenuation-0.5",
    }
    assert {path.name for path in paths} == {
        f"{name}.{kind}" for name in names for kind in ("png", "svg")
    }
    for path in paths:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                colours = {pixel for _, pixel in picture.convert("RGB").getcolors(1 << 24) or []}
            assert len(colours) > 10, path
        else:
            text = path.read_text()
            assert text.rstrip().endswith("</svg>")
            assert "measure" in text or "<path" in text
    assert not list((tmp_path / "new" / "folder").glob("*.tmp*"))


def test_only_what_was_measured_is_drawn(tmp_path: Path) -> None:
    assert {path.stem for path in draw(measured("spectra"), str(tmp_path))} == {"singular-values"}
    assert {path.stem for path in draw(measured("margins"), str(tmp_path))} == {"margins"}
    assert {path.stem for path in draw(measured("sharpness"), str(tmp_path))} == {
        "expected-sharpness"
    }
    names = {"condition-c1", "condition-c2", "condition-c3"}
    assert {path.stem for path in draw(measured("conditions"), str(tmp_path))} == names
    assert {
        path.stem for path in draw(measured("conditions", beside="random"), str(tmp_path))
    } == names
    assert draw(measured("norms"), str(tmp_path)) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match="file is a file; give a folder"):
            prepare(str(folder))
    prepare(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()  # nothing is left behind by a run that fails later


def test_without_matplotlib_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match="needs matplotlib; install it with"):
        prepare(str(tmp_path))

"""Pictures of tails: from records alone, only where a law was fitted, each line where the record
has it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import cushion
from cushion.cli.figures import draw, tails
from cushion.data.dataset import Dataset
from cushion.measures.records import MeasureTable
from cushion.measures.tails.records import HillPlot
from cushion.papers.canvas import MINE, OTHER

NAMES = {"tails-weights", "hill-weights", "tails-eigenvalues", "hill-eigenvalues"}


@pytest.fixture(scope="module")
def found() -> MeasureTable:
    rng = np.random.default_rng(0)
    data = Dataset("noise", rng.random((9, 60), dtype=np.float32), rng.integers(0, 3, 9), 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(60, 70), nn.ReLU(), nn.Linear(70, 3))
    return cushion.measure(net, data, only="tails", beside="random")


@pytest.fixture
def figures() -> dict[str, Any]:
    """The figures that are drawn, by name."""
    return {}


def lines_of(axes: Any, colour: str) -> list[Any]:
    return [line for line in axes.get_lines() if line.get_color() == colour]


def test_whole_files_are_drawn(found: MeasureTable, tmp_path: Path) -> None:
    paths = draw(found, str(tmp_path))
    assert {path.name for path in paths} == {
        f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")
    }
    for path in paths:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10


def test_axes_are_labelled_and_colours_are_apart(
    found: MeasureTable, figures: dict[str, Any]
) -> None:
    figures.update(tails.pictures(found))
    assert set(figures) == NAMES
    for name, figure in figures.items():
        first = figure.axes[0]
        assert "(measure)" in figure.get_suptitle()
        assert first.get_xlabel()
        assert first.get_ylabel()
        assert first.get_xscale() == "log"
        assert first.get_yscale() == ("log" if name.startswith("tails") else "linear")
        assert lines_of(first, MINE)
        assert lines_of(first, OTHER)
        assert figure.legends[0].get_texts()[0].get_text() == "this net"
    assert len(figures["tails-weights"].axes) == 2
    assert len(figures["hill-eigenvalues"].axes) == 1  # the last layer has three eigenvalues


def test_the_line_is_the_fitted_law(found: MeasureTable, figures: dict[str, Any]) -> None:
    figures.update(tails.pictures(replace(found, beside=None)))
    layer = found.layers[0].tails
    assert layer is not None
    law, points, hill = layer.weights.power_law, layer.weights.survival, layer.weights.hill
    assert law is not None
    assert points is not None
    assert hill is not None
    axes = figures["tails-weights"].axes[0]
    (dots,), (line, start) = lines_of(axes, MINE), lines_of(axes, "#000000")
    assert tuple(dots.get_xdata()) == points.x
    assert tuple(dots.get_ydata()) == points.share
    assert list(line.get_xdata()) == [law.xmin, law.largest]
    share = law.tail / law.values
    assert line.get_ydata() == pytest.approx(
        [share, share * (law.largest / law.xmin) ** (1 - law.alpha)]
    )
    assert list(start.get_xdata()) == [law.xmin, law.xmin]
    axes = figures["hill-weights"].axes[0]
    (curve,), (index, size) = lines_of(axes, MINE), lines_of(axes, "#000000")
    assert tuple(curve.get_xdata()) == hill.k
    assert tuple(curve.get_ydata()) == hill.tail_index
    assert list(index.get_ydata()) == [law.alpha - 1] * 2
    assert list(size.get_xdata()) == [law.tail] * 2
    assert axes.get_ylim()[1] > law.alpha - 1
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(
        max(i + 2 * e for i, e in zip(hill.tail_index, hill.errors, strict=True))
    )


def test_layers_without_a_fit_are_left_out(found: MeasureTable, figures: dict[str, Any]) -> None:
    bare = replace(found, layers=tuple(replace(row, tails=None) for row in found.layers))
    assert list(tails.pictures(bare)) == []
    last = replace(found, layers=found.layers[1:])
    figures.update(tails.pictures(last))
    assert set(figures) == {"tails-weights", "hill-weights"}
    assert len(figures["tails-weights"].axes) == 1


def test_a_hill_plot_without_points_is_an_empty_panel(
    found: MeasureTable, figures: dict[str, Any]
) -> None:
    layer = found.layers[0].tails
    assert layer is not None
    bare = replace(layer, weights=replace(layer.weights, hill=HillPlot((), (), ())))
    layers = (replace(found.layers[0], tails=bare),)
    figures.update(tails.pictures(replace(found, layers=layers, beside=None)))
    assert figures["hill-weights"].axes[0].get_lines() == []
    assert figures["tails-weights"].axes[0].get_lines() != []


def test_deep_nets_show_some_layers_and_say_so(
    found: MeasureTable, figures: dict[str, Any]
) -> None:
    deep = tuple(replace(found.layers[0], name=f"layer{at}") for at in range(60))
    figures.update(tails.pictures(replace(found, layers=deep, beside=None)))
    shown = [axes.get_title().removeprefix("layer ") for axes in figures["tails-weights"].axes]
    assert len(shown) == len(set(shown)) == 24
    assert (shown[0], shown[-1]) == ("layer0", "layer59")
    assert "24 of 60 layers" in figures["tails-weights"].get_suptitle()

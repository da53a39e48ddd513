"""Contours and scatters of `cushion reproduce`: whole files from JSON alone, with the numbers in the right place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from cushion.figures import reproduction
from cushion.reproduction.drawings import Contour, Drawing, Line, Picture, Points, Scatter, Series

CONTOUR = Contour("hill", "Hill", (0.0, 1.0, 2.0), (0.0, 5.0), "α", "i", ((0.0, 0.5, 1.0), (0.1, 0.2, 0.3)), "P")
SCATTER = Scatter(
    "fleet",
    "Fleet",
    "exponent",
    "stable rank",
    (Points("mnist", ((2.0, 10.0), (4.0, 30.0))), Points("cifar10", ((3.0, 5.0),)), Points("none", ())),
    (Line("first", 10.0, -10.0), Line("second", 0.0, 5.0)),
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    kept: list[Figure] = []
    save = reproduction.save

    def keep(figure: Figure, folder: Path, name: str) -> list[Path]:
        kept.append(figure)
        return save(figure, folder, name)

    monkeypatch.setattr(reproduction, "save", keep)
    return kept


def draw(picture: Drawing, folder: Path) -> None:
    through_a_file: dict[str, Any] = json.loads(json.dumps(picture.to_json()))
    paths = reproduction.draw_picture(through_a_file, folder)
    assert [path.name for path in paths] == [f"{picture.name}.png", f"{picture.name}.svg"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_a_contour_has_ten_levels_from_low_to_high(tmp_path: Path, drawn: list[Figure]) -> None:
    draw(CONTOUR, tmp_path)
    axes, bar = drawn[0].axes
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("α", "i", "P")
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 2.0), (0.0, 5.0))  # α runs along x
    filled = axes.collections[-1]
    assert list(filled.levels) == pytest.approx([k / 10 for k in range(11)])
    bright = [sum(filled.cmap(filled.norm(level))[:3]) for level in (0.05, 0.95)]
    assert bright[0] < bright[1]  # lighter is higher


def test_points_stand_in_their_groups_and_lines_cross_them_all(tmp_path: Path, drawn: list[Figure]) -> None:
    draw(SCATTER, tmp_path)
    (axes,) = drawn[0].axes
    groups = {one.get_label(): one.get_offsets().tolist() for one in axes.collections}
    assert groups == {"mnist": [[2.0, 10.0], [4.0, 30.0]], "cifar10": [[3.0, 5.0]], "none": []}
    lines = {one.get_label(): (list(one.get_xdata()), list(one.get_ydata())) for one in axes.lines}
    assert lines == {"first": ([2.0, 4.0], [10.0, 30.0]), "second": ([2.0, 4.0], [5.0, 5.0])}
    assert len({one.get_linestyle() for one in axes.lines}) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [*groups, *lines]


def test_a_scatter_without_points_is_drawn(tmp_path: Path, drawn: list[Figure]) -> None:
    draw(Scatter("empty", "Empty", "x", "y", (Points("none", ()),), (Line("line", 1.0, 2.0),)), tmp_path)
    assert list(drawn[0].axes[0].lines[0].get_ydata()) == [2.0, 3.0]


@pytest.mark.parametrize(("points", "marked"), [(50, True), (51, False)])
def test_a_curve_of_many_points_has_no_markers(tmp_path: Path, drawn: list[Figure], points: int, marked: bool) -> None:
    places = tuple(float(k) for k in range(points))
    draw(Picture("curve", "Curve", places, "x", "y", (Series("one", places),), y_log=True), tmp_path)
    assert (drawn[0].axes[0].lines[0].get_marker() == "o") is marked
    assert drawn[0].axes[0].get_yscale() == "log"


def test_errors_of_x_are_bars(tmp_path: Path, drawn: list[Figure]) -> None:
    groups = (Points("mnist", ((2.0, 10.0), (4.0, 30.0)), (0.5, 0.25)),)
    draw(Scatter("fleet", "Fleet", "x", "y", groups), tmp_path)
    bars = drawn[0].axes[0].collections[0].get_segments()
    assert [bar.tolist() for bar in bars] == [[[1.5, 10.0], [2.5, 10.0]], [[3.75, 30.0], [4.25, 30.0]]]


def test_a_line_of_the_paper_has_the_colour_of_its_own(tmp_path: Path, drawn: list[Figure]) -> None:
    values = (1.0, 2.0)
    names = (("α = 1", False), ("α = 2", False), ("eq. 12, α = 2", True), ("alone", True))
    series = tuple(Series(name, values, from_paper=paper) for name, paper in names)
    draw(Picture("pair", "Pair", (0.0, 1.0), "x", "y", series), tmp_path)
    first, second, own, alone = drawn[0].axes[0].lines
    assert own.get_color() == second.get_color()
    assert own.get_linestyle() == "--"
    assert len({line.get_color() for line in (first, second, alone)}) == 3

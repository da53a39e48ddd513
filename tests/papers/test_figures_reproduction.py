"""The pictures of `cushion reproduce`: whole files from JSON alone, with the numbers in the right
place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from cushion.papers import pictures as reproduction
from cushion.papers.drawings import (
    Contour,
    Curve,
    Curves,
    Drawing,
    Histogram,
    Line,
    Panels,
    Picture,
    Points,
    Scatter,
    Series,
    Spread,
    spread_of,
)

CONTOUR = Contour(
    "hill", "Hill", (0.0, 1.0, 2.0), (0.0, 5.0), "α", "i", ((0.0, 0.5, 1.0), (0.1, 0.2, 0.3)), "P"
)
SCATTER = Scatter(
    "fleet",
    "Fleet",
    "exponent",
    "stable rank",
    (
        Points("mnist", ((2.0, 10.0), (4.0, 30.0))),
        Points("cifar10", ((3.0, 5.0),)),
        Points("none", ()),
    ),
    (Line("first", 10.0, -10.0), Line("second", 0.0, 5.0)),
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    kept: list[Figure] = []
    save = reproduction.save

    def keep(figure: Figure, folder: Path, name: str, kinds: Sequence[str]) -> list[Path]:
        kept.append(figure)
        return save(figure, folder, name, kinds)

    monkeypatch.setattr(reproduction, "save", keep)
    return kept


def draw(picture: Drawing, folder: Path) -> None:
    through_a_file: dict[str, Any] = json.loads(json.dumps(picture.to_json()))
    paths = reproduction.draw_picture(through_a_file, folder, svg=True)
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


def test_points_stand_in_their_groups_and_lines_cross_them_all(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    draw(SCATTER, tmp_path)
    (axes,) = drawn[0].axes
    groups = {one.get_label(): one.get_offsets().tolist() for one in axes.collections}
    assert groups == {"mnist": [[2.0, 10.0], [4.0, 30.0]], "cifar10": [[3.0, 5.0]], "none": []}
    lines = {one.get_label(): (list(one.get_xdata()), list(one.get_ydata())) for one in axes.lines}
    assert lines == {"first": ([2.0, 4.0], [10.0, 30.0]), "second": ([2.0, 4.0], [5.0, 5.0])}
    assert len({one.get_linestyle() for one in axes.lines}) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [*groups, *lines]


def test_a_scatter_without_points_is_drawn(tmp_path: Path, drawn: list[Figure]) -> None:
    draw(
        Scatter("empty", "Empty", "x", "y", (Points("none", ()),), (Line("line", 1.0, 2.0),)),
        tmp_path,
    )
    assert list(drawn[0].axes[0].lines[0].get_ydata()) == [2.0, 3.0]


@pytest.mark.parametrize(("points", "marked"), [(50, True), (51, False)])
def test_a_curve_of_many_points_has_no_markers(
    tmp_path: Path, drawn: list[Figure], points: int, marked: bool
) -> None:
    places = tuple(float(k) for k in range(points))
    draw(
        Picture("curve", "Curve", places, "x", "y", (Series("one", places),), y_log=True), tmp_path
    )
    assert (drawn[0].axes[0].lines[0].get_marker() == "o") is marked
    assert drawn[0].axes[0].get_yscale() == "log"


def test_errors_of_x_are_bars(tmp_path: Path, drawn: list[Figure]) -> None:
    groups = (Points("mnist", ((2.0, 10.0), (4.0, 30.0)), (0.5, 0.25)),)
    draw(Scatter("fleet", "Fleet", "x", "y", groups), tmp_path)
    bars = drawn[0].axes[0].collections[0].get_segments()
    assert [bar.tolist() for bar in bars] == [
        [[1.5, 10.0], [2.5, 10.0]],
        [[3.75, 30.0], [4.25, 30.0]],
    ]


def test_a_line_of_the_paper_has_the_colour_of_its_own(tmp_path: Path, drawn: list[Figure]) -> None:
    values = (1.0, 2.0)
    names = (("α = 1", False), ("α = 2", False), ("eq. 12, α = 2", True), ("alone", True))
    series = tuple(Series(name, values, from_paper=paper) for name, paper in names)
    draw(Picture("pair", "Pair", (0.0, 1.0), "x", "y", series), tmp_path)
    first, second, own, alone = drawn[0].axes[0].lines
    assert own.get_color() == second.get_color()
    assert own.get_linestyle() == "--"
    assert len({line.get_color() for line in (first, second, alone)}) == 3


def test_histograms_are_densities(tmp_path: Path, drawn: list[Figure]) -> None:
    """Unequal bins: count / total / width; the steps that are drawn have area 1."""
    draw(Histogram("h", "H", "x", (Spread("a", (0.0, 1.0, 3.0), (2, 6)),)), tmp_path)
    (axes,) = drawn[0].axes
    outline = next(patch for patch in axes.patches if patch.get_label() == "a")
    values, edges, _ = outline.get_data()
    assert list(values) == [0.25, 0.375]
    assert sum(
        height * (edges[at + 1] - edges[at]) for at, height in enumerate(values)
    ) == pytest.approx(1.0)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("x", "density", "H")


def test_curves_keep_their_own_places_and_no_two_look_alike(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    curves = tuple(Curve(str(n), (1.0, 2.0 + n), (0.1, 0.2), (0.01, 0.02)) for n in range(19))
    draw(Curves("c", "C", "x", "y", curves, x_log=True, y_limits=(0.0, 1.0)), tmp_path)
    (axes,) = drawn[0].axes
    lines = [container.lines[0] for container in axes.containers]
    assert [tuple(line.get_xdata()) for line in lines] == [curve.x for curve in curves]
    assert (
        len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}) == 19
    )
    assert axes.get_xscale() == "log"
    assert axes.get_ylim() == (0.0, 1.0)


def test_panels_share_a_legend_only_where_it_is_the_same(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    def histogram(*labels: str) -> Histogram:
        return Histogram("", "t", "x", tuple(Spread(label, (0.0, 1.0), (1,)) for label in labels))

    draw(Panels("p", "P", 2, (histogram("a", "b"),) * 3), tmp_path)
    draw(Panels("p", "P", 2, (histogram("a", "b"), histogram("c", "d"), histogram("e"))), tmp_path)
    same, different = drawn
    assert len(same.axes) == 3
    assert len(same.legends) == 1
    assert all(axes.get_legend() is None for axes in same.axes)
    assert not different.legends
    assert [axes.get_legend() is not None for axes in different.axes] == [True, True, False], (
        "one group needs no name"
    )


def test_spreads_come_from_distributions() -> None:
    found = {"edges": [0.0, 1.0], "counts": [3], "value": 0.5}
    assert spread_of("a", found) == Spread("a", [0.0, 1.0], [3])

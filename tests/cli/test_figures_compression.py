"""Pictures of a compression: each that the record has numbers for, whole files, with the numbers in
the right place.
"""

from __future__ import annotations

import builtins
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.trained_cases import digits, trained

from cushion.cli.figures import compression, draw
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.records import ProjectionSummary
from cushion.compressors.run import compress_model
from cushion.errors import BadInput


def found(method: str, net: str, **options: Any) -> ProjectionSummary:
    data, holdout = digits()
    return compress_model(
        trained(net)[0],
        data,
        method=method,
        options=NetOptions(examples=10, **options),
        holdout=holdout,
    ).summary


@pytest.fixture(scope="module")
def swept() -> ProjectionSummary:
    return found("matrix-project", "mlp", k=100, sweep=("400", "200"))


def test_every_picture_is_drawn_as_png_and_svg(tmp_path: Path, swept: ProjectionSummary) -> None:
    paths = draw(swept, str(tmp_path / "new"))
    names = {"matrix-project-size", "matrix-project-layers"}
    assert {path.name for path in paths} == {
        f"{name}.{kind}" for name in names for kind in ("png", "svg")
    }
    for path in paths:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                colours = {pixel for _, pixel in picture.convert("RGB").getcolors(1 << 24) or []}
            assert len(colours) > 10, path
        else:
            assert path.read_text().rstrip().endswith("</svg>")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in paths
    )
    again = draw(swept, str(tmp_path / "again"))
    texts = [p.read_text() for p in paths if p.suffix == ".svg"]
    assert [len(p.read_text()) for p in again if p.suffix == ".svg"] == [
        len(text) for text in texts
    ]


def test_only_what_is_known_is_drawn(tmp_path: Path) -> None:
    vector = found("vector-compress", "linear", sweep=("eta=0.5",))
    names = {path.stem for path in draw(vector, str(tmp_path))}
    assert names == {"vector-compress-size", "vector-rates"}
    assert {path.stem for path in draw(replace(vector, curve=()), str(tmp_path))} == {
        "vector-rates"
    }
    assert draw(replace(vector, curve=(), rates=()), str(tmp_path)) == []


def lines(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
    }


def test_the_curve_shows_the_points_in_order_of_size(swept: ProjectionSummary) -> None:
    left, right, above, _ = compression._curve(swept).axes
    points = sorted(swept.curve, key=lambda point: point.parameters)
    sizes = [point.parameters for point in points]
    assert sizes[0] < sizes[1]  # although they were asked for the other way round
    assert lines(left)["worst example"] == (sizes, [point.worst_relative_error for point in points])
    assert lines(left)["mean"] == (sizes, [point.mean_relative_error for point in points])
    assert lines(right)["error, training set"] == (sizes, [point.error for point in points])
    assert lines(right)["error, held-out set"] == (sizes, [point.test_error for point in points])
    assert lines(right)["margin loss, training set"] == (
        sizes,
        [point.margin_loss for point in points],
    )
    assert list(above.get_xticks()) == sizes
    assert [label.get_text() for label in above.get_xticklabels()] == [
        f"{point.bits:.2g}" for point in points
    ]
    assert lines(left)["the net as it was"][0] == [swept.parameters_before] * 2
    blind = replace(swept, curve=tuple(replace(point, test_error=None) for point in swept.curve))
    assert "error, held-out set" not in lines(compression._curve(blind).axes[1])


def test_layers_show_what_was_seen_and_what_was_promised(swept: ProjectionSummary) -> None:
    (axes,) = compression._layers(swept).axes
    seen = {(one.compressed, one.at): one.worst for one in swept.induction}
    first, last = swept.layers[0].name, swept.layers[1].name
    assert lines(axes)["first 1 of 2 compressed"] == ([0, 1], [seen[1, first], seen[1, last]])
    assert lines(axes)["first 2 of 2 compressed"] == ([1], [seen[2, last]])
    assert swept.epsilon is not None
    assert lines(axes)["(i/d)·ε, where it is promised"] == (
        [0, 1],
        [swept.epsilon / 2, swept.epsilon],
    )
    silent = replace(swept, epsilon=None)
    assert not any("promised" in label for label in lines(compression._layers(silent).axes[0]))


def test_without_matplotlib_one_sentence(
    tmp_path: Path, swept: ProjectionSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(BadInput, match="matplotlib"):
        draw(swept, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()

"""Guha 2023 §7 made again on tiny nets: pages from records, verdicts from rows, nothing made
twice.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.guha_cases import Pruning, tiny_plans

from cushion.errors import BadInput
from cushion.papers import registry, runner
from cushion.papers.guha import nets as guha_nets
from cushion.papers.guha.nets import RIVAL_ROWS
from cushion.papers.guha.paper import (
    METHODS,
    RIVALS,
    TABLE_1,
    TABLE_2,
    implied_constant,
    mlp_shapes,
)

CERTIFICATE = "mask and values, exact tail (certificate)"


@pytest.fixture
def pruning(monkeypatch: pytest.MonkeyPatch) -> Pruning:
    """Tiny plans in place of the paper's nets, and a stand-in for prune_net."""
    stub = Pruning()
    monkeypatch.setattr(guha_nets, "prune_net", stub)
    tiny_plans(monkeypatch)
    return stub


def records(folder: Path) -> dict[str, Any]:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not a finite number")

    found: dict[str, Any] = json.loads((folder / "records.json").read_text(), parse_constant=refuse)
    return found


def cell(table: dict[str, Any], row: str, column: str) -> Any:
    return next(one for one in table["rows"] if one[0] == row)[table["header"].index(column)]


def titled(found: dict[str, Any], start: str) -> dict[str, Any]:
    table: dict[str, Any] = next(
        table for table in found["tables"] if table["caption"].startswith(start)
    )
    return table


def test_table_1_shows_the_papers_column_and_both_of_ours(tmp_path: Path, pruning: Pruning) -> None:
    found = records(runner.reproduce("guha2023-table1", tmp_path))
    table = found["tables"][0]
    assert table["header"][1:4] == ["500, paper", "500, smallest bound", "500, fewest errors"]
    for width in (500, 784):
        assert [cell(table, name, f"{width}, paper") for name in METHODS] == [
            TABLE_1[width][name] for name in METHODS
        ]
        for name in RIVALS:  # they do not depend on the pruning
            assert cell(table, name, f"{width}, smallest bound") == cell(
                table, name, f"{width}, fewest errors"
            )
    expected = {
        "Ours": (2.0, 2.25),
        "sketch count, as printed": (3.0, 3.25),
        "sketch count, corrected": (2.5, 2.75),
        "naive count, as printed": (1.0, 1.0),
        "naive count, corrected": (0.5, 0.5),
        CERTIFICATE: (-1.38, -1.38),  # ln 0.25 = -1.3863, rounded up
        "True error": (-2.20, -3.30),  # 33 and 11 of the 297 test digits: one in 9 and in 27
        "Training error": (-2.30, -3.40),  # 150 and 50 of 1500: one in 10 and in 30
    }
    for name, values in expected.items():
        assert (
            cell(table, name, "784, smallest bound"),
            cell(table, name, "784, fewest errors"),
        ) == values, name
    assert cell(table, "naive count, corrected", "500, paper") is None
    assert titled(found, "Nats")["rows"][0][3:] == [
        500.0,
        600.0,
        800.0,
        70.0,
        80.0,
        800 * math.log(2),
        10.0,
    ]
    assert titled(found, "Training error")["rows"][0][2:] == [50 / 1500, 50 / 1500]
    given = pruning.given
    assert (given["method"], given["options"].rule, given["options"].level) == (
        "magnitude",
        "bernoulli",
        0.95,
    )


def test_the_implied_constant_stands_beside_the_papers(tmp_path: Path, pruning: Pruning) -> None:
    found = records(runner.reproduce("guha2023-table1", tmp_path))
    rows = {row[0]: row[1:] for row in titled(found, "What explains")["rows"]}
    assert rows[2500][:2] == [4.96, implied_constant(4.96, mlp_shapes(784, 2500), 60_000)]
    assert rows[2500][-2:] == [None, None], "that width is not among the tiny plans"
    sizes = (64, 12, 12, 12, 12, 10)
    numbers = sum(3 * a * b * math.log(max(a, b)) ** 2 for a, b in pairwise(sizes))
    assert rows[784][-2:] == pytest.approx(
        [1500 * math.exp(4.0) / numbers, 1500 * math.exp(4.5) / numbers]
    )


def test_our_rivals_are_those_of_bounds(tmp_path: Path, pruning: Pruning) -> None:
    """The same rows as the whole `cushion bounds`, which computes much more besides."""
    from cushion.data import load_pair
    from cushion.measures.sharpness.family import SharpnessOptions
    from cushion.nets.loading.weights import load_net
    from cushion.theorems.bounds import BoundOptions, bounds

    found = records(runner.reproduce("guha2023-table1", tmp_path))
    data, test = load_pair("digits")
    runs = [load_net(path) for path in (tmp_path / ".runs").glob("*/net.safetensors")]
    (module,) = (run.module for run in runs if "fc8" in str(run.spec))
    options = BoundOptions(epsilon=0.95, noisy_draws=64, sharpness=SharpnessOptions(draws=0))
    table = bounds(module, data, holdout=test, options=options)
    for name in RIVALS:
        expected = table.row(*RIVAL_ROWS[name].rsplit(", ", 1))  # type: ignore[arg-type]
        assert expected.log10 is not None
        shown = cell(found["tables"][0], name, "500, smallest bound")
        assert shown == pytest.approx(expected.log10 * math.log(10), abs=0.006)
    stated = table.row("spec-l2,1", "stated").log10
    assert stated is not None
    shown = next(
        row for row in titled(found, "The rivals")["rows"] if row[1] == "spec-l2,1, stated"
    )
    assert shown[2] == pytest.approx(stated * math.log(10), abs=0.006)
    nets = titled(found, "The nets")
    assert nets["rows"][0][2:5] == [
        table.errors / table.m,
        table.holdout_error,
        pytest.approx(table.margin),
    ]


@pytest.mark.parametrize(("ours", "shift"), [(-20.0, 1.0), (50.0, 1.0), (-20.0, 3.0)])
def test_the_verdict_follows_the_rows(
    tmp_path: Path, pruning: Pruning, ours: float, shift: float
) -> None:
    pruning.ours, pruning.shift = ours, shift
    found = records(runner.reproduce("guha2023-table1", tmp_path))
    smaller, *_, applies = found["claims"]
    assert smaller["holds"] is (ours < 0)
    # five layers, ‖Δ‖₂/‖A‖₂ = shift/10: the lemma wants at most 1/5
    assert applies["holds"] is (shift == 1.0)
    held = [claim["holds"] for claim in found["claims"]]
    assert found["verdict"] == (
        "reproduced" if all(held) else "differs" if any(held) else "not reproduced"
    )
    assert f"{sum(map(bool, held))} of 5 claims" in found["because"]


def test_table_2_says_what_learned(
    tmp_path: Path, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = guha_nets.TABLE_2["quick"]
    monkeypatch.setitem(guha_nets.TABLE_2, "quick", (first, replace(second, epochs=8)))
    found = records(runner.reproduce("guha2023-table2", tmp_path))
    table = found["tables"][0]
    assert table["header"][1:] == [
        "the paper's recipe, paper",
        "the paper's recipe, smallest bound",
        "the paper's recipe, fewest errors",
        "a net that learns, smallest bound",
        "a net that learns, fewest errors",
    ]
    assert [row[1] for row in table["rows"][:5]] == [TABLE_2[name] for name in METHODS]
    training = {row[0]: row[2] for row in titled(found, "The nets")["rows"]}
    for title, error in training.items():
        (note,) = [note for note in found["notes"] if note.startswith(f"{title}: after")]
        assert ("did not learn: guessing errs on 90%" in note) is (error >= 0.85)
    assert training["a net that learns"] < 0.85 <= training["the paper's recipe"], (
        "both notes were seen"
    )


def test_a_net_that_cannot_be_pruned_has_no_column(
    tmp_path: Path, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any, **__: Any) -> Any:
        raise BadInput("γ is not positive")

    monkeypatch.setattr(guha_nets, "prune_net", refuses)
    found = records(runner.reproduce("guha2023-table1", tmp_path))
    assert cell(found["tables"][0], "Ours", "500, smallest bound") is None
    assert cell(found["tables"][0], "Bartlett 2017", "500, smallest bound") is not None
    assert found["claims"][0]["holds"] is None
    assert "500: not pruned, because γ is not positive." in found["notes"]
    monkeypatch.setattr(guha_nets, "prune_net", pruning)
    found = records(runner.reproduce("guha2023-table1", tmp_path))
    assert cell(found["tables"][0], "Ours", "500, smallest bound") is None, "a refusal is kept too"


def test_a_net_that_can_be_pruned_in_one_way_only(
    tmp_path: Path, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses_gentle(net: Any, data: Any, **given: Any) -> Any:
        if given["options"].d == (0.5,):
            raise BadInput("too many weights")
        return pruning(net, data, **given)

    monkeypatch.setattr(guha_nets, "prune_net", refuses_gentle)
    found = records(runner.reproduce("guha2023-table1", tmp_path))
    table = found["tables"][0]
    assert cell(table, "Ours", "500, smallest bound") == 2.0
    assert cell(table, "Ours", "500, fewest errors") is None
    assert (
        "500: not pruned with the d of the fewest errors, because too many weights."
        in found["notes"]
    )
    assert found["claims"][-1]["holds"] is True, "‖Δ‖₂ is half of what the lemma allows"


def test_where_too_many_weights_stay_the_gentlest_d_are_left_out(
    tmp_path: Path, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, ...]] = []

    def refuses_small(net: Any, data: Any, **given: Any) -> Any:
        asked.append(given["options"].d)
        if min(given["options"].d) < 0.5:
            raise BadInput("d=0.25 leaves too many weights")
        return pruning(net, data, **given)

    monkeypatch.setattr(guha_nets, "prune_net", refuses_small)
    found = records(runner.reproduce("guha2023-figure1a", tmp_path))
    assert asked == [(0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (0.5, 1.0, 2.0, 4.0, 8.0), (0.5,)]
    assert cell(found["tables"][0], "Ours", "784, smallest bound") == 2.0
    assert not [note for note in found["notes"] if "not pruned" in note]


@pytest.mark.parametrize(
    "item", ["guha2023-figure1a", "guha2023-figure1b", "guha2023-figure1c", "guha2023-figure2"]
)
def test_figures_are_drawn_from_the_records(tmp_path: Path, pruning: Pruning, item: str) -> None:
    pytest.importorskip("matplotlib")
    folder = runner.reproduce(item, tmp_path, svg=True)
    found = records(folder)
    (picture,) = found["pictures"]
    assert found["not_drawn_because"] == ""
    assert (folder / f"{picture['name']}.png").stat().st_size > 5000
    assert "<svg" in (folder / f"{picture['name']}.svg").read_text()
    assert f"({picture['name']}.png)" in (folder / "page.md").read_text()
    lines = {series["label"]: series["values"] for series in picture["series"]}
    assert all(len(values) == len(picture["x"]) for values in lines.values())
    if item == "guha2023-figure1a":
        assert lines["paper"][:5] == [TABLE_1[784][name] for name in METHODS]
        assert lines["784: smallest bound"][3] == pytest.approx(2.0)
        assert lines["784: fewest errors"][3] == pytest.approx(2.25)
    if item == "guha2023-figure1b":
        assert lines["paper"][:5] == [TABLE_2[name] for name in METHODS]
    if item == "guha2023-figure1c":
        assert (picture["x"], lines["Bartlett 2017, paper"]) == ([500, 784], [11.51, 11.68])
    if item == "guha2023-figure2":
        ours, _, true, _ = lines.values()
        assert sum(ours) == pytest.approx(sum(true)), "moved to the same mean"
        assert found["claims"][0]["holds"] is False, "the stand-in's bound does not change"
        assert picture["x"] == [1, 2]


def test_killing_at_any_point_continues(tmp_path: Path, pruning: Pruning) -> None:
    """Two prunings a net; the second net's first is interrupted: neither training nor the first net
    is made again.
    """
    pruning.dies_at = 3
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("guha2023-table1", tmp_path)
    item = registry.ITEMS["guha2023-table1"]
    assert not runner.is_done(item, tmp_path, "quick")
    trained = {
        path: path.stat().st_mtime_ns for path in (tmp_path / ".runs").glob("*/net.safetensors")
    }
    assert len(trained) == 2
    runner.reproduce("guha2023-table1", tmp_path)
    assert pruning.calls == 5, "four, and the one that died again"
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    assert runner.is_done(item, tmp_path, "quick")
    runner.reproduce("guha2023-figure1a", tmp_path)
    runner.reproduce("guha2023-figure1c", tmp_path)
    assert pruning.calls == 5, "figures of the same nets take their steps"


def test_other_seeds_and_levels_are_other_steps(
    tmp_path: Path, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.reproduce("guha2023-figure1a", tmp_path)
    runner.reproduce("guha2023-figure1a", tmp_path, seed=1)
    assert pruning.calls == 4
    assert len(list((tmp_path / ".runs").iterdir())) == 2, "one RUN folder a seed"
    _, wide = guha_nets.TABLE_1["quick"]
    monkeypatch.setitem(guha_nets.TABLE_1, "quick", (replace(wide, level=0.9),))
    runner.reproduce("guha2023-figure1a", tmp_path)
    assert pruning.calls == 6


def test_tables_and_page_say_what_the_records_say(tmp_path: Path, pruning: Pruning) -> None:
    folder = runner.reproduce("guha2023-table1", tmp_path)
    found = records(folder)
    for number, table in enumerate(found["tables"], 1):
        with open(
            folder / ("table.csv" if number == 1 else f"table-{number}.csv"), newline=""
        ) as file:
            header, *rows = csv.reader(file)
        assert header == table["header"]
        assert len(rows) == len(table["rows"])
    assert (folder / "page.md").read_text() == runner.render(found)
    assert found["settings"]["epochs (the paper's are 300)"] == "1 1"


def test_the_real_pruning_answers_what_the_pages_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_plans(monkeypatch)
    found = records(runner.reproduce("guha2023-figure1a", tmp_path))
    table = found["tables"][0]
    for name in (
        "sketch count, corrected",
        "naive count, corrected",
        CERTIFICATE,
        "Training error",
        *RIVALS,
    ):
        for way in ("smallest bound", "fewest errors"):
            assert isinstance(cell(table, name, f"784, {way}"), float | int), (name, way)
    nets = titled(found, "The nets")
    for row in nets["rows"]:
        net = dict(zip(nets["header"], row, strict=True))
        assert net["d"] in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        assert 0 < net["pruned: test error"] <= net["certified error"] <= 1
        assert cell(table, "Training error", "784, smallest bound") <= cell(
            table, CERTIFICATE, "784, smallest bound"
        )

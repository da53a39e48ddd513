"""Figures 1 to 8 of Neyshabur 2017 as items: numbers against naive ones, and pages from records
alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.neyshabur_cases import CONFUSED, DEEP, PAIRS, TRUE_ROWS, WIDTHS, tiny_plans

from cushion.data import Dataset, load_pair
from cushion.nets.batches import as_floats
from cushion.nets.loading.weights import load_net
from cushion.papers import nets as training
from cushion.papers import runner
from cushion.papers.nets import TrainingPlan, train_plan
from cushion.papers.neyshabur import plans
from cushion.papers.pages import SIZES
from cushion.papers.pictures import draw_picture
from cushion.papers.registry import ITEMS
from cushion.papers.runner import Workshop

IDS = [f"neyshabur2017-figure{number}" for number in range(1, 9)]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("neyshabur")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny nets, and no pictures, which take longer than they do; one test draws some."""
    tiny_plans(monkeypatch)
    monkeypatch.setattr(runner, "draw_picture", lambda *_, **__: [])


def made(item_id: str, out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (runner.reproduce(item_id, out) / "records.json").read_text()
    )
    return found


def rows_of(page: dict[str, Any], number: int = 0) -> list[dict[str, Any]]:
    table = page["tables"][number]
    return [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]


def trained(
    plan: TrainingPlan, out: Path
) -> tuple[list[NDArray[np.float64]], torch.nn.Module, Dataset, Dataset]:
    """The weights of the net's layers, the net, its sample and the test set."""
    run, data, test = train_plan(Workshop(out, "quick"), plan)
    assert run.status == "already done"
    module = load_net(run.net).module
    return (
        [p.detach().double().numpy() for p in module.parameters() if p.ndim == 2],
        module,
        data,
        test,
    )


def naive_margins(module: torch.nn.Module, data: Dataset) -> NDArray[np.float64]:
    with torch.no_grad():
        scores = module(as_floats(data.x)).double().numpy()
    rows = np.arange(len(data))
    right = scores[rows, data.y].copy()
    scores[rows, data.y] = -np.inf
    return np.asarray(right - scores.max(1))


def naive_logs(
    weights: list[NDArray[np.float64]], margins: NDArray[np.float64]
) -> dict[str, float] | None:
    gamma = np.sort(margins)[int(np.ceil(0.05 * len(margins))) - 1]
    if gamma <= 0:
        return None
    first, second = weights
    values = {
        "ℓ2 norm": (first**2).sum() * (second**2).sum(),
        "ℓ1-path norm": (np.abs(second) @ np.abs(first)).sum() ** 2,
        "ℓ2-path norm": (second**2 @ first**2).sum(),
        "spectral norm": (np.linalg.norm(first, 2) * np.linalg.norm(second, 2)) ** 2,
    }
    return {name: float(np.log10(value / gamma**2)) for name, value in values.items()}


def test_figure_1_has_the_norms_of_the_saved_nets(out: Path) -> None:
    page = made(IDS[0], out)
    rows = rows_of(page)
    assert [(row["examples"], row["labels"]) for row in rows] == [
        (size, labels) for size in PAIRS for labels in ("true", "random")
    ]
    decided = 0
    for row, plan in zip(rows, [plan for pair in PAIRS.values() for plan in pair], strict=True):
        weights, module, data, test = trained(plan, out)
        margins = naive_margins(module, data)
        assert row["train error"] == (margins <= 0).mean()
        assert row["test error"] == pytest.approx(
            (naive_margins(module, test) <= 0).mean(), abs=1e-12
        )
        expected = naive_logs(weights, margins)
        found = {
            name: row[name] for name in ("ℓ2 norm", "ℓ1-path norm", "ℓ2-path norm", "spectral norm")
        }
        assert found == (pytest.approx(expected, abs=1e-6) if expected else dict.fromkeys(found))
        decided += expected is not None
    assert decided, "at least one net has a margin"
    lines = page["pictures"][0]["panels"][0]["series"]
    assert [line["label"] for line in lines] == ["true labels", "random labels"]
    assert lines[0]["values"] == [row["ℓ2 norm"] for row in rows if row["labels"] == "true"]


def test_figure_2_draws_a_curve_for_each_size(out: Path) -> None:
    page = made(IDS[1], out)
    left, middle, right = page["pictures"][0]["panels"]
    rows = rows_of(page)
    assert left["series"][1]["values"] == [
        row["largest sharpness"] for row in rows if row["labels"] == "random"
    ]
    for curves, plan in zip((middle, right), PAIRS[TRUE_ROWS], strict=True):
        assert [one["label"] for one in curves["curves"]] == [f"{size} examples" for size in PAIRS]
        assert curves["x_limits"] == middle["x_limits"], (
            "one axis for both, so that they can be compared"
        )
        module = trained(plan, out)[1]
        w = np.concatenate([p.detach().double().numpy().ravel() for p in module.parameters()])
        kl = [
            0.5 * float(((w / (alpha * (10 * np.abs(w) + 1))) ** 2).sum())
            for alpha in plans.VGG_ALPHAS
        ]
        assert curves["curves"][0]["x"] == pytest.approx(sorted(kl), rel=1e-5)


def test_figure_3_takes_its_margin_from_the_true_rows(out: Path) -> None:
    page = made(IDS[2], out)
    rows, union = rows_of(page), rows_of(page, 1)
    for row, all_of_it, (size, plan) in zip(rows, union, CONFUSED.items(), strict=True):
        weights, module, data, _ = trained(plan, out)
        margins = naive_margins(module, data)
        assert len(margins) == TRUE_ROWS + size
        assert row["train error"] == (margins[:TRUE_ROWS] <= 0).mean()
        assert all_of_it["error"] == (margins <= 0).mean()
        for found, part in ((row, margins[:TRUE_ROWS]), (all_of_it, margins)):
            expected = naive_logs(weights, part)
            assert found["ℓ2-path norm"] == (
                pytest.approx(expected["ℓ2-path norm"], abs=1e-6) if expected else None
            )
    true = load_pair(CONFUSED[0].data)[0]
    assert np.array_equal(true.y, load_pair(CONFUSED[40].data)[0].y[:TRUE_ROWS])
    shares = page["pictures"][0]["panels"][1]["series"]
    assert [max(v for v in line["values"] if v is not None) for line in shares] == [1.0] * 5


def test_figure_4_has_widths_and_both_forms(out: Path) -> None:
    page = made(IDS[3], out)
    for row, (size, plan) in zip(rows_of(page), WIDTHS.items(), strict=True):
        weights, module, data, _ = trained(plan, out)
        expected = naive_logs(weights, naive_margins(module, data))
        assert expected is not None
        assert row["parameters"] == 64 * size + size + 10 * size + 10
        assert row["ℓ1-path norm"] == pytest.approx(expected["ℓ1-path norm"], abs=1e-6)
        assert row["spectral norm, ∏ h"] == pytest.approx(
            expected["spectral norm"] + np.log10(10 * size), abs=1e-6
        )
    assert [panel["x_log"] for panel in page["pictures"][0]["panels"]] == [True, True, True]
    undecided = [claim["text"] for claim in page["claims"] if claim["holds"] is None]
    assert "beyond 512, the spectral norm increases" in undecided


def test_figures_5_to_8_show_one_net(out: Path) -> None:
    pages = [made(item_id, out) for item_id in IDS[4:]]
    assert len({tuple(page["made_from"]) for page in pages}) == 1
    assert [len(page["pictures"][0]["panels"]) for page in pages] == [3, 6, 3, 4]
    weights, module, data, _ = trained(DEEP, out)
    largest = {row["layer"]: row["largest unit / mean"] for row in rows_of(pages[0], 1)}
    for matrix, found in zip(weights, largest.values(), strict=True):
        norms = np.linalg.norm(matrix, axis=1)
        assert found == pytest.approx(norms.max() / norms.mean(), rel=1e-6)
    last = rows_of(pages[0], 1)[
        -1
    ]  # nothing follows the last layer: C3 depends on its weights alone
    norms = np.linalg.norm(weights[-1], axis=1)
    assert last["C3"] == pytest.approx(np.sqrt(10) * norms.max() / np.linalg.norm(norms), rel=1e-6)
    assert [row["net"] for row in rows_of(pages[1])] == ["random"] * 4 + ["learned"] * 4
    assert [panel["title"].split(",")[0] for panel in pages[1]["pictures"][0]["panels"]] == [
        "random"
    ] * 3 + ["learned"] * 3
    zoomed = pages[2]["pictures"][0]["panels"][2]["curves"]
    assert all(max(curve["x"]) <= 0.01 for curve in zoomed)
    with torch.no_grad():
        lengths = torch.linalg.vector_norm(module(as_floats(data.x)), dim=1)
    outputs = rows_of(pages[3], 1)[1]
    assert outputs["net"] == "learned"
    assert lengths.min() <= outputs["median"] <= lengths.max()


def test_pages_come_from_records_alone(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After everything is made: the same pages without a net, a sample or a training."""
    before = {item_id: made(item_id, out) for item_id in IDS}

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trains or loads")

    monkeypatch.setattr(training, "train", refuse)
    monkeypatch.setattr(training, "load_pair", refuse)
    for item_id in IDS:
        drawn = item_id in (IDS[1], IDS[5])  # lines, curves and histograms
        monkeypatch.setattr(runner, "draw_picture", draw_picture if drawn else lambda *_, **__: [])
        folder = runner.reproduce(item_id, out, from_records=True)
        assert json.loads((folder / "records.json").read_text()) == before[item_id]
        assert (folder / f"{before[item_id]['pictures'][0]['name']}.png").is_file() is drawn
        assert before[item_id]["verdict"] in (
            "reproduced",
            "differs",
            "not reproduced",
            "undecided",
        )


def test_equal_work_is_shared(out: Path) -> None:
    one, two, three = (made(item_id, out) for item_id in IDS[:3])
    assert set(one["made_from"]) < set(two["made_from"])
    assert len(set(two["made_from"]) & set(three["made_from"])) == 2, (
        "the net without a confusion set"
    )


@pytest.mark.parametrize("size", SIZES)
def test_items_and_plans_are_complete(size: Any) -> None:
    assert [item_id for item_id in ITEMS if item_id.startswith("neyshabur2017-")] == IDS
    for item in map(ITEMS.__getitem__, IDS):
        assert callable(item.load())
    if size != "quick":  # which stands for tiny ones here
        assert len(plans.PAIRS[size]) == 5
        assert {32, 128, 512, 1024} <= set(plans.WIDTHS[size])
        assert plans.CONFUSED[size][0] == next(iter(plans.PAIRS[size].values()))[0]
    assert (plans.DEEP[size].changes() == "none") is (size == "full")

"""The items of Arora 2018 and of the note, on tiny nets: pages from records alone, numbers equal to
naive ones.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.arora_cases import ALEXNETS, tiny_plans

from cushion.data import load_pair
from cushion.errors import BadInput
from cushion.nets import models
from cushion.nets.batches import as_floats
from cushion.nets.loading.weights import load_net
from cushion.papers import registry, runner
from cushion.papers.arora import bounds, labels, noise, paper, spreads, table
from cushion.training.recipes import find_recipe, fit_recipe

ITEMS = [
    item
    for item in registry.ITEMS
    if item.startswith(("arora2018-", "note-")) and item != "note-figure1"
]
DRAWN = {"arora2018-figure1a", "arora2018-table1", "note-figure3"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All items, made once; some pictures are drawn: histogram, bars, panels of curves."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        tiny_plans(patch)
        for item in sorted(ITEMS, key=lambda item: item not in DRAWN):
            if item not in DRAWN:
                patch.setattr(runner, "draw_picture", lambda *_, **__: [])
            runner.reproduce(item, folder)
    return folder


def records(out: Path, item: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / item / "quick" / "records.json").read_text())
    return found


def weights_of(out: Path, layers: int) -> tuple[torch.nn.Module, list[np.ndarray]]:
    """The trained net with that many affine layers on labels as they are, and its weights."""
    for path in sorted((out / ".runs").glob("*/net.safetensors")):
        net = load_net(path)
        parts = [p.detach().double().numpy() for p in net.module.parameters() if p.ndim > 1]
        if len(parts) == layers and "shuffle" not in str(net.meta["data"]):
            return net.module, parts
    raise AssertionError(f"no net of {layers} layers")


def test_every_item_is_there_and_its_trainings_are_shared(out: Path) -> None:
    assert len(ITEMS) == 20
    assert len(list((out / ".runs").iterdir())) == 3, "one VGG-19 and two AlexNets serve all items"
    for item in ITEMS:
        found = records(out, item)
        assert found["claims"], item
        assert found["pictures"], item
        assert found["made_from"], item
        for picture in found["pictures"] if item in DRAWN else ():
            assert (out / item / "quick" / f"{picture['name']}.png").stat().st_size > 1000


@pytest.mark.parametrize("item", ITEMS)
def test_a_page_follows_from_its_records_without_training(
    out: Path, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cushion.papers import nets

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("nothing may be trained")

    tiny_plans(monkeypatch)
    monkeypatch.setattr(nets, "train", refuse)
    page = registry.ITEMS[item].load()(runner.Workshop(out, "quick", from_records=True))
    found = records(out, item)
    assert {key: found[key] for key in page.to_json()} == page.to_json()
    with pytest.raises(BadInput, match="`from_records`"):
        registry.ITEMS[item].load()(runner.Workshop(out, "quick", seed=1, from_records=True))


def test_a_picture_drawn_again_is_the_same_file(out: Path, tmp_path: Path) -> None:
    from cushion.papers.pictures import draw_picture

    for item in ("arora2018-figure1a", "note-figure3"):
        (picture,) = records(out, item)["pictures"]
        for path in draw_picture(picture, tmp_path):
            assert path.read_bytes() == (out / item / "quick" / path.name).read_bytes()


def test_the_layer_cushion_of_layer_13_is_the_naive_one(out: Path) -> None:
    """μ = ‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖), without the bias, as Definition 4 has it."""
    found = records(out, "arora2018-figure1a")["tables"][0]
    row = dict(zip(found["header"], found["rows"][0], strict=True))
    module, parts = weights_of(out, 19)
    data, _ = load_pair("digits,subset=150")
    x, seen = as_floats(data.x), []
    with torch.no_grad():
        linears = 0
        for part in module.eval():  # type: ignore[attr-defined]
            if isinstance(part, torch.nn.Conv2d | torch.nn.Linear):
                linears += 1
                if linears == 13:
                    signal = x.double().numpy()
                    plain = signal @ parts[12].T
                    seen = (
                        np.linalg.norm(plain, axis=1)
                        / np.linalg.norm(parts[12])
                        / np.linalg.norm(signal, axis=1)
                    )
                    break
            x = part(x)
    assert row["as defined (worst)"] == pytest.approx(min(seen), rel=1e-4)
    assert row["examples"] == 150


def test_figure_2_is_the_product_of_norms_over_the_margin(out: Path) -> None:
    found = json.loads(next(iter((out / "records").glob("arora-vgg19-epoch-*"))).read_text())[
        "value"
    ]
    if found["margin"] <= 0:
        assert bounds.log10_of(found, "frobenius") is None
    last = max(
        (
            json.loads(path.read_text())["value"]
            for path in (out / "records").glob("arora-vgg19-epoch-*")
        ),
        key=lambda one: one["epoch"],
    )
    module, _ = weights_of(out, 19)
    data, test = load_pair("digits,subset=150")
    assert test is not None
    with torch.no_grad():
        scores = module.eval()(as_floats(data.x)).double().numpy()
        wrong = int((module(as_floats(test.x)).argmax(1).numpy() != test.y).sum())
    true = scores[np.arange(150), data.y]
    others = scores.copy()
    others[np.arange(150), data.y] = -np.inf
    margin = np.sort(true - others.max(1))[math.ceil(0.05 * 150) - 1]
    assert last["margin"] == pytest.approx(margin, rel=1e-4)
    assert last["test_errors"] == wrong
    assert last["parameters"] == sum(p.numel() for p in module.parameters())
    assert last["largest_score"] == pytest.approx(np.linalg.norm(scores, axis=1).max(), rel=1e-5)


def test_the_shuffled_net_is_measured_on_shuffled_labels(out: Path) -> None:
    settings = [
        json.loads(path.read_text())["settings"]["plan"]["data"]
        for path in (out / "records").glob("arora-alexnet-*")
    ]
    assert sorted(settings) == sorted(plan.data for plan in ALEXNETS)


def epoch(
    number: int, errors: int, test_errors: int, ours: float | None, **others: float
) -> dict[str, Any]:
    values = {
        "l1-inf": 20.0,
        "frobenius": 18.0,
        "spec-l1,2": 12.0,
        "spec-fro": 14.0,
        "parameters": 6.0,
        **others,
    }
    rows = [{"name": name, "form": "as plotted", "log10": value} for name, value in values.items()]
    rows.append({"name": "noise stability", "form": "as plotted", "log10": ours})
    counts = {
        "epoch": number,
        "errors": errors,
        "m": 100,
        "test_errors": test_errors,
        "test_m": 100,
        "margin": 1.0,
    }
    return {**counts, "rows": rows}


def test_claims_on_figure_2_can_hold_fail_and_stay_open() -> None:
    assert [claim.holds for claim in bounds.comparison_claims(epoch(9, 0, 30, 5.0))] == [
        True,
        True,
        True,
        True,
    ]
    assert [claim.holds for claim in bounds.comparison_claims(epoch(9, 0, 30, 13.0))] == [
        False,
        True,
        True,
        False,
    ]
    assert bounds.comparison_claims(epoch(9, 0, 30, 11.5))[0].holds is False, (
        "worse, but not by an order of magnitude"
    )
    other = epoch(9, 0, 30, 5.0, frobenius=6.5)
    assert [claim.holds for claim in bounds.comparison_claims(other)] == [True, False, False, True]
    assert {claim.holds for claim in bounds.comparison_claims(epoch(9, 0, 30, None))} == {None}
    assert bounds.above_count(other).holds is False
    assert bounds.above_count(epoch(9, 0, 30, 5.0)).holds is True

    falling = [epoch(n, 3 if n else 50, 40 - n, 9.0 - n) for n in range(5)]
    assert [claim.holds for claim in bounds.training_claims(falling)] == [True, True, True, True]
    rising = [epoch(n, 3, 40 - n, 9.0 + n) for n in range(5)]
    assert [claim.holds for claim in bounds.training_claims(rising)] == [True, False, True, False]
    fitting = [epoch(n, 5 - n, 40 - n // 2, 9.0 - n) for n in range(5)]
    assert [claim.holds for claim in bounds.training_claims(fitting)] == [
        True,
        True,
        False,
        True,
    ], "the gap grows"
    assert {claim.holds for claim in bounds.training_claims(falling[:2])} == {None}


def spread(middle: float) -> dict[str, Any]:
    levels = {"0.05": middle / 2, "0.5": middle, "0.95": 2 * middle}
    return {
        "value": middle / 4,
        "quantiles": levels,
        "mean": middle,
        "count": 9,
        "edges": [0, 1],
        "counts": [9],
    }


def layer(cushion: float, contraction: float = 1.0, interlayer: float = 0.5) -> dict[str, Any]:
    minimal = {"value": interlayer / 4, "clip": 0.2, "unclipped": spread(interlayer)}
    return {
        "name": "fc",
        "layer_cushion": spread(cushion),
        "activation_contraction": spread(contraction),
        "minimal_interlayer_cushion": minimal,
    }


def test_claims_on_spreads_can_hold_and_fail() -> None:
    for cushion, expected in ((0.5, [True, True]), (0.3, [False, True]), (0.15, [False, False])):
        assert [
            c.holds for c in spreads.one_layer_claims(spreads.CUSHION, layer(cushion), layer(0.1))
        ] == expected
    assert (
        spreads.one_layer_claims(spreads.CONTRACTION, layer(1, 1.9), layer(1, 1.0))[0].holds is True
    )
    assert (
        spreads.one_layer_claims(spreads.CONTRACTION, layer(1, 2.1), layer(1, 1.0))[0].holds
        is False
    )
    behaves, clipped = spreads.one_layer_claims(
        spreads.INTERLAYER, layer(1, 1, 0.9), layer(1, 1, 1.0)
    )
    assert (behaves.holds, clipped.holds) == (True, True)
    behaves, clipped = spreads.one_layer_claims(
        spreads.INTERLAYER, layer(1, 1, 0.3), layer(1, 1, 1.0)
    )
    assert (behaves.holds, clipped.holds) == (False, False)
    nets = [
        {"layers": [layer(cushion)] * 5, "errors": 1, "m": 100, "test_errors": 40, "test_m": 100}
        for cushion in (2, 1)
    ]
    assert labels.layer_claim(spreads.CUSHION, nets[0], nets[1], 4).holds is True
    assert labels.layer_claim(spreads.CUSHION, nets[1], nets[0], 4).holds is False
    assert labels.layers_claim(spreads.CUSHION, nets[1], nets[0], range(5)).holds is False
    assert [claim.holds for claim in labels.trained_claims(*nets)] == [True, False]
    for errors, test_errors, expected in (
        (1, 60, [True, False]),
        (9, 90, [False, True]),
        (1, 90, [True, True]),
    ):
        other = {**nets[1], "errors": errors, "test_errors": test_errors}
        assert [claim.holds for claim in labels.trained_claims(nets[0], other)] == expected, (
            "60 % is not chance"
        )


def test_the_papers_net_has_as_many_parameters_as_is_said() -> None:
    recipe = find_recipe("arora-vgg19")
    module = models.build(fit_recipe(recipe, (3, 32, 32), 10), 0, init=recipe.init)
    assert sum(part.numel() for part in module.parameters()) == paper.PARAMETERS


def test_claims_on_table_1_can_hold_and_fail() -> None:
    paper = {number: row[2] for number, row in table.TABLE_1.items()}
    assert [(claim.holds, claim.in_paper) for claim in table.compression_claims(paper)] == [
        (True, True)
    ] * 3
    ours = {number: 1e4 + number for number in table.TABLE_1}
    assert [claim.holds for claim in table.compression_claims(ours)] == [False, True, False]
    unbounded = dict.fromkeys(table.TABLE_1)
    assert [claim.holds for claim in table.compression_claims(unbounded)] == [False, False, False]
    assert "infinite" in table.compression_claims(unbounded)[0].because


def test_claims_of_the_note_can_hold_fail_and_stay_open() -> None:
    def curves(first: float, last: float) -> list[dict[str, Any]]:
        return [
            {"noise_attenuation": [{"level": 0.1, "points": [{"mean": first}, {"mean": last}]}]}
        ] * 3

    for ends, expected in (
        ((0.2, 0.1), [True, True]),
        ((0.2, 0.19), [True, False]),
        ((0.1, 0.2), [False, False]),
    ):
        assert [claim.holds for claim in noise.attenuation_claims(curves(*ends))] == expected
    assert [claim.holds for claim in noise.attenuation_claims(curves(0.2, 0.0))] == [True, True]
    spectrum = {"quantiles": {"0.5": 0.05}, "spectral": 1.0, "stable_rank": 2.0, "count": 16}
    assert [c.holds for c in noise.singular_claims({"kernel_spectrum": spectrum})] == [
        True,
        True,
    ]
    flat = {**spectrum, "quantiles": {"0.5": 0.9}, "stable_rank": 14.0}
    assert [c.holds for c in noise.singular_claims({"kernel_spectrum": flat})] == [False, False]
    nets = [{"net": {"capacity": value}} for value in (1.0, 2.0, None)]
    expected = {(0, 1): True, (1, 0): False, (0, 2): True, (2, 0): False, (2, 2): None}
    for (a, b), holds in expected.items():
        assert labels.capacity_claim("smaller", "capacity", nets[a], nets[b]).holds is holds

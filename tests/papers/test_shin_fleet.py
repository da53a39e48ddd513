"""Figure 3 and Table 1 of Shin 2021 as items: rows from nets trained here, claims from numbers that
are known.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.compressed_cases import network

from cushion.data import Dataset, load_pair
from cushion.measures.tails.power_law import Magnitudes, fit_power_law
from cushion.nets.batches import as_floats
from cushion.nets.loading.weights import LoadedNet, load_net
from cushion.papers import runner
from cushion.papers.pages import SIZES
from cushion.papers.shin import table as shin_table
from cushion.papers.shin.fleet import FLEET, FleetNet, NetTails
from cushion.papers.shin.stable_rank import (
    clusters,
    correlate,
    heavier_later,
    power_iteration_suffices,
)
from cushion.theorems.net_facts import look_at

TINY = (
    FleetNet("digits-fc8", "digits", "1x8x8: flatten fc8 relu fc10", 1, "width"),
    FleetNet("digits-fc16", "digits", "1x8x8: flatten fc16 relu fc10", 2, "width"),
    FleetNet(
        "digits-fc16-noise1", "digits", "1x8x8: flatten fc16 relu fc10", 1, "label noise", noise=1.0
    ),
    FleetNet(
        "digits-fc4", "digits", "1x8x8: flatten fc4 relu fc10", 1, "width"
    ),  # 40 weights: no fit
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FLEET, "quick", TINY)
    monkeypatch.setattr(shin_table, "_QUICK", ("digits-fc8", "digits-fc16", "digits-fc4"))


def made(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "records.json").read_text())
    return found


def trained(out: Path, name: str) -> LoadedNet:
    """The net of the fleet with that name."""
    (path,) = (out / ".runs").glob(f"{name}-[0-9a-f]*/net.safetensors")
    return load_net(path)


@pytest.mark.usefixtures("tiny")
def test_rows_of_the_fleet_are_what_the_nets_are(out: Path) -> None:
    page = made(runner.reproduce("shin2021-figure3", out))
    header, rows = page["tables"][0]["header"], page["tables"][0]["rows"]
    assert [row[0] for row in rows] == [net.name for net in TINY]
    row = dict(zip(header, rows[1], strict=True))
    weight = trained(out, "digits-fc16").module.state_dict()
    matrix = (
        next(value for name, value in reversed(weight.items()) if value.ndim == 2).double().numpy()
    )
    assert matrix.shape == (10, 16)
    fit = fit_power_law(Magnitudes.of(matrix))
    assert (row["α"], row["tail"], row["weights"]) == (fit.alpha, fit.tail, 160)
    singular = np.linalg.svd(matrix, compute_uv=False)
    assert row["stable rank"] == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-9)
    assert row["‖W‖₂"] == pytest.approx(singular[0], rel=1e-9)
    assert rows[3][header.index("α")] is None
    groups = page["pictures"][0]["groups"]
    assert sum(len(group["places"]) for group in groups) == 3
    assert [group["label"] for group in groups] == ["digits", "digits, random labels"]
    assert groups[0]["x_errors"][1] == row["± s.e."]


@pytest.mark.usefixtures("tiny")
def test_accuracies_are_those_of_the_replaced_nets(out: Path) -> None:
    page = made(runner.reproduce("shin2021-table1", out))
    layout, ways, paper = (table["rows"] for table in page["tables"])
    assert [row[0] for row in layout] == ["digits-fc8", "digits-fc16", "digits-fc4"]
    assert layout[2][2] == "no fit"
    assert len(paper) == 12
    _, test = load_pair("digits")
    assert test is not None
    net = trained(out, "digits-fc16").module
    x = as_floats(test.x)

    def accuracy() -> float:
        with torch.no_grad():
            return 100 * float((net(x).argmax(1).numpy() == test.y).mean())

    assert float(layout[1][3]) == pytest.approx(accuracy(), abs=0.006)
    last = [parameter for parameter in net.parameters() if parameter.ndim == 2][-1]
    with torch.no_grad():
        last[last.abs() <= last.double().std(correction=0).float()] = 0.0
    without = page["tables"][1]["header"].index("|w| > σ stays, without noise")
    assert float(ways[1][without].split(" ± ")[0]) == pytest.approx(
        accuracy(), abs=0.3
    )  # kept weights on 16 bits
    assert ways[1][without].endswith("± 0.00")


def test_trials_give_mean_and_deviation() -> None:
    net = a_net(3.0, 2.0)
    found = shin_table.Accuracies(
        net, 90.0, {way.name: [88.0, 90.0] if way.t else [89.0] for way in shin_table.WAYS}, {}
    )
    deviation = statistics.stdev([88.0, 90.0])
    assert found.shown(shin_table.PRINTED) == f"89.00 ± {deviation:.2f}"
    assert found.shown(shin_table.WAYS[2]) == "89.00 ± 0.00"
    assert found.lost(shin_table.PRINTED) == 1.0


@pytest.mark.parametrize(("losses", "held"), [([0.1, 0.9, 1.0], True), ([0.1, 0.9, 1.1], False)])
def test_comparable_means_within_a_point_on_every_net(losses: list[float], held: bool) -> None:
    found = [
        shin_table.Accuracies(
            a_net(3.0, 2.0), 90.0, {way.name: [90.0 - lost] for way in shin_table.WAYS}, {}
        )
        for lost in losses
    ]
    claim = shin_table._comparable(found)
    assert claim.holds is held
    assert claim.in_paper is False  # resnet20 loses 4.71 points there
    assert "10 of 12" in claim.paper_because


def a_net(
    alpha: float | None, rank: float, *, first: float | None = 5.0, iterated: float = 1.0
) -> NetTails:
    layers = [{"power_law": None if one is None else {"alpha": one}} for one in (first, alpha)]
    last = {"stable_rank": rank, "spectral": 1.0, "power_iteration": iterated}
    return NetTails(TINY[0], "", 10, 10, 0, 1, layers, last)


def test_claims_follow_the_numbers() -> None:
    rising = [a_net(2.0 + k / 10, 1.0 + k) for k in range(10)]
    falling = [a_net(2.0 + k / 10, 11.0 - k) for k in range(10)]
    assert clusters(rising).holds is True
    assert clusters(falling).holds is False
    assert clusters(rising[:3]).holds is None
    assert heavier_later(rising).holds is True
    assert heavier_later([a_net(6.0, 1.0) for _ in range(10)]).holds is False
    assert heavier_later([a_net(None, 1.0)]).holds is None
    assert power_iteration_suffices(rising).holds is True
    assert power_iteration_suffices([*rising, a_net(2.0, 1.0, iterated=0.999)]).holds is False


def test_rank_correlation_against_its_definition() -> None:
    x, y = [3.0, 1.0, 4.0, 1.5, 5.0], [2.0, 7.0, 1.0, 8.0, 2.5]
    ranks = [np.argsort(np.argsort(one)) for one in (x, y)]
    found = correlate(x, y)
    assert found is not None
    assert found[0] == pytest.approx(np.corrcoef(ranks[0], ranks[1])[0, 1])
    assert correlate([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]) is None


@pytest.mark.parametrize("size", SIZES)
def test_the_fleet_is_large_and_varied(size: Any) -> None:
    fleet = FLEET[size]
    assert len(fleet) >= 24
    assert len({net.name for net in fleet}) == len(fleet)
    assert {"width", "depth", "seed", "label noise"} <= {net.varies for net in fleet}
    assert len({net.data for net in fleet}) >= (1 if size == "quick" else 3)


@pytest.mark.parametrize("name", ["mlp", "conv", "residual"])
def test_what_nets_share_is_run_once_and_changes_no_count(name: str) -> None:
    """Nets that differ from some layer on, on a chain, a convolutional net and one with
    branches.
    """
    net = network(name)
    rng = np.random.default_rng(0)
    x, y = rng.random((300, *net.input_shape)).astype(np.float32), rng.integers(0, net.classes, 300)
    data = Dataset("random", x, y, net.classes)
    for node in net.affine_layers:
        operator = node.affine.operator
        moved = [
            replace(node.affine, operator=operator.with_weight(by * operator.weight))
            for by in (1.0, -0.5, 3.0)
        ]
        others = [net.with_affine({node.index: affine}) for affine in moved]
        found = shin_table.count_errors(others, node.index, data)
        assert found == [look_at(other, data).errors for other in others]
    assert len(set(found)) > 1


def test_a_tie_is_an_error() -> None:
    net = network("mlp")
    last = net.affine_layers[-1]
    silent = replace(
        last.affine,
        operator=last.affine.operator.with_weight(0 * last.affine.operator.weight),
        bias=None,
    )
    data = Dataset(
        "any",
        np.ones((20, *net.input_shape), dtype=np.float32),
        np.zeros(20, dtype=np.int64),
        net.classes,
    )
    assert shin_table.count_errors([net.with_affine({last.index: silent})], last.index, data) == [
        20
    ]

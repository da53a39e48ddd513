"""The recorded lottery tickets: README, records and certificates say the same."""

from __future__ import annotations

import importlib.util
import json
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cushion
from cushion.certificates.format.claims import OccamClaim
from cushion.certificates.format.container import unpack
from cushion.numerics import float_up
from cushion.theorems.occam import occam_bound

FOLDER = Path(__file__).parents[2] / "results" / "lottery-tickets"
LEVELS = sorted(path.stem for path in FOLDER.glob("level-*.json"))


def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tickets", FOLDER / "summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_level_has_its_record_and_95_percent_is_reached() -> None:
    levels = read("imp")["levels"]
    assert [f"level-{level['level']:02d}" for level in levels] == LEVELS
    assert max(level["sparsity"] for level in levels) >= 0.95


def test_the_readme_has_the_tables_that_the_records_make() -> None:
    readme, made = (FOLDER / "README.md").read_text(encoding="utf-8"), summary()
    for part in (made.levels(), made.tickets(), made.supermask()):
        assert part
        assert "\n".join(part) in readme


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_follows_from_its_own_numbers(name: str) -> None:
    record = read(name)
    level = read("imp")["levels"][int(name.removeprefix("level-"))]
    weights = [layer["nonzeros"] for layer in record["layers"]]
    # Rounding and dead units only take away; `kept` is what the mask of training left.
    assert sum(layer["kept"] for layer in record["layers"]) <= level["nonzeros"]
    assert sum(weights) <= sum(layer["kept"] for layer in record["layers"])
    assert record["errors_before"] / record["m"] == pytest.approx(level["train_error"], abs=1e-4)
    for row in record["occam"]:
        assert not row["because"]
        bound = occam_bound(row["errors"], row["m"], row["bits"], Decimal(str(row["delta"])))
        assert row["bound"] == pytest.approx(float_up(bound), abs=1e-12)
    # The smallest bound was taken.
    assert min(one["bound"] for one in record["tried"]) == next(
        one["bound"] for one in record["tried"] if one["chosen"]
    )


@pytest.mark.parametrize(
    "name", ["level-14", "level-20", "level-24"]
)  # decoding the larger ones takes long
def test_a_certificate_holds_by_its_message_and_is_the_one_recorded(name: str) -> None:
    path = FOLDER / f"{name}.cushion"
    verdict = cushion.verify(path, None)
    assert (verdict.level, verdict.reason) == (
        "message",
        "the error count was not replayed: no data was given",
    )
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, OccamClaim)
    row = read(name)["occam"][1]
    assert (claim.errors, claim.bits, claim.m) == (row["errors"], row["bits"], row["m"])


@pytest.mark.full
@pytest.mark.parametrize("name", LEVELS)
def test_every_level_is_replayed_on_the_real_data(name: str) -> None:
    verdict = cushion.verify(FOLDER / f"{name}.cushion", *cushion.load_pair("mnist"))
    assert verdict.ok
    assert verdict.level == "replay"

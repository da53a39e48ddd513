"""The recorded tails and replacements: the README says what its records say, and they agree with
themselves.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
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

FOLDER = Path(__file__).parents[2] / "results" / "heavy-tails"


def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("heavy_tails", FOLDER / "summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORDS = summary().NAMES


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_command_has_its_record() -> None:
    named = re.findall(
        r"^(?:make|tails) (\S+) ", (FOLDER / "commands.sh").read_text(), re.MULTILINE
    )
    made = sorted(
        path.stem.removesuffix("-tails")
        for path in FOLDER.glob("*.json")
        if path.stem != "benchmarks"
    )
    assert sorted(named) == made == sorted([*RECORDS, *summary().NETS])


def test_the_readme_has_the_tables_that_the_records_make() -> None:
    readme, made = (FOLDER / "README.md").read_text(encoding="utf-8"), summary()
    parts = [made.tails(net, what) for net in made.NETS for what in ("weights", "eigenvalues")]
    for part in (made.nets(), made.lemmas(), *parts):
        assert "\n".join(part) in readme


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_follows_from_its_own_numbers(name: str) -> None:
    record = read(name)
    # sizes, grids and seed come on top
    assert sum(layer["bits"] for layer in record["layers"]) < record["bits"]
    for row in record["occam"]:
        if not row["because"]:
            bound = occam_bound(row["errors"], row["m"], row["bits"], Decimal(str(row["delta"])))
            assert row["bound"] == pytest.approx(float_up(bound), abs=1e-12)
    for layer in record["layers"]:
        assert layer["nonzeros"] + layer["rounded_away"] <= layer["kept"]
        if layer["tau"] is not None and record["form"] == "corrected":
            assert layer["replaced_largest"] <= layer["tau"]
            spread = layer["tau"] ** 2 + layer["t"]
            epsilon = (
                math.sqrt(2 * spread * math.log(2 / record["eta"])) / layer["frobenius"]
                + layer["rounding"]
            )
            assert layer["epsilon"] == pytest.approx(epsilon, rel=1e-6)
    taken = next(one for one in record["tried"] if one["chosen"])
    assert taken["bound"] == min(one["bound"] for one in record["tried"])
    for part, errors in (("accuracy", "errors"), ("holdout_accuracy", "holdout_errors")):
        shares = [1 - one[errors] / record[part]["m"] for one in record["trials"]]
        assert record[part]["mean"] == pytest.approx(sum(shares) / len(shares))
    assert len(record["trials"]) == (10 if any(layer["t"] > 0 for layer in record["layers"]) else 1)


def test_the_certificate_holds_by_its_message_and_is_the_one_recorded() -> None:
    path = FOLDER / "ticket.cushion"
    assert cushion.verify(path, None).level == "message"
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, OccamClaim)
    row = read("ticket")["occam"][1]
    assert (claim.errors, claim.bits, claim.m) == (row["errors"], row["bits"], row["m"])


def test_the_recorded_benchmarks_reach_their_goals() -> None:
    found = read("benchmarks")
    laws = {name: one for name, one in found["rival"].items() if isinstance(one, dict)}
    assert len(laws) >= 4
    assert all(one["same_xmin"] for one in laws.values())
    missed = [
        name
        for name, one in laws.items()
        if one["package_over_ours"] < found["rival"]["goal_ratio"]
    ]
    assert missed == ["normal of 8 bits"]  # few different values: the README says so
    assert all(one["seconds"] <= 3 for one in found["large"].values() if isinstance(one, dict))
    assert found["memory"]["memory_over_weights"] <= 10
    assert all(one["seconds"] <= 30 for one in found["stable"].values() if isinstance(one, dict))


@pytest.mark.full
def test_the_certificate_is_replayed_on_the_real_data() -> None:
    assert cushion.verify(FOLDER / "ticket.cushion", *cushion.load_pair("mnist")).ok

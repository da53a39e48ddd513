"""The recorded prunings: the README repeats what its records say, and the records agree with
themselves.
"""

from __future__ import annotations

import importlib.util
import json
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

FOLDER = Path(__file__).parents[2] / "results" / "guha-pruning"
RECORDS = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "benchmarks")


def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prunings", FOLDER / "summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_command_has_its_record() -> None:
    named = re.findall(r"^make (\S+) ", (FOLDER / "commands.sh").read_text(), re.MULTILINE)
    assert sorted(named) == RECORDS == sorted(summary().NAMES)


def test_the_readme_has_the_tables_that_the_records_make() -> None:
    readme, made = (FOLDER / "README.md").read_text(encoding="utf-8"), summary()
    for part in (made.nets(), made.lemmas(), made.normality(), made.sketches()):
        assert "\n".join(part) in readme


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_follows_from_its_own_numbers(name: str) -> None:
    record = read(name)
    layers = record["layers"]
    # sizes, grids and seed come on top
    assert sum(layer["bits"] for layer in layers) < record["bits"]
    for row in record["occam"]:
        if not row["because"]:
            bound = occam_bound(row["errors"], row["m"], row["bits"], Decimal(str(row["delta"])))
            assert row["bound"] == pytest.approx(float_up(bound), abs=1e-12)
    for layer in layers:
        assert layer["nonzeros"] + layer["dead"] <= layer["kept"] <= layer["parameters_before"]
        assert (
            layer["rounding"]
            <= layer["rounding_limit"] * (1 + 1e-5)
            <= layer["rounding_printed"] * (1 + 1e-5)
        )
        assert layer["row_most"] <= layer["shape"][1]
        assert layer["column_most"] <= layer["shape"][0]
    taken = next(one for one in record["tried"] if one["chosen"])
    assert taken["bound"] == min(one["bound"] for one in record["tried"])
    made = [one for one in record["promises"] if one["held"] is not None]
    assert all(one["held"] == (one["worst_ratio"] <= 1) for one in made)


def test_the_sketch_is_the_pruned_net() -> None:
    sketched, plain = read("sketch"), read("mask-and-values")
    assert all(
        layer["sketch"]["recovered"] and layer["sketch"]["optimal_gap"] < 1e-9
        for layer in sketched["layers"]
    )
    assert [layer["nonzeros"] for layer in sketched["layers"]] == [
        layer["nonzeros"] for layer in plain["layers"]
    ]
    assert sketched["errors"] == plain["errors"]
    lines = (FOLDER / "round-trip.txt").read_text(encoding="utf-8").splitlines()
    assert [line.endswith(": equal") for line in lines[:-1]] == [True] * len(plain["layers"])
    assert lines[-1].startswith(
        f"bits: {sketched['bits']} sketched, {plain['bits']} as mask and values;"
    )


def test_a_certificate_holds_by_its_message_and_is_the_one_recorded() -> None:
    path = FOLDER / "fine-tuned.cushion"
    assert cushion.verify(path, None).level == "message"
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, OccamClaim)
    row = read("fine-tuned")["occam"][1]
    assert (claim.errors, claim.bits, claim.m) == (row["errors"], row["bits"], row["m"])


@pytest.mark.full
@pytest.mark.parametrize("name", ["global", "fine-tuned"])
def test_each_certificate_is_replayed_on_the_real_data(name: str) -> None:
    assert cushion.verify(FOLDER / f"{name}.cushion", *cushion.load_pair("mnist")).ok

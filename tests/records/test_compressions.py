"""The recorded compressions: the README repeats what its records say, and the records agree with
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

from cushion.numerics import float_up
from cushion.theorems.occam import occam_bound

FOLDER = Path(__file__).parents[2] / "results" / "arora-compressors"
RECORDS = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.json"))
METHODS = {"low-rank", "matrix-project", "conv-project", "vector-compress", "vector-project"}


def summary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compressions", FOLDER / "summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_command_has_its_record_and_every_method_is_among_them() -> None:
    named = re.findall(r"^record (\S+) ", (FOLDER / "commands.sh").read_text(), re.MULTILINE)
    assert sorted(named) == RECORDS
    assert {read(name)["method"] for name in RECORDS} == METHODS


def test_the_readme_has_the_tables_that_the_records_make() -> None:
    readme, made = (FOLDER / "README.md").read_text(encoding="utf-8"), summary()
    found = made.records()
    parts = [made.promises(found), made.proved(found), made.places(found)]
    parts += [made.layers(found, name) for name in made.SHOWN]
    parts += [
        made.curves(found, net) for net in dict.fromkeys(name.split("/")[0] for name in found)
    ]
    for part in parts:
        assert "\n".join(part) in readme


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_follows_from_its_own_numbers(name: str) -> None:
    record = read(name)
    layers = record["layers"]
    assert record["parameters"] == sum(layer["parameters"] for layer in layers)
    assert record["parameters_before"] == sum(layer["parameters_before"] for layer in layers)
    # sizes, grids and seed come on top
    assert sum(layer["bits"] for layer in layers) < record["bits"]
    here, exact = record["occam"]
    for row in (here, exact):
        if not row["because"]:
            bound = occam_bound(row["errors"], row["m"], row["bits"], Decimal(str(row["delta"])))
            assert row["bound"] == pytest.approx(float_up(bound), abs=1e-12)
    made = [one for one in record["promises"] if one["held"] is not None]
    assert all(
        one["held"] == (one["worst_ratio"] <= 1)
        for one in made
        if one["name"] not in ("Lemma 5", "Lemma 7")
    )
    if made:
        assert record["promise"]["held"] == all(one["held"] for one in made)
    seen = {(one["compressed"], one["at"]): one["worst"] for one in record["induction"]}
    depth = len(layers)
    for i, layer in enumerate(layers, 1):
        assert layer["measured"] == seen[i, layer["name"]]
        if layer["promised"] is not None:
            assert layer["promised"] == pytest.approx(i / depth * record["epsilon"])
    for point in record["curve"]:
        assert point["bits"] > point["parameters"]  # a number takes more than a bit
        assert point["error"] <= point["margin_loss"]
        assert 0 < point["mean_relative_error"] <= point["worst_relative_error"]


def test_what_the_curves_show() -> None:
    """The claims in the README's words: they are read off the records, so a new run must still
    support them.
    """
    signs, srht, low = (
        read(f"lenet/{name}")["curve"]
        for name in ("matrix-project", "matrix-project-srht", "low-rank")
    )
    at = {point["asked"]: point for point in signs}
    assert at["5%"]["error"] > 0.5  # Algorithm 1 at a twentieth of the weights loses the net
    best = {point["asked"]: point for point in low}
    # low rank at a fifth beats Algorithm 1 at the net's own size
    assert best["20%"]["error"] < at["100%"]["error"]
    assert {point["asked"]: point for point in srht}["100%"]["error"] < at["100%"]["error"]
    assert read("lenet/low-rank-margin")["promise"]["held"] is True
    assert read("zero-one/vector-project")["occam"][0]["bound"] < 0.15  # not vacuous

"""The steps of the studies agree with themselves, and their certificates with them.

That the pages follow from the steps is what test_reproductions says of all pages.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import pytest

import cushion
from cushion.certificates.format.claims import Claim
from cushion.certificates.format.container import unpack
from cushion.numerics import float_up
from cushion.theorems.occam import occam_bound

FOLDER = Path(__file__).parents[2] / "results" / "reproduce"
FILES = sorted(FOLDER.glob("study-*/recorded/*.cushion"))
QUICK = {"level-14", "level-20", "level-24", "fine-tuned", "ticket"}  # to decode


def read() -> dict[str, dict[str, Any]]:
    """What each command of a study answered, by the command."""
    records = [json.loads(path.read_text()) for path in (FOLDER / "records").glob("study-*.json")]
    return {one["settings"].get("command", "round trip"): one["value"] for one in records}


RECORDS = read()
COMPRESSED = {command: found for command, found in RECORDS.items() if "occam" in found}
METHODS = {"low-rank", "matrix-project", "conv-project", "vector-compress", "vector-project"}


def one_of(*words: str) -> dict[str, Any]:
    (found,) = (RECORDS[command] for command in RECORDS if all(word in command for word in words))
    return found


def test_the_studies_are_there_with_every_method() -> None:
    counts = {"compress": 15 + 9 + 8 + 25 + 1, "measure": 2 + 2, "bounds": 7 + 1, "train": 1}
    for verb, count in counts.items():
        assert sum(command.startswith(f"cushion {verb} ") for command in RECORDS) == count
    assert {found["method"] for found in RECORDS.values() if "method" in found} == METHODS


@pytest.mark.parametrize("command", COMPRESSED)
def test_bounds_are_those_of_bits_and_errors(command: str) -> None:
    found = COMPRESSED[command]
    for row in found["occam"]:
        if not row["because"]:
            bound = occam_bound(row["errors"], row["m"], row["bits"], Decimal(str(row["delta"])))
            assert row["bound"] == pytest.approx(float_up(bound), abs=1e-12)
    if "tried" in found:
        taken = next(one for one in found["tried"] if one["chosen"])
        assert taken["bound"] == min(one["bound"] for one in found["tried"])
    for one in found.get("promises", ()):
        if one["held"] is not None and one["name"] not in ("Lemma 5", "Lemma 7"):
            assert one["held"] == (one["worst_ratio"] <= 1) or "Proposition" in one["name"]


@pytest.mark.parametrize("command", [key for key, found in RECORDS.items() if "method" in found])
def test_a_compression_is_the_sum_of_its_layers(command: str) -> None:
    found = RECORDS[command]
    layers = found["layers"]
    for key in ("parameters", "parameters_before"):
        assert found[key] == sum(layer[key] for layer in layers)
    assert sum(layer["bits"] for layer in layers) < found["bits"]  # sizes, grids, seed on top
    for i, layer in enumerate(layers, 1):
        if layer["promised"] is not None:
            assert layer["promised"] == pytest.approx(i / len(layers) * found["epsilon"])
    for point in found["curve"]:
        assert point["bits"] > point["parameters"]  # a number takes more than a bit
        assert point["error"] <= point["margin_loss"]


@pytest.mark.parametrize("command", [key for key in RECORDS if "--method heavy-tail" in key])
def test_a_replacement_follows_from_its_own_numbers(command: str) -> None:
    found = RECORDS[command]
    for layer in found["layers"]:
        if layer["tau"] is not None and found["form"] == "corrected":
            assert layer["replaced_largest"] <= layer["tau"]
            spread = layer["tau"] ** 2 + layer["t"]
            root = math.sqrt(2 * spread * math.log(2 / found["eta"])) / layer["frobenius"]
            assert layer["epsilon"] == pytest.approx(root + layer["rounding"], rel=1e-6)
    for part, errors in (("accuracy", "errors"), ("holdout_accuracy", "holdout_errors")):
        shares = [1 - one[errors] / found[part]["m"] for one in found["trials"]]
        assert found[part]["mean"] == pytest.approx(fmean(shares))
    assert len(found["trials"]) == (10 if any(layer["t"] > 0 for layer in found["layers"]) else 1)


def test_a_level_keeps_what_its_training_left() -> None:
    levels = one_of("--prune imp")["levels"]
    assert [level["level"] for level in levels] == list(range(25))
    assert levels[-1]["sparsity"] >= 0.95
    for level in levels:
        found = one_of("--rule zeros --grid best", f"/level-{level['level']:02d} ")
        kept = sum(layer["kept"] for layer in found["layers"])
        assert sum(layer["nonzeros"] for layer in found["layers"]) <= kept <= level["nonzeros"]
        assert found["errors_before"] / found["m"] == pytest.approx(level["train_error"], abs=1e-4)


def test_the_sketch_is_the_pruned_net() -> None:
    sketched, plain = one_of("--method sketch"), one_of("/mask-and-values.net")
    assert all(
        layer["sketch"]["recovered"] and layer["sketch"]["optimal_gap"] < 1e-9
        for layer in sketched["layers"]
    )
    nonzeros = [[layer["nonzeros"] for layer in one["layers"]] for one in (sketched, plain)]
    assert nonzeros[0] == nonzeros[1]
    assert sketched["errors"] == plain["errors"]
    trip = RECORDS["round trip"]
    assert trip["bits"] == [sketched["bits"], plain["bits"]]
    assert set(trip["differ"].values()) == {0}


@pytest.mark.parametrize("command", [key for key in RECORDS if "--beside-data" in key])
def test_verdicts_follow_from_the_two_numbers(command: str) -> None:
    true, random = RECORDS[command], RECORDS[command]["beside"]
    assert (true["errors"], random["errors"]) == (0, 0)
    assert true["holdout_errors"] < 0.2 * true["holdout_m"]
    assert random["holdout_errors"] > 0.8 * random["holdout_m"]
    for net in (true, random):
        held = next(row for row in net["bounds"] if row["name"] == "held-out examples")
        assert held["value"] > net["holdout_errors"] / net["holdout_m"]
        assert all(row["vacuous"] == (row["value"] >= 1) for row in net["bounds"] if row["value"])
    for verdict in true["verdicts"]:
        first, second = verdict["first"], verdict["second"]
        same = None in (first, second) or first == second
        assert verdict["prefers"] == (
            "neither" if same else "first" if first < second else "second"
        )


@pytest.mark.parametrize("examples", ["--examples 400", "--examples all"])
def test_the_claims_on_noise_stability_follow_from_the_numbers(examples: str) -> None:
    found = one_of("--only stability", examples)

    def medians(layers: list[dict[str, Any]]) -> list[float]:
        return [layer["layer_cushion"]["quantiles"]["0.5"] for layer in layers]

    pairs = zip(medians(found["layers"]), medians(found["beside"]), strict=True)
    growth = [mine / other for mine, other in pairs]
    contractions = [
        part["value"] for layer in found["layers"] if (part := layer["activation_contraction"])
    ]
    betas = [
        layer["jacobian_beta"]["spread"]["value"]
        for layer in found["layers"]
        if len(layer["shape"]) == 4
    ]
    answers = {
        "the layer cushion grows with training": sum(factor > 1 for factor in growth) >= 0.8 * 19,
        "and most in later layers": geometric_mean(growth[9:]) > geometric_mean(growth[:9]),
        "the activation contraction is small": max(contractions) <= 3,
        "the Jacobian is well distributed: β ≈ 1 for almost all convolutional layers": sum(
            beta <= 2 for beta in betas
        )
        >= 12.8,
    }
    held = {claim["claim"]: claim["held"] for claim in found["claims"]}
    assert {name: held[name] for name in answers} == answers
    assert all(sum(layer["layer_cushion"]["counts"]) == 50_000 for layer in found["layers"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_certificate_is_the_one_recorded(path: Path) -> None:
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, Claim)
    place = re.escape(f"{path.parent.parent.name}/recorded/{path.name}")
    (command,) = (command for command in RECORDS if re.search(place + r"( |$)", command))
    row = RECORDS[command]
    row = row["occam"][1] if "occam" in row else row
    assert (claim.errors, claim.bits, claim.m) == (row["errors"], row["bits"], row["m"])
    if path.stem in QUICK:  # decoding the larger ones takes long
        assert cushion.verify(path, None).level == "message"


def test_every_certificate_is_there() -> None:
    names = {f"level-{level:02d}" for level in range(25)}
    assert {path.stem for path in FILES} == names | {"supermask", "global", "fine-tuned", "ticket"}


@pytest.mark.full
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_certificate_is_replayed_on_the_real_data(path: Path) -> None:
    verdict = cushion.verify(path, *cushion.load_pair("mnist"))
    assert verdict.ok
    assert verdict.level == "replay"

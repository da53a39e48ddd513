"""The recorded VGG-19: the README repeats the records, and the records' claims follow from their
numbers.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "results" / "noise-stability"
RECORDS = {"some": "vgg19-quarter.json", "all": "vgg19-quarter-all.json"}


@pytest.fixture(scope="module", params=sorted(RECORDS))
def record(request: pytest.FixtureRequest) -> Any:
    return json.loads((FOLDER / RECORDS[request.param]).read_text(encoding="utf-8"))


def test_it_is_the_net_that_was_asked_for(record: Any) -> None:
    assert (record["kind"], record["net"]["m"], record["net"]["depth"]) == ("measure", 50_000, 19)
    assert record["net"]["stability"]["weights"] == "trained"
    assert record["beside"]["net"]["stability"]["weights"] == "initial"
    assert [layer["name"] for layer in record["layers"]] == [
        layer["name"] for layer in record["beside"]["layers"]
    ]
    for layer in record["layers"]:
        assert layer["layer_cushion"]["count"] == 50_000
        assert sum(layer["layer_cushion"]["counts"]) == 50_000
        assert layer["from_initialisation"]["distance"] > 0


def test_the_claims_follow_from_the_numbers(record: Any) -> None:
    def medians(table: Any) -> list[float]:
        return [layer["layer_cushion"]["quantiles"]["0.5"] for layer in table["layers"]]

    growth = [
        mine / other for mine, other in zip(medians(record), medians(record["beside"]), strict=True)
    ]
    contractions = [
        part["value"] for layer in record["layers"] if (part := layer["activation_contraction"])
    ]
    betas = [
        layer["jacobian_beta"]["value"] for layer in record["layers"] if layer["kind"] == "conv2d"
    ]
    answers = {
        "the layer cushion grows with training": sum(factor > 1 for factor in growth) >= 0.8 * 19,
        "and most in later layers": geometric_mean(growth[9:]) > geometric_mean(growth[:9]),
        "the activation contraction is small": None not in contractions and max(contractions) <= 3,
        "the Jacobian is well distributed: β ≈ 1 for almost all convolutional layers": sum(
            b <= 2 for b in betas
        )
        >= 12.8,
    }
    held = {claim["claim"]: claim["held"] for claim in record["claims"]}
    assert {name: held[name] for name in answers} == answers


def test_every_pair_of_some_and_the_exact_pairs_of_all() -> None:
    some, every = (
        json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in RECORDS.values()
    )
    assert (
        sum(len(layer["interlayer_cushion"]["pairs"]) for layer in some["layers"][:-1])
        == 19 * 18 // 2
    )
    exact = [
        pair for layer in every["layers"][:-1] for pair in layer["interlayer_cushion"]["pairs"]
    ]
    assert len(exact) == 18 + 17  # adjacent layers, and all layers to the logits
    assert all(pair["exact"] for pair in exact)
    assert every["net"]["stability"]["examples"] == 50_000
    for few, many in zip(some["layers"], every["layers"], strict=True):
        # the same pass over all examples
        assert math.isclose(
            few["layer_cushion"]["value"], many["layer_cushion"]["value"], rel_tol=1e-4
        )


def test_the_readme_says_what_the_records_say() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in RECORDS.values():
        record = json.loads((FOLDER / name).read_text(encoding="utf-8"))
        for claim in record["claims"]:
            verdict = "reproduced" if claim["held"] else "not reproduced"
            assert (
                f"| {claim['claim']} | {claim['found']} | {claim['threshold']} | {verdict} |"
                in text
            )


def test_the_medians_in_the_readme_are_those_of_the_records() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    some, every = (
        json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in RECORDS.values()
    )
    laws = [law for layer in some["layers"] for law in layer["interlayer_smoothness"]]
    inverse = [
        law["inverse_spread"]["quantiles"]["0.5"]
        for law in laws
        if law["kind"] == "sign-projection" and law["level"]
    ]
    contraction = [
        part["quantiles"]["0.5"]
        for layer in every["layers"]
        if (part := layer["activation_contraction"])
    ]
    beta = [
        layer["jacobian_beta"]["spread"]["quantiles"]["0.5"]
        for layer in every["layers"]
        if layer["kind"] == "conv2d"
    ]
    for values in (contraction, beta, inverse):
        assert f"{min(values):.3g} to {max(values):.3g}" in text

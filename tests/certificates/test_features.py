"""Samples seen through a backbone: bytes, fingerprints, slack, and what a statement hangs on."""

from __future__ import annotations

import dataclasses
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.nets.test_backbones import LITE0, installed, own_file
from tests.picks_cases import blobs

import cushion
from cushion.certificates.certificate import sentence
from cushion.certificates.features import (
    BackboneOptions,
    Seen,
    condition,
    is_known,
    see,
    see_again,
    to_bytes,
)
from cushion.certificates.format.claims import Features, OccamClaim, PicksClaim, assumptions_of
from cushion.certificates.format.container import pack, unpack
from cushion.certificates.picks.options import CHOICES, PicksOptions
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, Remark
from cushion.nets.backbones import PACKAGES
from cushion.theorems.occam import occam_bound
from cushion.theorems.picks import picks_bound

SAMPLE, HELD_OUT = blobs(150, 0), blobs(60, 1)
KNOWN = Features(LITE0, PACKAGES[LITE0].weights, None, 64, "bilinear", 0, 1280, 5, 0)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackboneOptions:
    """A backbone of one's own, and a store of its own for its features."""
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    (tmp_path / "store").mkdir()
    code, weights = own_file(tmp_path)
    return BackboneOptions(backbone=f"{code}:make", weights=weights)


def naive_bytes(row: list[float], scale: int, offset: int) -> list[int]:
    """One row, as FORMAT.md tells it."""
    found = [0 if v != v else min(255, max(0, int(v * 2**scale // 1) + offset)) for v in row]
    while sum(v * v for v in found) >= 2**24:
        found = [v // 2 for v in found]
    return found


@pytest.mark.parametrize(("scale", "offset"), [(5, 0), (3, 128), (-2, 3), (20, 0)])
def test_floats_become_bytes_by_the_declared_map(scale: int, offset: int) -> None:
    floats = np.random.default_rng(0).normal(1, 3, (40, 700)).astype(np.float32)
    floats[3, 4] = np.nan
    if scale == 20:
        with pytest.warns(Remark, match="had to be halved"):
            found = to_bytes(floats, scale, offset)
    else:
        found = to_bytes(floats, scale, offset)
    assert found.dtype == np.uint8
    assert found.tolist() == [naive_bytes(row, scale, offset) for row in floats.tolist()]
    assert ((found.astype(np.int64) ** 2).sum(axis=1) < 2**24).all()


def test_infinities_are_the_largest_and_the_smallest_byte() -> None:
    assert to_bytes(np.float32([[np.inf, -np.inf, 1.0]]), 4, 1).tolist() == [[255, 0, 17]]


def test_the_examples_keep_their_fingerprint(options: BackboneOptions) -> None:
    seen = see(options, SAMPLE)
    read = seen.sample(SAMPLE)
    assert (read.x.dtype, read.x.shape) == (np.uint8, (150, 12))
    assert read.fingerprint == SAMPLE.fingerprint
    assert read.hashed() != SAMPLE.fingerprint
    assert read.y.tolist() == SAMPLE.y.tolist()
    assert seen.claim.width == 12
    assert seen.claim.size == 0


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("Nothing", "every feature is NaN, so nothing can be learnt"),
        ("Same", "all rows have the same features, so nothing can be learnt"),
        ("Small", "all rows have the same bytes, .*give another `scale` or `offset`"),
    ],
)
def test_features_that_tell_nothing_are_said(
    options: BackboneOptions, factory: str, said: str
) -> None:
    assert options.backbone is not None
    own = options.backbone.replace(":make", f":{factory}")
    seen = see(dataclasses.replace(options, backbone=own), SAMPLE)
    with pytest.warns(Remark, match=f"^mine.py:{factory} on {SAMPLE.name}: {said}"):
        seen.sample(SAMPLE)


def test_features_of_another_width_than_before_are_refused(options: BackboneOptions) -> None:
    assert options.backbone is not None
    late = dataclasses.replace(options, backbone=options.backbone.replace(":make", ":Late"))
    seen = see(late, SAMPLE)
    with pytest.raises(BadInput, match="not 12 and then 11; make it the same on every call"):
        seen.sample(SAMPLE)


def test_a_thousandth_of_the_rows_may_be_counted_otherwise() -> None:
    def allowed(slack: int | None, rows: int, m: int) -> int:
        return Seen(KNOWN, lambda inputs: inputs.x, slack).allowed(rows, m)

    assert [allowed(None, n, 50_000) for n in (1, 1000, 1001, 50_000)] == [1, 1, 2, 50]
    assert allowed(30, 50_000, 50_000) == 30
    assert allowed(30, 10_000, 50_000) == 6
    assert allowed(0, 10_000, 50_000) == 0


def test_only_published_weights_of_a_package_are_known() -> None:
    assert is_known(KNOWN)
    assert condition(KNOWN) == ""
    for other in (
        dataclasses.replace(KNOWN, weights="a" * 64),
        dataclasses.replace(KNOWN, program="a" * 64),
        dataclasses.replace(KNOWN, name="mine.py:make"),
    ):
        assert not is_known(other)
        assert f"{other.name} with the weights sha256 {other.weights[:12]}" in condition(other)


def picked(options: BackboneOptions, **more: Any) -> PicksClaim:
    how = {"kind": "picks", "holdout": HELD_OUT, "backbone": options, **more}
    claim = cushion.certify(None, SAMPLE, **how).claim
    assert isinstance(claim, PicksClaim)
    return claim


def test_picks_read_the_features_and_pay_slack_and_tries(options: BackboneOptions) -> None:
    claim = picked(dataclasses.replace(options, slack=4), picks=PicksOptions(tried=3))
    assert (claim.slack, claim.choices) == (4, 3 * CHOICES)
    assert claim.bound == picks_bound(claim.stated, 150, Decimal("0.05"), 3 * CHOICES)
    assert claim.data_fingerprint == SAMPLE.fingerprint
    assert claim.features == see(options, SAMPLE).claim
    assert claim.assumptions == assumptions_of("picks", holdout=True, features=True)
    none = picked(dataclasses.replace(options, slack=0))
    assert claim.holdout is not None
    assert none.holdout is not None
    assert claim.holdout.errors == none.holdout.errors + 2  # 4 of 150 rows, rounded up for 60
    assert claim.holdout.data_fingerprint == HELD_OUT.fingerprint


def test_a_backbone_of_ones_own_makes_the_headline_conditional(options: BackboneOptions) -> None:
    claim = picked(options)
    said = sentence(claim)
    assert said.startswith("Provided that mine.py:make with the weights sha256 ")
    assert ": with probability 95 % over the draw of these 150 examples" in said
    assert "on features of mine.py:make" in said
    assert sentence(dataclasses.replace(claim, features=KNOWN)).startswith("With probability")


def test_an_integer_net_reads_the_features_and_may_err_a_little_more(
    options: BackboneOptions, tmp_path: Path
) -> None:
    how = {"kind": "occam", "method": "subspace", "steps": 3, "holdout": HELD_OUT}
    exact, loose = (
        cushion.certify(None, SAMPLE, backbone=dataclasses.replace(options, slack=slack), **how)
        for slack in (0, 5)
    )
    claim, zero = loose.claim, exact.claim
    assert isinstance(claim, OccamClaim)
    assert isinstance(zero, OccamClaim)
    assert claim.errors == zero.errors + 5
    assert claim.bound == occam_bound(claim.errors, 150, claim.bits, Decimal("0.05"))
    assert claim.holdout is not None
    assert zero.holdout is not None
    assert claim.holdout.errors == zero.holdout.errors + 2
    assert claim.features == see(options, SAMPLE).claim
    assert claim.data_fingerprint == SAMPLE.fingerprint
    assert claim.assumptions == assumptions_of("occam", holdout=True, features=True)
    assert "on features of mine.py:make" in sentence(claim)
    assert unpack(pack(claim, loose.message))[0] == claim


def test_a_search_on_other_features_begins_anew(options: BackboneOptions, tmp_path: Path) -> None:
    told: list[str] = []
    for scale in (5, 5, 6):
        told.clear()
        cushion.certify(
            None,
            SAMPLE,
            method="subspace",
            steps=3,
            backbone=dataclasses.replace(options, scale=scale),
            keep=tmp_path / "best",
            tell=told.append,
        )
        assert any("going on from" in one for one in told) == (scale == 5 and bool(told))
    assert any("another search" in one for one in told)


def test_repeated_rows_are_those_of_the_examples(options: BackboneOptions) -> None:
    twice = Dataset("twice", np.tile(SAMPLE.x, (2, 1, 1, 1)), np.tile(SAMPLE.y, 2), 3)
    assert see(options, twice).sample(twice).found == {"repeated_rows": 150}
    assert see(options, SAMPLE).sample(SAMPLE).found == {}


def test_files_without_features_do_not_name_them() -> None:
    made = cushion.certify(None, SAMPLE, method="subspace", steps=2).claim
    assert "features" not in made.to_json()


@pytest.mark.parametrize("name", ["model", "unlabelled", "fit"])
def test_what_does_not_go_with_a_backbone_is_refused(options: BackboneOptions, name: str) -> None:
    given = {"model": True, "unlabelled": HELD_OUT.x, "fit": "mine.py:fit"}
    more = {name: given[name]}
    model = more.pop("model", None)
    fitting = type("Net", (), {"forward": None})() if model else None
    with pytest.raises(BadInput, match=f"leave `{name}` out"):
        cushion.certify(fitting, SAMPLE, kind="picks", backbone=options, **more)


def test_the_backbone_of_a_claim_is_found_again(options: BackboneOptions, tmp_path: Path) -> None:
    seen = see(options, SAMPLE)
    again = see_again(seen.claim, options.backbone, options.weights)
    assert again.sample(SAMPLE).x.tolist() == seen.sample(SAMPLE).x.tolist()
    with pytest.raises(BadInput, match="give `backbone`"):
        see_again(seen.claim)
    for changed, said in (
        ({"weights": "a" * 64}, "its weights is .*, not aaaaaaaaaaaa"),
        ({"program": "a" * 64}, "its program is"),
        ({"name": "other.py:make"}, "its name is mine.py:make, not other.py:make"),
    ):
        claim = dataclasses.replace(seen.claim, **changed)
        with pytest.raises(BadInput, match=said):
            see_again(claim, options.backbone, options.weights)


@installed
def test_an_installed_package_is_found_by_its_name() -> None:
    again = see_again(dataclasses.replace(KNOWN, size=32))
    assert again.claim.name == LITE0


def test_a_posterior_may_err_a_little_more_too() -> None:
    from tests.posterior_cases import coin, few_draws

    from cushion.certificates.format.claims import GaussianClaim
    from cushion.certificates.pac_bayes import certify_gaussian

    x = np.tile(np.array([1, 0], np.uint8), (50, 1))
    sample = Dataset("ones", x, np.ones(50, np.int64), 2)
    seen = Seen(KNOWN, lambda inputs: inputs.x, 3)
    with few_draws():
        plain, more = (
            certify_gaussian(coin(), sample, Decimal("0.05"), draws=2000, seen=one).claim
            for one in (None, seen)
        )
    assert isinstance(more, GaussianClaim)
    assert more.errors == plain.errors + 120  # 3 of 50 rows, among 2000 draws
    assert Decimal(more.bound) > Decimal(plain.bound)
    assert more.features == KNOWN
    assert more.assumptions == assumptions_of("pac-bayes", holdout=False, features=True)
    assert "features" not in plain.to_json()


@pytest.mark.parametrize(("scale", "said"), [(0, "a larger"), (30, "another"), (5, None)])
def test_features_of_few_values_are_doubted_once(
    options: BackboneOptions, scale: int, said: str | None
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Remark)
        seen = see(dataclasses.replace(options, scale=scale, offset=3), SAMPLE)
        rows = seen.sample(SAMPLE).x
        seen.sample(HELD_OUT)
        see_again(seen.claim, options.backbone, options.weights).sample(SAMPLE)
    told = [str(one.message) for one in caught if "256 values" in str(one.message)]
    assert len(told) == (said is not None)
    if said is not None:
        assert f"only {len(np.unique(rows))} of a byte's 256 values; {said} `scale` may" in told[0]

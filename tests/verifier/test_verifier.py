"""The verifier: its three levels, and the attacks it must withstand (its own arithmetic:
test_verifier_tails).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cushion
import cushion_verify
from cushion.certificates import recheck as verifier
from cushion.certificates.certificate import Certificate, certify_net, sentence
from cushion.certificates.format.claims import Holdout, assumptions_of
from cushion.certificates.format.container import MAGIC, pack
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.message import encode, read
from cushion.certificates.format.sources import Grid
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, Malformed
from cushion.theorems.occam import occam_bound, parse_delta

DELTA = Decimal("0.05")

ASSUMPTIONS = assumptions_of("occam", holdout=False)


def toy(m: int = 400, seed: int = 0) -> Dataset:
    """Two classes told apart by which half of the input is brighter, with some noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, m)
    x = rng.integers(0, 120, (m, 1, 2, 2), dtype=np.uint8)
    x[np.arange(m), 0, y, 0] += rng.integers(0, 130, m).astype(np.uint8)
    return Dataset("toy", x, y.astype(np.int64), 2)


NET = IntegerNet(
    (1, 2, 2), Bytes(2), (Dense(Grid(np.array([[1, 0, -1, 0], [-1, 0, 1, 0]]), 1), None, 0, 0),)
)


@pytest.fixture
def certificate() -> Certificate:
    return certify_net(NET, toy(), DELTA, holdout=toy(100, seed=1))


def write(tmp_path: Path, certificate: Certificate, **changes: Any) -> Path:
    """The certificate with some of its claim replaced, resealed with a fitting digest."""
    path = tmp_path / "c.cushion"
    path.write_bytes(pack(dataclasses.replace(certificate.claim, **changes), certificate.message))
    return path


def test_a_true_certificate_verifies_at_every_level(
    tmp_path: Path, certificate: Certificate
) -> None:
    path = certificate.save(tmp_path / "c.cushion")
    verdict = verifier.verify(path, toy(), toy(100, seed=1))
    assert (verdict.ok, verdict.level, "holdout" in verdict.replayed, verdict.reason) == (
        True,
        "replay",
        True,
        "",
    )
    assert 0 < certificate.bound < 1
    assert "errs on at most" in sentence(certificate.claim)
    without = verifier.verify(path, None)
    assert (without.ok, without.level) == (False, "message")


# ---- well-formed but false


def smaller(text: str) -> str:
    return str(Decimal(text) - Decimal("0.000001"))


@pytest.mark.parametrize(
    ("changes", "level", "reason"),
    [
        (lambda c: {"bound": smaller(c.bound)}, "none", "do not imply"),
        (lambda c: {"errors": c.errors - 1}, "message", "not"),
        (lambda c: {"data_fingerprint": "0" * 64}, "message", "fingerprints differ"),
        (lambda c: {"m": c.m + 1}, "message", "examples"),
        (lambda c: {"ledger": c.ledger[:-1]}, "arithmetic", "ledger"),
        (
            lambda c: {"holdout": dataclasses.replace(c.holdout, bound=smaller(c.holdout.bound))},
            "none",
            "held-out",
        ),
        (
            lambda c: {"holdout": dataclasses.replace(c.holdout, errors=c.holdout.errors - 1)},
            "message",
            "held-out",
        ),
        (
            lambda c: {"holdout": dataclasses.replace(c.holdout, data_fingerprint="0" * 64)},
            "message",
            "held-out",
        ),
        (
            lambda c: {"holdout": dataclasses.replace(c.holdout, m=c.holdout.m + 1)},
            "message",
            "101 held-out",
        ),
        (
            lambda c: {"holdout": dataclasses.replace(c.holdout, m=10**7, bound="0.000010")},
            "message",
            "10000000 held-out",
        ),
    ],
)
def test_false_claims_are_not_ok(
    tmp_path: Path, certificate: Certificate, changes, level: str, reason: str
) -> None:
    path = write(tmp_path, certificate, **changes(certificate.claim))
    verdict = verifier.verify(path, toy(), toy(100, seed=1))
    assert not verdict.ok
    assert verdict.level == level
    assert reason in verdict.reason


def altered(change: str) -> Dataset:
    """Other data, dropped or duplicated rows, changed labels: none of them is the sample."""
    data = toy()
    x, y = data.x.copy(), data.y.copy()
    if change == "dropped row":
        return Dataset("toy", x[1:], y[1:], 2)
    if change == "duplicated row":
        x[1], y[1] = x[0], y[0]
    if change == "one pixel":
        x[7, 0, 1, 1] ^= 1
    if change == "one label":
        y[3] = 1 - y[3]
    if change == "sorted by label":
        order = np.argsort(y, kind="stable")
        x, y = x[order], y[order]
    return Dataset("toy", x, y, 2)


@pytest.mark.parametrize(
    "change", ["dropped row", "duplicated row", "one pixel", "one label", "sorted by label"]
)
def test_other_data_is_not_ok(tmp_path: Path, certificate: Certificate, change: str) -> None:
    verdict = verifier.verify(certificate.save(tmp_path / "c.cushion"), altered(change))
    assert (verdict.ok, verdict.level) == (False, "message")


def test_more_labels_than_classes_is_not_ok(tmp_path: Path) -> None:
    data = toy()
    honest = certify_net(NET, data, DELTA)
    y = data.y.copy()
    y[0] = 2
    other = Dataset("toy", data.x, y, 3)
    path = write(tmp_path, honest, data_fingerprint=other.fingerprint)
    assert "classes" in verifier.verify(path, other).reason


# ---- malformed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda c: {"errors": -1}, "errors must be a whole number"),
        (lambda c: {"errors": c.m + 1}, "401 errors on the examples are more than"),
        (lambda c: {"m": 0, "errors": 0}, "m must be a whole number from 1"),
        (lambda c: {"bits": 0}, "bits"),
        (lambda c: {"bits": c.bits + 1}, "bytes|canonical|early|zero"),
        (lambda c: {"bits": c.bits - 1}, "bytes|canonical|early|zero"),
        (lambda c: {"delta": "0.0", "holdout": None, "assumptions": ASSUMPTIONS}, "above 0"),
        (lambda c: {"delta": "0.6", "holdout": None, "assumptions": ASSUMPTIONS}, "above 0"),
        (lambda c: {"delta": "NaN", "holdout": None, "assumptions": ASSUMPTIONS}, "decimal"),
        (lambda c: {"delta": "0.04"}, "own delta"),
        (lambda c: {"data": "toy\x1b[2K"}, "printable"),
        (lambda c: {"data_fingerprint": "xyz"}, "hexadecimal"),
        (lambda c: {"assumptions": ()}, "assumptions"),
        (lambda c: {"assumptions": ("this bound is unconditional",)}, "assumptions"),
        (lambda c: {"assumptions": ASSUMPTIONS}, "assumptions"),
        (lambda c: {"holdout": dataclasses.replace(c.holdout, delta="0.5")}, "own delta"),
        (
            lambda c: {
                "holdout": dataclasses.replace(c.holdout, data_fingerprint=c.data_fingerprint)
            },
            "itself",
        ),
        (
            lambda c: {"holdout": dataclasses.replace(c.holdout, data_fingerprint="f")},
            "hexadecimal",
        ),
        (lambda c: {"holdout": dataclasses.replace(c.holdout, bound="1e-9")}, "decimal"),
        (lambda c: {"holdout": dataclasses.replace(c.holdout, m=10**7 + 1)}, "holdout's m"),
        (lambda c: {"m": 10**7 + 1}, "whole number from 1 to 10000000"),
        (lambda c: {"bits": 2**22 + 1}, "bits"),
        (lambda c: {"bound": "1e-3"}, "decimal"),
        (lambda c: {"bound": "-0.5"}, "decimal"),
        (lambda c: {"bound": "٠.٥"}, "decimal"),
        (lambda c: {"about": "f"}, "about"),
        (lambda c: {"kind": "guess"}, "kind"),
        (lambda c: {"holdout": dataclasses.replace(c.holdout, errors=-1)}, "holdout's errors"),
    ],
)
def test_nonsense_is_malformed(
    tmp_path: Path, certificate: Certificate, changes, words: str
) -> None:
    path = write(tmp_path, certificate, **changes(certificate.claim))
    with pytest.raises(Malformed, match=words):
        verifier.verify(path, toy())


def reseal(claim_text: bytes, message: bytes) -> bytes:
    body = (
        MAGIC
        + struct.pack("<I", len(claim_text))
        + claim_text
        + struct.pack("<I", len(message))
        + message
    )
    return body + hashlib.sha256(body).digest()


def test_claims_that_are_not_canonical_json_are_malformed(
    tmp_path: Path, certificate: Certificate
) -> None:
    obj = certificate.claim.to_json()
    style: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False}
    text = json.dumps(obj, **style)
    bad = [
        json.dumps(obj, sort_keys=True),  # spaces
        text[:-1] + ',"m":400}',  # a key twice
        text[:-1] + ',"zzz":1}',  # an unknown key, in order
        text.replace('"m":400', '"m":400.0'),
        text.replace('"m":400', '"m":true'),
        text.replace('"ledger":[', '"ledger":[7,'),
        text.replace('"assumptions":[', '"assumptions":[7,'),
        text.replace('"made_with":{}', '"made_with":{"a":' + "[" * 400 + "]" * 400 + "}"),
        text.replace('"made_with":{}', '"made_with":{"a":{}}'),
        "[" * 100_000,
        "{}",
        "[]",
        "\x00",
        *(
            json.dumps({k: v for k, v in obj.items() if k != key}, **style) for key in obj
        ),  # a key is missing
    ]
    assert all(content != text for content in bad)
    for content in bad:
        path = tmp_path / "bad.cushion"
        path.write_bytes(reseal(content.encode(), certificate.message))
        with pytest.raises(Malformed):
            verifier.verify(path, toy())
    path.write_bytes(reseal(text.encode(), certificate.message))
    assert verifier.verify(path, toy()).ok, (
        "the untouched text must pass, or the cases above prove nothing"
    )


def test_no_byte_can_be_changed_cut_or_added(tmp_path: Path, certificate: Certificate) -> None:
    content = certificate.save(tmp_path / "c.cushion").read_bytes()
    path = tmp_path / "d.cushion"
    rng = np.random.default_rng(0)
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        with pytest.raises(Malformed):
            verifier.verify(path, toy())
    for cut in (0, 1, 8, 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(Malformed):
            verifier.verify(path, toy())
    path.write_bytes(content + b"\x00")
    with pytest.raises(Malformed):
        verifier.verify(path, toy())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.integers(1, 700))
def test_random_messages_are_read_alike_by_both_readers(message: bytes, bits: int) -> None:
    try:
        costs: list[int] | None = [item.bits for item in read(message, bits)[1]]
    except Malformed:
        costs = None
    try:
        again: list[int] | None = cushion_verify.IntegerNet(message, bits).costs
    except cushion_verify.Malformed:
        again = None
    assert costs == again


def test_missing_files_and_folders_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        verifier.verify(tmp_path / "none.cushion", toy())
    with pytest.raises(BadInput, match="cannot be read"):
        verifier.verify(tmp_path, toy())


def test_saving_is_all_or_nothing(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="not a folder"):
        certificate.save(tmp_path / "no" / "c.cushion")
    target = tmp_path / "c.cushion"
    target.write_bytes(b"old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(BadInput, match=r"c.cushion cannot be written \(disk\)"):
        certificate.save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["c.cushion"]
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize(
    "text", ["0.0000001", "1e-18", "5E-2", "0.50", "0.010", "0.0500000000000000000000000"]
)
def test_every_delta_that_is_accepted_can_be_verified(tmp_path: Path, text: str) -> None:
    path = certify_net(NET, toy(), parse_delta(text), holdout=toy(100, seed=1)).save(
        tmp_path / "d.cushion"
    )
    assert verifier.verify(path, toy(), toy(100, seed=1)).ok


def test_a_sample_cannot_be_its_own_holdout() -> None:
    with pytest.raises(BadInput, match="the sample itself"):
        certify_net(NET, toy(), DELTA, holdout=toy())


@pytest.mark.parametrize("order", ["reversed", "relabelled"])
def test_a_holdout_made_of_the_sample_s_rows_is_refused(
    tmp_path: Path, certificate: Certificate, order: str
) -> None:
    """Another order or other labels give another fingerprint, but the rows were not held out."""
    data = toy()
    x, y = (data.x[::-1], data.y[::-1]) if order == "reversed" else (data.x, 1 - data.y)
    copy = Dataset("copy", np.ascontiguousarray(x), np.ascontiguousarray(y), 2)
    with pytest.raises(
        BadInput, match=r"\(copy\) are not held out: 400 of the 400 are rows of the sample"
    ):
        certify_net(NET, data, DELTA, holdout=copy)
    errors = NET.errors(copy.x, copy.y)
    line = Holdout(copy.fingerprint, errors, 400, "0.05", occam_bound(errors, 400, 0, DELTA))
    verdict = verifier.verify(write(tmp_path, certificate, holdout=line), data, copy)
    assert (verdict.ok, "sample" in verdict.replayed, "holdout" in verdict.replayed) == (
        False,
        True,
        False,
    )
    assert "not held out" in verdict.reason


def test_data_changed_in_place_are_other_data(tmp_path: Path, certificate: Certificate) -> None:
    data = toy()
    path = certificate.save(tmp_path / "c.cushion")
    assert verifier.verify(path, data).ok
    data.y[:5] = 1 - data.y[:5]
    assert "fingerprints differ" in verifier.verify(path, data).reason


def test_a_replay_that_takes_long_is_asked_for(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate.save(tmp_path / "c.cushion")
    monkeypatch.setattr("cushion_verify.MOST_EFFORT", 10_000)
    with pytest.raises(BadInput, match="add `slow`"):
        verifier.verify(path, toy())
    assert verifier.verify(path, toy(), slow=True).ok
    assert verifier.verify(path, None).level == "message"


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of a file"):
        verifier.verify(name, None)


def test_only_files_and_data_are_verified(tmp_path: Path, certificate: Certificate) -> None:
    path = certificate.save(tmp_path / "c.cushion")
    with pytest.raises(BadInput, match="not a Certificate"):
        cushion.verify(certificate, toy())  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="named sets"):
        cushion.verify(path, "no-such-set")
    with pytest.raises(BadInput, match="not int"):
        cushion.verify(path, 3)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="not int"):
        cushion.verify(path, toy(), 3)  # type: ignore[arg-type]
    assert "1500" in cushion.verify(path, "digits").reason


def test_inputs_of_another_type_or_size_are_not_ok(tmp_path: Path) -> None:
    honest = certify_net(NET, toy(), DELTA)
    for x in (toy().x.astype(np.float32), np.repeat(toy().x, 2, axis=1)):
        other = Dataset("toy", x, toy().y, 2)
        path = write(tmp_path, honest, data_fingerprint=other.fingerprint)
        assert "the net reads" in verifier.verify(path, other).reason


@pytest.mark.parametrize(
    "text", ["0", "0.6", "-1", "x", "nan", "inf", "0." + "1" * 30, "1e-30", "0.0100000000000000001"]
)
def test_impossible_deltas_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="`delta`"):
        parse_delta(text)


def test_coverage_of_the_whole_certificate() -> None:
    """P[L(g) > bound] ≤ δ when g is the best of all messages of a known code, on a known
    distribution.

    Sixteen nets, each of 2^-b weight; labels are coin flips, so every net's true error is 1/2 plus
    ties. The search picks the net with the smallest bound: with its bits unpaid, the same
    experiment fails far too often.
    """
    rng = np.random.default_rng(3)
    m, draws, delta = 40, 4000, Decimal("0.2")
    bounds = {b: [float(occam_bound(k, m, b, delta)) for k in range(m + 1)] for b in (0, 4)}
    failures = {0: 0, 4: 0}
    for _ in range(draws):
        errors = rng.binomial(m, 0.5, size=16)
        for bits, table in bounds.items():
            failures[bits] += min(table[k] for k in errors) < 0.5
    assert failures[4] / draws <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / draws)
    assert failures[0] / draws > 0.5


def test_the_message_in_the_file_is_the_net(certificate: Certificate) -> None:
    assert certificate.message == encode(NET).data


def test_the_published_certificate_still_verifies() -> None:
    """A golden file: whatever changes in the code, this file keeps its meaning."""
    verdict = cushion.verify(
        Path(__file__).parents[2] / "results" / "demo" / "integer.cushion", "digits"
    )
    assert (verdict.ok, verdict.level, "holdout" in verdict.replayed) == (True, "replay", True)
    assert (verdict.claim.m, verdict.claim.errors, verdict.claim.bits) == (1500, 36, 544)
    assert Decimal(verdict.claim.bound) < Decimal("0.45")

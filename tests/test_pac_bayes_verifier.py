"""The verifier of PAC-Bayes certificates: what it accepts, and the forgeries it must not."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.posterior_cases import coin, convolutional, ones, stripes, whole

from cushion import verifier
from cushion.certificates.pac_bayes import PosteriorCertificate, certify_gaussian
from cushion.data.dataset import Dataset
from cushion.encoding.container import pack, unpack
from cushion.encoding.limits import multiplications
from cushion.encoding.posterior import encode_posterior
from cushion.errors import BadInput, Malformed
from cushion.gaussian_claims import GaussianClaim
from cushion.verifier.gaussian import verify_claim

SAMPLE, HELD = stripes(400), stripes(80, seed=1)


@pytest.fixture(scope="module")
def made() -> PosteriorCertificate:
    return certify_gaussian(convolutional(5), SAMPLE, Decimal("0.05"), draws=500, holdout=HELD, made_with={"seed": 5})


def verdict(made: PosteriorCertificate, **changes: Any) -> Any:
    return verify_claim(dataclasses.replace(made.claim, **changes), made.message, SAMPLE, HELD)


def test_a_file_verifies_at_every_level(made: PosteriorCertificate, tmp_path: Path) -> None:
    path = made.save(tmp_path / "q.cushion")
    claim, message = unpack(path.read_bytes())
    assert (claim, message) == (made.claim, made.message)
    found = verifier.verify(path, SAMPLE, HELD)
    assert (found.ok, found.level, found.holdout_replayed) == (True, "replay", True)
    assert not verifier.verify(path, SAMPLE).holdout_replayed
    assert (verifier.verify(path, None).ok, verifier.verify(path, None).level) == (False, "message")
    other = verifier.verify(path, stripes(400, seed=9), HELD)
    assert (other.ok, other.level) == (False, "message")
    assert "fingerprints differ" in other.reason
    assert "has 80" in verifier.verify(path, HELD).reason
    relabelled = Dataset("stripes", HELD.x, (HELD.y + 1) % 3, 3)
    assert not verifier.verify(path, SAMPLE, relabelled).ok


def test_the_sentence_says_what_is_bounded(made: PosteriorCertificate) -> None:
    assert "Vacuous" in str(made) or "net drawn anew from this posterior" in str(made)
    few = certify_gaussian(coin(), ones(20000), Decimal("0.05"), draws=2000)
    assert str(few).startswith("With probability 95 % over the draw of these 20 000 examples and of the nets counted")
    assert made.about == "Q"


def test_the_ledger_adds_up(made: PosteriorCertificate) -> None:
    claim = made.claim
    assert sum(paid.bits for paid in claim.ledger) == claim.header_bits == encode_posterior(convolutional(5)).bits
    kl = sum(Decimal(paid.nats) for paid in claim.ledger if paid.meaning.startswith("KL of"))
    assert Decimal(claim.kl) == kl > 0


FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"kl": "0.000001"}, "arithmetic"),
    ({"bound": "0.100000"}, "none"),
    ({"sample_bound": "0.100000"}, "none"),
    ({"errors": 1, "sample_bound": "0.030000", "bound": "1.000000"}, "message"),
    ({"draws": 499}, ""),
    ({"draws": 501}, "message"),
    ({"delta": "0.4"}, ""),
    ({"m": 10**6}, "arithmetic"),
    ({"header_bits": 8}, ""),
]


@pytest.mark.parametrize(("changes", "level"), FORGERIES)
def test_forged_numbers_are_not_believed(made: PosteriorCertificate, changes: dict[str, Any], level: str) -> None:
    """A level of "" means that the claim is not even one of the format, or that its level depends on the numbers."""
    try:
        found = verdict(made, **changes)
    except Malformed:
        assert not level
        return
    assert not found.ok
    assert not level or found.level == level


def test_a_smaller_divergence_is_not_believed_even_where_the_bound_is_vacuous(made: PosteriorCertificate) -> None:
    less = format(Decimal(made.claim.kl) - 1, "f")
    found = verdict(made, kl=less, bound="1.000000")
    assert (found.ok, found.level) == (False, "arithmetic")
    assert verdict(made, bound="1.000000").ok  # weaker than what was proved


@pytest.mark.parametrize("index", range(10))
def test_every_line_of_the_ledger_is_checked(made: PosteriorCertificate, index: int) -> None:
    ledger = list(made.claim.ledger)
    paid = ledger[index]
    less = format(max(Decimal(0), Decimal(paid.nats) - Decimal("0.000001")), "f")
    for changed in (
        dataclasses.replace(paid, nats=less),
        dataclasses.replace(paid, nats=format(Decimal(paid.nats) + 1, "f")),
        dataclasses.replace(paid, bits=paid.bits + 1),
        dataclasses.replace(paid, meaning="nothing to see"),
    ):
        found = verdict(made, ledger=(*ledger[:index], changed, *ledger[index + 1 :]))
        assert (found.ok, found.level) == (False, "arithmetic")
    assert not verdict(made, ledger=tuple(ledger[:index] + ledger[index + 1 :])).ok


def test_a_hold_out_line_is_checked_in_full(made: PosteriorCertificate) -> None:
    line = made.claim.holdout
    assert line is not None
    assert not verdict(made, holdout=dataclasses.replace(line, bound="0.010000")).ok
    found = verdict(made, holdout=dataclasses.replace(line, errors=line.errors - 1))
    assert (found.ok, found.level, found.sample_replayed, found.holdout_replayed) == (False, "message", True, False)
    for wrong in ({"delta": "0.04"}, {"data_fingerprint": SAMPLE.fingerprint}, {"m": 0}, {"bound": "2"}):
        with pytest.raises(Malformed):
            verdict(made, holdout=dataclasses.replace(line, **wrong))
    with pytest.raises(Malformed, match="assumptions"):
        verdict(made, holdout=None)
    with pytest.raises(BadInput, match="the sample itself"):
        certify_gaussian(coin(), ones(5), Decimal("0.05"), draws=5, holdout=ones(5))


@pytest.mark.parametrize(
    "changes",
    [
        {"assumptions": ("trust me",)},
        {"delta": "0.9"},
        {"delta": "5e-2"},
        {"delta_draws": "0.05"},
        {"delta_draws": "0"},
        {"kl": "NaN"},
        {"kl": "-1.000000"},
        {"kl": "1e3"},
        {"kl": "01.000000"},
        {"sample_bound": "1.5"},
        {"draws": 0},
        {"draws": 10**9},
        {"errors": -1},
        {"errors": 501},
        {"m": 0},
        {"header_bits": 0},
        {"header_bits": 2**40},
        {"data": "a\nb"},
        {"data_fingerprint": "00"},
    ],
)
def test_fields_outside_the_format_are_malformed(made: PosteriorCertificate, changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        verdict(made, **changes)


def test_too_many_draws_for_their_delta_are_refused() -> None:
    """The sampler is exact to 2^-54 a number: a δ' below what all draws may be off by cannot be had."""
    with pytest.raises(BadInput, match="too small"):
        certify_gaussian(coin(), ones(5), Decimal("0.00000000000001"), draws=1000)
    made = certify_gaussian(coin(), ones(5), Decimal("0.05"), draws=1000)
    forged = dataclasses.replace(made.claim, delta_draws="0.000000000000000001", sample_bound="0.999", bound="1.0")
    found = verify_claim(forged, made.message, ones(5), None)
    assert (found.ok, found.level) == (False, "none")
    assert "not that exact" in found.reason


def test_the_work_of_all_draws_is_limited_when_written_and_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = certify_gaussian(coin(), ones(6), Decimal("0.05"), draws=1000)
    coin().check_draws(2**31 // 4)  # four numbers, four multiplications
    with pytest.raises(Malformed, match="more than the format allows"):
        coin().check_draws(2**31 // 4 + 1)
    monkeypatch.setattr("cushion.encoding.posterior.MOST_PRODUCTS", 4007)
    assert verify_claim(made.claim, made.message, ones(6), None).ok
    with pytest.raises(BadInput, match="fewer draws"):
        certify_gaussian(coin(), ones(6), Decimal("0.05"), draws=1000, holdout=ones(2))
    monkeypatch.setattr("cushion.encoding.posterior.MOST_PRODUCTS", 3999)
    with pytest.raises(Malformed, match="4 multiplications are more than"):
        verify_claim(made.claim, made.message, ones(6), None)


def test_multiplications_of_a_convolutional_net_by_hand() -> None:
    """3x3 at 36 places for 2 channels, then 18 values for 3 scores."""
    net = convolutional().skeleton
    assert multiplications(net.input_shape, net.layers) == 9 * 36 * 2 + 18 * 3


def test_claims_are_read_strictly(made: PosteriorCertificate) -> None:
    good = made.claim.to_json()
    assert GaussianClaim.from_json(json.loads(json.dumps(good))) == made.claim
    for key in good:
        with pytest.raises(Malformed):
            GaussianClaim.from_json({k: v for k, v in good.items() if k != key})
    wrong: list[dict[str, Any]] = [
        {"m": True},
        {"errors": 1.0},
        {"kl": 3},
        {"about": "g"},
        {"kind": "occam"},
        {"ledger": {}},
        {"ledger": [{"item": "x"}]},
        {"assumptions": [1]},
        {"made_with": {"a": [1]}},
        {"holdout": 3},
        {"extra": 1},
    ]
    for change in wrong:
        with pytest.raises(Malformed):
            GaussianClaim.from_json({**good, **change})


def test_no_flipped_bit_of_the_message_verifies() -> None:
    """Resealed, so that the digest does not help: the posterior, its price or its draws differ."""
    sample = ones(40)
    made = certify_gaussian(coin(3), sample, Decimal("0.05"), draws=400)
    for position in range(8 * len(made.message)):
        changed = bytearray(made.message)
        changed[position // 8] ^= 1 << position % 8
        try:
            found = verify_claim(made.claim, bytes(changed), sample, None)
        except Malformed:
            continue
        assert not found.ok, position


def test_no_flipped_byte_of_the_file_verifies(made: PosteriorCertificate, tmp_path: Path) -> None:
    content = pack(made.claim, made.message)
    for position in range(0, len(content), 7):
        path = tmp_path / "flipped.cushion"
        path.write_bytes(content[:position] + bytes([content[position] ^ 64]) + content[position + 1 :])
        with pytest.raises(Malformed):
            verifier.verify(path, SAMPLE, HELD)


def test_a_label_or_a_shape_that_the_nets_do_not_know(made: PosteriorCertificate) -> None:
    wide = Dataset("wide", np.zeros((400, 1, 7, 7), dtype=np.uint8), whole(np.zeros(400)), 3)
    claim = dataclasses.replace(made.claim, data_fingerprint=wide.fingerprint)
    assert "reads inputs of shape" in verify_claim(claim, made.message, wide, None).reason
    more = Dataset("more", SAMPLE.x, SAMPLE.y + 1, 4)
    claim = dataclasses.replace(made.claim, data_fingerprint=more.fingerprint)
    assert "have label 3" in verify_claim(claim, made.message, more, None).reason

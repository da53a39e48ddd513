"""The verifier of PAC-Bayes certificates: what it accepts, and the forgeries it must not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.posterior_cases import (
    coin,
    convolutional,
    few_draws,
    linear,
    ones,
    stripes,
    verify_claim,
    whole,
)

from cushion.certificates import recheck as verifier
from cushion.certificates.certificate import Certificate
from cushion.certificates.format.claims import Holdout, read_claim
from cushion.certificates.format.container import pack, unpack
from cushion.certificates.format.draws import count_draws, key_of, random_rows, row_by_row
from cushion.certificates.format.inputs import Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.limits import multiplications
from cushion.certificates.format.posterior import Factor, Posterior, encode_posterior
from cushion.certificates.format.rounded_gaussian import lower_tail, table
from cushion.certificates.format.sources import Values
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, Malformed
from cushion_verify import bound_holds

SAMPLE, HELD = stripes(400), stripes(80, seed=1)


@pytest.fixture(scope="module", autouse=True)
def _any_number_of_draws() -> Iterator[None]:
    with few_draws():
        yield


@pytest.fixture(scope="module")
def made() -> Certificate:
    return certify_gaussian(
        convolutional(5), SAMPLE, Decimal("0.05"), draws=500, holdout=HELD, made_with={"seed": 5}
    )


def verdict(made: Certificate, **changes: Any) -> Any:
    return verify_claim(dataclasses.replace(made.claim, **changes), made.message, SAMPLE, HELD)


def test_a_file_verifies_at_every_level(made: Certificate, tmp_path: Path) -> None:
    path = made.save(tmp_path / "q.cushion")
    claim, message = unpack(path.read_bytes())
    assert (claim, message) == (made.claim, made.message)
    found = verifier.verify(path, SAMPLE, HELD)
    assert (found.ok, found.level, "holdout" in found.replayed) == (True, "replay", True)
    assert "holdout" not in verifier.verify(path, SAMPLE).replayed
    assert (verifier.verify(path, None).ok, verifier.verify(path, None).level) == (False, "message")
    other = verifier.verify(path, stripes(400, seed=9), HELD)
    assert (other.ok, other.level) == (False, "message")
    assert "fingerprints differ" in other.reason
    assert "and 80 were given" in verifier.verify(path, HELD).reason
    relabelled = Dataset("stripes", HELD.x, (HELD.y + 1) % 3, 3)
    assert not verifier.verify(path, SAMPLE, relabelled).ok


def test_the_sentence_says_what_is_bounded(made: Certificate) -> None:
    assert "Vacuous" in str(made) or "net drawn anew from this posterior" in str(made)
    few = certify_gaussian(coin(), ones(20000), Decimal("0.05"), draws=2000)
    assert str(few).startswith(
        "With probability 95 % over the draw of these 20 000 examples and of the nets counted"
    )
    assert made.about == "Q"


def test_the_ledger_adds_up(made: Certificate) -> None:
    claim = made.claim
    assert (
        sum(paid.bits for paid in claim.ledger)
        == claim.header_bits
        == encode_posterior(convolutional(5)).bits
    )
    kl = sum(Decimal(paid.nats) for paid in claim.ledger if paid.meaning.startswith("KL of"))
    assert Decimal(claim.kl) == kl > 0


FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"kl": "0.000001"}, "arithmetic"),
    ({"bound": "0.100000"}, "none"),
    ({"sample_bound": "0.100000"}, "none"),
    ({"errors": 1, "sample_bound": "0.200000", "bound": "1.000000"}, "message"),
    ({"draws": 499}, ""),
    ({"draws": 501}, "message"),
    ({"delta": "0.4"}, ""),
    ({"m": 10**6}, "arithmetic"),
    ({"header_bits": 8}, ""),
]


@pytest.mark.parametrize(("changes", "level"), FORGERIES)
def test_forged_numbers_are_not_believed(
    made: Certificate, changes: dict[str, Any], level: str
) -> None:
    """A level of "" means that the claim is not even one of the format, or that its level depends
    on the numbers.
    """
    try:
        found = verdict(made, **changes)
    except Malformed:
        assert not level
        return
    assert not found.ok
    assert not level or found.level == level


def test_a_smaller_divergence_is_not_believed_even_where_the_bound_is_vacuous(
    made: Certificate,
) -> None:
    less = format(Decimal(made.claim.kl) - 1, "f")
    found = verdict(made, kl=less, bound="1.000000")
    assert (found.ok, found.level) == (False, "arithmetic")
    assert verdict(made, bound="1.000000").ok  # weaker than what was proved


@pytest.mark.parametrize("index", range(10))
def test_every_line_of_the_ledger_is_checked(made: Certificate, index: int) -> None:
    ledger = list(made.claim.ledger)
    paid = ledger[index]
    less = format(max(Decimal(0), Decimal(paid.nats) - Decimal("0.000001")), "f")
    for changed in (
        dataclasses.replace(paid, nats=less),
        dataclasses.replace(paid, nats=format(Decimal(paid.nats) + 1, "f")),
        dataclasses.replace(paid, bits=paid.bits + 1),
    ):
        found = verdict(made, ledger=(*ledger[:index], changed, *ledger[index + 1 :]))
        assert (found.ok, found.level) == (False, "arithmetic")
    assert not verdict(made, ledger=tuple(ledger[:index] + ledger[index + 1 :])).ok
    words = dataclasses.replace(paid, item="words", meaning="are for people")
    assert verdict(made, ledger=(*ledger[:index], words, *ledger[index + 1 :])).ok


def test_a_hold_out_line_is_checked_in_full(made: Certificate) -> None:
    line = made.claim.holdout
    assert line is not None
    assert not verdict(made, holdout=dataclasses.replace(line, bound="0.010000")).ok
    found = verdict(made, holdout=dataclasses.replace(line, errors=line.errors - 1))
    assert (found.ok, found.level, "sample" in found.replayed, "holdout" in found.replayed) == (
        False,
        "message",
        True,
        False,
    )
    for wrong in (
        {"delta": "0.04"},
        {"data_fingerprint": SAMPLE.fingerprint},
        {"m": 0},
        {"bound": "2"},
    ):
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
def test_fields_outside_the_format_are_malformed(
    made: Certificate, changes: dict[str, Any]
) -> None:
    with pytest.raises(Malformed):
        verdict(made, **changes)


def test_what_the_sampler_may_be_off_by_is_added() -> None:
    """Four numbers of 2^-54 each, and m·2^-64 of the row: a bound as small as that implies nothing,
    and at a tiny δ there is still one.
    """
    made = certify_gaussian(coin(), ones(5), Decimal("0.000000000000000005"), draws=1000)
    assert verify_claim(made.claim, made.message, ones(5), None).ok
    for bound in ("0.0", "0.000000000000000222"):
        forged = dataclasses.replace(made.claim, errors=0, sample_bound=bound, bound="1.0")
        found = verify_claim(forged, made.message, ones(5), None)
        assert (found.ok, found.level) == (False, "none")


def test_a_file_of_the_version_before_is_read_and_not_believed(made: Certificate) -> None:
    before = dataclasses.replace(made.claim, tries_bits=0)
    assert "tries_bits" not in before.to_json()
    assert read_claim(before.to_json()) == before
    found = verify_claim(before, made.message, SAMPLE, HELD)
    assert (found.ok, found.level) == (False, "none")
    assert "certify again" in found.reason
    for other in (-80, 1, 79, 81):
        with pytest.raises(Malformed):
            verdict(made, tries_bits=other)


def test_the_work_of_all_draws_is_limited_when_written_and_when_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = certify_gaussian(coin(), ones(6), Decimal("0.05"), draws=1000)
    coin().check_draws(2**31 // 4)  # four numbers, four multiplications
    with pytest.raises(Malformed, match="more than the format allows"):
        coin().check_draws(2**31 // 4 + 1)
    monkeypatch.setattr("cushion.certificates.format.posterior.MOST_PRODUCTS", 4007)
    other = Dataset("others", ones(2).x + 200, ones(2).y, 2)
    with pytest.raises(BadInput, match="fewer draws"):
        certify_gaussian(coin(), ones(6), Decimal("0.05"), draws=1000, holdout=other)
    monkeypatch.setattr("cushion_verify.MOST_PRODUCTS", 4000)
    assert verify_claim(made.claim, made.message, ones(6), None).ok
    monkeypatch.setattr("cushion_verify.MOST_PRODUCTS", 3999)
    with pytest.raises(Malformed, match="4 multiplications are more than"):
        verify_claim(made.claim, made.message, ones(6), None)


def test_multiplications_of_a_convolutional_net_by_hand() -> None:
    """3x3 at 36 places for 2 channels, then 18 values for 3 scores."""
    net = convolutional().skeleton
    assert multiplications(net.input_shape, net.layers) == 9 * 36 * 2 + 18 * 3


def test_the_share_of_the_draws_is_a_fifth(made: Certificate) -> None:
    """Which share is best could be chosen after the count, so there is nothing to choose."""
    for share in ("0.04", "0.009999999999999999", "0.010000000000000001", "0.000001"):
        with pytest.raises(Malformed, match="a fifth"):
            verdict(made, delta_draws=share, sample_bound="1.000000", bound="1.000000")
    odd = certify_gaussian(coin(), ones(5), Decimal("0.049999999999999999"), draws=5)
    assert odd.claim.delta_draws == "0.009999999999999999"
    assert verify_claim(odd.claim, odd.message, ones(5), None).ok


def test_other_numbers_of_draws_are_other_draws() -> None:
    """Stopping a count where it looks good, or sorting the rows so that it does: the first nets of
    a longer count, or of other rows, are not those of this one.
    """
    message = encode_posterior(coin()).data
    firsts = {
        tuple(random_rows(key_of(message, draws, data), 1000)(0, 20).tolist())
        for draws in range(100, 125)
        for data in ("0" * 64, "1" * 64)
    }
    assert len(firsts) == 50


@pytest.mark.parametrize("precision", [1, 6, 14])
def test_the_program_s_own_decimal_context_changes_nothing(
    made: Certificate, precision: int
) -> None:
    """A divergence of 10 for one of 11.3: with sums rounded to one digit it would look paid."""
    kl = Decimal(made.claim.kl)
    less = format(
        kl.quantize(Decimal(1).scaleb(kl.adjusted() - precision + 1), rounding=ROUND_DOWN), ".6f"
    )
    with localcontext(Context(prec=precision, rounding=ROUND_DOWN)):
        lower_tail.cache_clear()
        table.cache_clear()
        assert verdict(made).ok
        if Decimal(less) < kl:
            assert not verdict(made, kl=less, bound="1.000000").ok
    tables = [lower_tail(n, 0) for n in range(30)]
    lower_tail.cache_clear()
    assert tables == [lower_tail(n, 0) for n in range(30)]


def test_a_divergence_of_whole_millionths_is_accepted() -> None:
    """A posterior equal to its prior costs nothing at all; rounding up must not ask for more than
    that.
    """
    shift = 4 * 16  # one deviation of the prior, in quarters: (μ/s)²/2 = 1/2 nat a number
    for mean in (0, shift):
        posterior = linear(whole([[0, mean], [0, mean]]), whole([[8, 8], [8, 8]]), prior=8)
        made = certify_gaussian(posterior, ones(5), Decimal("0.05"), draws=5)
        assert Decimal(made.claim.kl) == (1 if mean else 0)
        assert verify_claim(made.claim, made.message, ones(5), None).ok


def test_a_holdout_made_of_the_sample_s_rows_is_refused(made: Certificate) -> None:
    copy = Dataset("copy", SAMPLE.x[::-1].copy(), SAMPLE.y[::-1].copy(), 3)
    with pytest.raises(BadInput, match="not held out: 400 of the 400"):
        certify_gaussian(convolutional(5), SAMPLE, Decimal("0.05"), draws=10, holdout=copy)
    key = key_of(made.message, 400, copy.fingerprint)
    errors = count_draws(convolutional(5), key, copy.x, copy.y, 400, row_by_row)
    found = verify_claim(
        dataclasses.replace(
            made.claim, holdout=Holdout(copy.fingerprint, errors, 400, "0.05", "1.000000")
        ),
        made.message,
        SAMPLE,
        copy,
    )
    assert (found.ok, "sample" in found.replayed) == (False, True)
    assert "not held out" in found.reason


def test_a_long_header_is_accepted() -> None:
    """A thousand features with quantisers of their own: 58 000 bits."""
    n = 1000
    quantiser = Floats(6, tuple(-100 - i % 7 for i in range(n)), tuple(2**20 + i for i in range(n)))
    net = IntegerNet((1, 1, n), quantiser, (Dense(Values(whole(np.zeros((2, n)))), None, 0, 0),))
    zeros = whole(np.zeros((2, n)))
    posterior = Posterior(net, (Factor(1, "weights", 8, zeros, zeros),))
    data = Dataset("floats", np.zeros((4, 1, 1, n), dtype=np.float32), np.arange(4) % 2, 2)
    made = certify_gaussian(posterior, data, Decimal("0.05"), draws=5)
    assert made.claim.header_bits > 2**15
    assert verify_claim(made.claim, made.message, data, None).ok


def test_a_replay_that_takes_long_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = certify_gaussian(coin(), ones(6), Decimal("0.05"), draws=1000)
    monkeypatch.setattr("cushion_verify.MOST_EFFORT", 100_000)
    with pytest.raises(BadInput, match="`slow`"):
        verify_claim(made.claim, made.message, ones(6), None)
    assert verify_claim(made.claim, made.message, ones(6), None, slow=True).ok
    assert verify_claim(made.claim, made.message, None, None).level == "message", (
        "nothing is replayed without data"
    )


def test_claims_are_read_strictly(made: Certificate) -> None:
    good = made.claim.to_json()
    assert read_claim(json.loads(json.dumps(good))) == made.claim
    for key in good.keys() - {"tries_bits"}:
        with pytest.raises(Malformed):
            read_claim({k: v for k, v in good.items() if k != key})
    wrong: list[dict[str, Any]] = [
        {"m": True},
        {"errors": 1.0},
        {"kl": 3},
        {"tries_bits": None},
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
            read_claim({**good, **change})


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


def test_no_flipped_byte_of_the_file_verifies(made: Certificate, tmp_path: Path) -> None:
    content = pack(made.claim, made.message)
    for position in range(0, len(content), 7):
        path = tmp_path / "flipped.cushion"
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 64]) + content[position + 1 :]
        )
        with pytest.raises(Malformed):
            verifier.verify(path, SAMPLE, HELD)


def test_a_label_or_a_shape_that_the_nets_do_not_know(made: Certificate) -> None:
    wide = Dataset("wide", np.zeros((400, 1, 7, 7), dtype=np.uint8), whole(np.zeros(400)), 3)
    claim = dataclasses.replace(made.claim, data_fingerprint=wide.fingerprint)
    assert (
        "inputs of shape (1, 6, 6), not uint8 of shape (1, 7, 7)"
        in verify_claim(claim, made.message, wide, None).reason
    )
    more = Dataset("more", SAMPLE.x, SAMPLE.y + 1, 4)
    claim = dataclasses.replace(made.claim, data_fingerprint=more.fingerprint)
    assert "have label 3" in verify_claim(claim, made.message, more, None).reason


def test_the_sampler_s_distance_is_paid_to_the_last_place() -> None:
    """A sample bound of 18 places right at the tail, and half of what the sampler may be off by
    above it, is not enough; what it may be off by is.
    """
    made = certify_gaussian(coin(), ones(40), Decimal("0.05"), draws=1000)
    claim = made.claim
    off = Decimal(4) / 2**54 + Decimal(40) / 2**64
    low, high = int(Decimal(claim.sample_bound) * 10**18) - 10**13, 10**18
    while high - low > 1:  # the smallest bound that the tail alone allows
        middle = (low + high) // 2
        held = bound_holds(claim.errors, 1000, 80, claim.delta_draws, f"0.{middle:018d}")
        low, high = (low, middle) if held else (middle, high)
    for parts, level in ((0, "none"), (Decimal("0.5"), "none"), (Decimal("1.1"), "message")):
        stated = f"{Decimal(high) / 10**18 + parts * off:.18f}"
        changed = dataclasses.replace(claim, sample_bound=stated, bound="1.000000")
        assert verify_claim(changed, made.message, None, None).level == level

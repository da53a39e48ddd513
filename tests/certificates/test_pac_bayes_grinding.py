"""Whoever looks at the draws before choosing the message: many messages, the luckiest kept; many
orders of the sample. Unpaid, the stated bound falls below the truth; paid, it does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.posterior_cases import coin, few_draws, ones

from cushion.certificates import pac_bayes
from cushion.certificates.format.draws import (
    TRIES_BITS,
    count_draws,
    key_of,
    random_rows,
    words,
)
from cushion.certificates.format.limits import FEWEST_DRAWS
from cushion.certificates.format.posterior import encode_posterior
from cushion.certificates.pac_bayes import binomial_bound, certify_gaussian, sampling_slack
from cushion.data import Dataset
from cushion.errors import BadInput

TRUTH = float(stats.norm.cdf(-1))  # the error of `coin` on every row of `ones`
SHARE = Fraction(1, 100)
NOTHING = Fraction(0)


@pytest.fixture
def _any_number_of_draws() -> Iterator[None]:
    with few_draws():
        yield


@pytest.mark.usefixtures("_any_number_of_draws")
def test_hundreds_of_nudged_messages_get_no_bound_below_the_truth() -> None:
    """All 463 are the same classifier; they differ in a number that meets a zero input."""
    made = (certify_gaussian(coin(n), DATA, Decimal("0.05"), draws=100) for n in range(463))
    claim = min((one.claim for one in made), key=lambda claim: claim.errors)
    free = binomial_bound(claim.errors, 100, Fraction(claim.delta_draws), 0, NOTHING)
    assert float(free) < TRUTH < float(claim.sample_bound), "the attack works where tries are free"


DATA = ones(50)


@pytest.mark.parametrize("truth", [0.02, 0.183, 0.5])
def test_a_million_tries_of_many_draws_get_no_bound_below_the_truth(truth: float) -> None:
    """Binomial counts stand for counting: each message has draws of its own."""
    counts = np.random.default_rng(0).binomial(FEWEST_DRAWS, truth, 10**6)
    least = int(counts.min())
    free, paid = (
        float(binomial_bound(least, FEWEST_DRAWS, SHARE, bits, NOTHING)) for bits in (0, TRIES_BITS)
    )
    assert free < truth < paid


def test_as_many_tries_as_are_paid_for_fail_with_the_share_of_the_draws() -> None:
    """2^b tries at b bits, for b that can be simulated: how often the luckiest breaks its bound."""
    n, truth, bits, trials = 2000, 0.2, 6, 2000
    counts = np.random.default_rng(1).binomial(n, truth, (trials, 2**bits)).min(axis=1)
    share = Fraction(1, 10)
    failures = {}
    for paid in (0, bits):
        missed = [
            k
            for k in np.unique(counts)
            if float(binomial_bound(int(k), n, share, paid, NOTHING)) < truth
        ]
        failures[paid] = np.isin(counts, missed).mean()
    assert failures[bits] <= 0.1
    assert failures[bits] > 0.02, "and the price is not far above what it must be"
    assert failures[0] > 0.9


@pytest.mark.usefixtures("_any_number_of_draws")
def test_an_order_of_the_sample_that_suits_the_draws_has_other_draws() -> None:
    """Rows that Q errs on moved to where no draw falls, as whoever knows the draws would."""
    m, n = 400, 100
    x, hard = ones(m).x, np.arange(m) < m // 2
    message = encode_posterior(coin()).data

    def count(y: np.ndarray, key: str) -> int:
        return count_draws(coin(), key, x, y, n, random_rows(key, m))

    before = Dataset("rows", x, 1 - hard.astype(np.int64), 2)
    key = key_of(message, n, before.fingerprint)
    drawn = np.isin(np.arange(m), random_rows(key, m)(0, n))
    suited = np.ones(m, np.int64)
    suited[np.flatnonzero(~drawn)[: hard.sum()]] = 0  # as many hard rows as before
    after = Dataset("rows", x, suited, 2)
    assert count(suited, key) < 0.3 * n, "with the draws of the old order the hard rows are gone"
    honest = count(suited, key_of(message, n, after.fingerprint))
    truth = (TRUTH + 1) / 2  # a hard row is missed by every net, or tied
    assert abs(honest - truth * n) < 4 * np.sqrt(n) / 2
    made = certify_gaussian(coin(), after, Decimal("0.05"), draws=n)
    assert made.claim.errors == honest


def test_words_are_a_cryptographic_stream_in_blocks() -> None:
    key = "ab" * 32
    whole = words("net", key, 3 * 4096 + 7)
    blocks = (hashlib.shake_256(f"cushion net {key} {b}\n".encode()) for b in range(4))
    naive = b"".join(block.digest(2**15) for block in blocks)
    assert whole.tolist() == [
        int.from_bytes(naive[8 * j : 8 * j + 8], "little") for j in range(3 * 4096 + 7)
    ]
    for first, n in ((0, 1), (4095, 2), (4096, 4096), (5000, 5000), (12294, 1), (17, 0)):
        assert (words("net", key, n, first) == whole[first : first + n]).all()
    assert (words("rows", key, 50) != whole[:50]).all()
    assert (words("net", "ac" * 32, 50) != whole[:50]).all()


def test_fewer_draws_than_the_format_asks_for_are_refused() -> None:
    with pytest.raises(BadInput, match="`draws` must be at least 100000"):
        certify_gaussian(coin(), DATA, Decimal("0.05"), draws=FEWEST_DRAWS - 1)


def test_the_slack_of_the_sampler_is_added_to_the_bound() -> None:
    plain = binomial_bound(10, 1000, SHARE, 80, NOTHING)
    more = binomial_bound(10, 1000, SHARE, 80, Fraction(1, 100))
    assert abs(Decimal(more) - Decimal(plain) - Decimal("0.01")) <= Decimal("0.000001")
    assert Decimal(binomial_bound(10, 1000, SHARE, 80, Fraction(1, 10**9))) >= Decimal(plain)
    assert binomial_bound(990, 1000, SHARE, 80, Fraction(1, 2)) == "1.000000"


def test_the_price_of_the_tries_is_as_the_derivation_says() -> None:
    assert binomial_bound(10_000, FEWEST_DRAWS, SHARE, 0, NOTHING) == "0.102228"
    assert binomial_bound(10_000, FEWEST_DRAWS, SHARE, TRIES_BITS, NOTHING) == "0.110417"


@pytest.mark.usefixtures("_any_number_of_draws")
def test_the_slack_is_in_both_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampling_slack(4, 5) == Fraction(4, 2**54) + Fraction(5, 2**64)
    held = Dataset("held", ones(900).x + np.uint8(200), ones(900).y, 2)
    bounds = []
    for size in (Fraction(1, 2**54), Fraction(1, 100)):
        monkeypatch.setattr(pac_bayes, "ERROR", size)
        claim = certify_gaussian(coin(), DATA, Decimal("0.05"), draws=900, holdout=held).claim
        bounds.append((Decimal(claim.sample_bound), Decimal(claim.holdout.bound)))
    for before, after in zip(*bounds, strict=True):
        assert abs(after - before - Decimal("0.04")) <= Decimal("0.000001"), "of four numbers"

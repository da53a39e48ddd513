"""Mistakes of published code for bounds, each with a test that fails when it comes back:
logarithms, inverses, bits.

`test_published_mistakes_measures` has those of published code for measures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from tests.cases import CASES
from tests.encoding_cases import grid, tiny
from tests.posterior_cases import coin, linear, ones, whole
from tests.theorem_cases import facts, layer, random_net

import cushion_verify
from cushion.certificates import pac_bayes as gaussian
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.bits import BitReader, BitWriter
from cushion.certificates.format.claims import LedgerItem
from cushion.certificates.format.container import pack
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.posterior import encode_posterior, read_posterior
from cushion.certificates.format.rounded_gaussian import LEAST_EXPONENT, MOST_EXPONENT
from cushion.certificates.recheck import verify
from cushion.data.dataset import Dataset
from cushion.errors import Malformed
from cushion.nets.tracing import trace
from cushion.numerics import binomial_inverse, kl, kl_inverse
from cushion.theorems import logs
from cushion.theorems.facts import NetFacts
from cushion.theorems.norms import cells, covered, noise_tolerance, peeled
from cushion.theorems.occam import bits_bound, occam_bound
from cushion.theorems.pac_bayes import SIGMAS, NoisyErrors, isotropic, magnitude_noise
from cushion.theorems.records import Bound
from cushion_verify import bound_holds

M, DELTA = 100, Decimal("0.05")
STEP = Decimal("1e-9")


# The nats that each place pays for holding with probability 1 - δ, solved for where they are part
# of a bound.


def _nats_of_noise() -> float:
    found = NoisyErrors(0.5, 3, 1000, 1000, independent=True)
    row = isotropic([found], 4.0, M, 0.05, from_initialisation=False)
    assert row.value is not None
    paid = M * kl(found.upper(0.2 * 0.05 / len(SIGMAS)), row.value) - 4.0 / (2 * 0.5**2)
    return paid - math.log(len(SIGMAS) / 0.8)


def _nats_of_magnitudes() -> float:
    row = magnitude_noise([(0.1, 3.0)], M, 0.05)[1]
    assert row.value is not None
    return (row.value - 0.1) ** 2 * 2 * M - 3.0


def _nats_of_tolerance() -> float:
    net = facts([layer(np.eye(2))], np.ones((M, 2)), margin_loss=0.0)
    with mock.patch.object(logs, "price", return_value=0.0):
        row = noise_tolerance(net)
    assert row.value is not None
    assert row.factors is not None
    divergence = 2.0 / (2 * 100.0 ** row.factors["log10_sigma"])  # ‖w‖² = 2
    return row.value**2 * 2 * M - 2 * divergence - 2 * math.log(2)


CONFIDENCE: dict[str, Callable[[], float]] = {
    "certificates": lambda: gaussian.confidence_nats(M, Fraction(DELTA)),
    "verifier": lambda: float(cushion_verify.confidence_nats(M, DELTA)),
    "noise": _nats_of_noise,
    "noise like the weights": _nats_of_magnitudes,
    "spec-fro": _nats_of_tolerance,
}


@pytest.mark.parametrize("where", CONFIDENCE)
def test_confidence_divides_by_delta_inside_the_logarithm(where: str) -> None:
    """log(2√n)/δ for log(2√n/δ): ten times the price at δ = 0.05, and a smaller δ makes every bound
    vacuous.
    """
    assert CONFIDENCE[where]() == pytest.approx(math.log(2 * math.sqrt(M) / 0.05), abs=2e-3)


def _kl(q: Decimal, p: Decimal) -> Decimal:
    """kl(q‖p) to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        left = q * (q / p).ln() if q else Decimal(0)
        return left + (1 - q) * ((1 - q) / (1 - p)).ln()


def _tail(k: int, m: int, p: Decimal) -> Decimal:
    """P[Bin(m, p) ≤ k] to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return sum((math.comb(m, i) * p**i * (1 - p) ** (m - i) for i in range(k + 1)), Decimal(0))


@pytest.mark.parametrize("q", [0.0, 0.001, 0.02, 0.1, 0.37, 0.5])
@pytest.mark.parametrize("budget", [1e-4, 0.003, 0.05, 0.31, 1.3])
def test_kl_inverse_is_never_below_the_root(q: float, budget: float) -> None:
    """Bisection that returns its midpoint is below the root half the time: the bound it states is
    then not proved.
    """
    found, nats = Decimal(kl_inverse(q, budget)), Decimal(budget)
    assert _kl(Decimal(q), found) >= nats
    assert _kl(Decimal(q), found - STEP) < nats
    assert cushion_verify.kl_reaches(Decimal(q), found, nats)
    assert not cushion_verify.kl_reaches(Decimal(q), found - STEP, nats)
    assert Decimal(gaussian.pac_bayes_bound(str(q), M, budget * M)) >= found


@pytest.mark.parametrize(("k", "m"), [(0, 1), (0, 50), (3, 50), (7, 120), (30, 90)])
@pytest.mark.parametrize("bits", [0, 1, 9, 40])
def test_binomial_inverse_is_never_below_the_root(k: int, m: int, bits: int) -> None:
    """The same mistake in the inverse of the binomial tail, in the certificate's bound and in the
    verifier's check.
    """
    level = DELTA / 2**bits
    found = Decimal(binomial_inverse(k, m, math.log(0.05) - bits * math.log(2)))
    exact = found.quantize(Decimal("1e-18"), rounding="ROUND_UP")
    assert _tail(k, m, found) <= level * (
        1 + Decimal("1e-14")
    )  # the argument above is itself rounded
    assert _tail(k, m, found - STEP) > level
    stated = Decimal(occam_bound(k, m, bits, DELTA))
    assert _tail(k, m, stated) <= level
    assert stated - exact <= Decimal("1e-6")
    assert bound_holds(k, m, bits, DELTA, stated)
    assert bound_holds(k, m, bits, DELTA, exact + STEP)
    assert not bound_holds(k, m, bits, DELTA, exact - STEP)


def _nets() -> list[IntegerNet]:
    """Integer nets whose messages have all kinds of lines: input, layers, weights, biases."""
    return [tiny(), *_variants()]


def test_the_ledger_is_the_length_of_the_message() -> None:
    """A total adjusted by hand (a free header, rounded entropies): fewer bits are paid than the
    decoder reads.
    """
    for net in _nets():
        message = encode(net)
        assert sum(item.bits for item in message.ledger) == message.bits
        assert all(
            item.bits > 0 for item in message.ledger[: 3 + len(net.layers)]
        )  # none of the header is free
        written = np.unpackbits(np.frombuffer(message.data, dtype=np.uint8))
        assert 0 <= len(written) - message.bits < 8
        for shorter in range(message.bits - 8, message.bits):
            with pytest.raises(Malformed):
                decode(message.data[: (shorter + 7) // 8], shorter)
    for posterior in (coin(), linear(whole([[0, 9], [-7, 4]]), whole([[0, 1], [2, 0]]), 3)):
        header = encode_posterior(posterior)
        assert sum(item.bits for item in header.ledger) == header.bits
        assert len(header.data) == (header.bits + 7) // 8 + 5 * posterior.size


@pytest.mark.parametrize(
    "forgery", ["move a bit", "one line for all", "forget a line", "a bit less in all"]
)
def test_the_verifier_refuses_a_ledger_that_is_not_the_messages(
    tmp_path: Path, forgery: str
) -> None:
    """A verifier that trusts the stated total, or only its sum, lets anyone claim a shorter
    message.
    """
    rng = np.random.default_rng(0)
    data = Dataset(
        "noise", rng.integers(0, 256, (40, 1, 2, 2), dtype=np.uint8), rng.integers(0, 2, 40), 2
    )
    made = certify_net(tiny(), data, DELTA)
    assert verify(made.save(tmp_path / "true.cushion"), data).ok
    assert made.claim.bits == encode(tiny()).bits
    first, second, *rest = made.claim.ledger
    less = dataclasses.replace(first, bits=first.bits - 1)
    ledger, bits = {
        "move a bit": (
            (less, dataclasses.replace(second, bits=second.bits + 1), *rest),
            made.claim.bits,
        ),
        "one line for all": (
            (LedgerItem("message", made.claim.bits, "everything"),),
            made.claim.bits,
        ),
        "forget a line": ((first, second, *rest[:-1]), made.claim.bits),
        "a bit less in all": ((less, second, *rest), made.claim.bits - 1),
    }[forgery]
    path = tmp_path / "forged.cushion"
    path.write_bytes(
        pack(
            dataclasses.replace(made.claim, ledger=ledger, bits=bits, bound="1.000000"),
            made.message,
        )
    )
    try:
        assert not verify(path, data).ok
    except Malformed:
        assert bits != made.claim.bits  # not a message at all


def _two_layers(**more: object) -> NetFacts:
    weights, biases = random_net([3, 4, 2], 0)
    return facts(
        [layer(a, b) for a, b in zip(weights, biases, strict=True)], np.full((M, 3), 0.5), **more
    )


# Row -> (factor and divisor of its √(nats/m), how many numbers were chosen after seeing the
# sample).
CHOICES: dict[str, tuple[Callable[[NetFacts], list[Bound]], float, float, int]] = {
    "l1-inf": (peeled, 3, 2, 1 + 2),  # γ, and a norm a layer
    "frobenius": (peeled, 3, 2, 1 + 2),
    "frobenius-root-depth": (peeled, 3, 2, 1 + 2),
    "spec-l2,1": (covered, 3, 2, 1 + 2 * 2),  # γ, and two norms a layer
    "spec-fro": (lambda net: [noise_tolerance(net)], 1, 2, 2),  # γ and σ
    "lipschitz-inf": (lambda net: cells(net, True), 1, 0.5, 1),  # the cells' side
    "lipschitz-2": (lambda net: cells(net, True), 1, 0.5, 1),
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_number_chosen_after_the_sample_is_paid(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """λ (a margin, a norm, σ) optimised on the sample without a union bound: the theorem holds for
    a fixed one only.
    """
    assert sum(math.exp(-logs.price(j)) for j in range(-50_000, 50_001)) <= 1
    theorem, factor, divisor, choices = CHOICES[name]
    nats = 1e18  # if one choice costs this much, the row is the root of what all of them cost
    monkeypatch.setattr(logs, "price", lambda _: nats)
    row = next(row for row in theorem(_two_layers()) if row.name == name)
    assert row.value is not None
    assert (row.value / factor) ** 2 * divisor * M / nats == pytest.approx(choices, rel=1e-3)


@pytest.mark.parametrize("sigma", [SIGMAS[0], SIGMAS[5]])
def test_the_noise_level_is_paid_however_few_were_tried(sigma: float) -> None:
    """σ of a PAC-Bayes posterior optimised without paying: the certificate would fail up to 32
    times too often.
    """
    found = NoisyErrors(sigma, 3, 1000, 1000, independent=True)
    row = isotropic([found], 2.0, M, 0.05, from_initialisation=False)
    share = 0.05 / len(SIGMAS)
    drawn = binomial_inverse(3, 1000, math.log(0.2 * share))
    nats = 2.0 / (2 * sigma**2) + math.log(2 * math.sqrt(M) / (0.8 * share))
    assert row.value == pytest.approx(kl_inverse(drawn, nats / M), abs=2e-6)


def test_the_priors_variance_stands_in_the_paid_header() -> None:
    """A prior variance fitted to the posterior for nothing: KL(Q‖P) alone is then not what the
    theorem asks for.
    """
    means, variances = whole([[0, 9], [-7, 4]]), whole([[0, 1], [2, 0]])
    lengths = []
    for prior in range(LEAST_EXPONENT, MOST_EXPONENT + 1):
        message = encode_posterior(linear(means, variances, prior))
        lengths.append(message.ledger[-1].bits)
        assert "prior" in message.ledger[-1].item
        assert read_posterior(message.data, message.bits)[0].factors[0].prior == prior
    assert sum(2.0**-bits for bits in lengths) <= 1
    claim = gaussian.certify_gaussian(coin(), ones(M), DELTA, draws=10**5).claim
    nats = (
        float(claim.kl)
        + encode_posterior(coin()).bits * math.log(2)
        + math.log(2 * math.sqrt(M) / (0.8 * 0.05))
    )
    assert float(sum(Decimal(line.nats) for line in claim.ledger)) == pytest.approx(nats, abs=1e-4)
    assert M * float(_kl(Decimal(claim.sample_bound), Decimal(claim.bound))) >= nats - 1e-4


WORDS: dict[str, tuple[Callable[[BitWriter, int], int], Callable[[BitReader], int], range]] = {
    "gamma": (BitWriter.gamma, BitReader.gamma, range(1, 2**13)),
    "bounded": (lambda w, v: w.bounded(v, 600), lambda r: r.bounded(1, 600), range(1, 601)),
    "signed": (lambda w, v: w.signed(v, 600), lambda r: r.signed(0, 600), range(-600, 601)),
}


@pytest.mark.parametrize("code", WORDS)
def test_lengths_of_numbers_meet_kraft(code: str) -> None:
    """l + 2 log2 l bits for a number of l bits: Σ 2^-length = π²/6, so 0.72 bit too few are paid
    for every one.
    """
    write, read, values = WORDS[code]
    words = [BitWriter() for _ in values]
    for word, value in zip(words, values, strict=True):
        write(word, value)
    assert sum(Fraction(1, 2 ** len(word)) for word in words) <= 1
    assert [read(BitReader(word.to_bytes(), len(word))) for word in words] == list(values)


def test_no_message_is_the_beginning_of_another() -> None:
    """The same for whole messages: without a prefix code, 2^-bits is no probability and the union
    bound fails.
    """
    nets = [
        IntegerNet((1, 1, 1), Bytes(shift), (Dense(grid([[a], [b]], levels), None, 0, 0),))
        for shift, levels in product(range(8), (1, 2, 3))
        for a, b in product(range(-levels, levels + 1), repeat=2)
    ]
    words = []
    for message in map(encode, [*nets, *_nets()]):
        bits = np.unpackbits(np.frombuffer(message.data, dtype=np.uint8))[: message.bits]
        words.append("".join(map(str, bits)))
    words = sorted(set(words))
    assert len(words) == len(nets) + len(_nets())
    assert not any(after.startswith(before) for before, after in pairwise(words))


def _variants() -> list[IntegerNet]:
    """A net, and the same with one statistic of each kind changed: input scale, bias, bias step,
    shift, pooling.
    """

    def net(
        scale: int = 4, bias: int = 3, step: int = 2, shift: int = 5, pool: str = "max"
    ) -> IntegerNet:
        kernel = grid(np.arange(-4, 5).reshape(1, 1, 3, 3), 4)
        layers = (
            Conv(kernel, np.array([bias]), step, shift, 1, 1, 1, 1),
            Pool("max" if pool == "max" else "sum", 2),
            Dense(grid([[1], [-1]]), np.array([0, 1]), 0, 0),
        )
        return IntegerNet((1, 2, 2), Bytes(scale), layers)

    return [net(), net(scale=3), net(bias=-2), net(step=1), net(shift=4), net(pool="sum")]


def test_what_batch_norm_becomes_is_counted_and_stands_in_the_message() -> None:
    """Batch-norm's scales and shifts uncharged: a net of random signs with fitted statistics would
    cost nothing.
    """
    expected = {
        "conv-batchnorm": (4 * 2 * 9 + 4)
        + (4 * 4 * 9 + 4)
        + (36 * 3 + 3),  # a bias where the convolution has none
        "mlp-batchnorm": (6 * 8 + 8) + (8 * 3 + 3),
        "batchnorm-first": 2 * 6
        + (6 * 8 + 8)
        + 2 * 8
        + (8 * 3 + 3),  # not folded: a factor and a shift a channel
    }
    for case in CASES:
        if case.name in expected:
            assert trace(case.module(), case.input_shape).parameters == expected[case.name], (
                case.name
            )
    row = bits_bound(_two_layers())
    assert row.factors == {"bits": 32.0 * (3 * 4 + 4 + 4 * 2 + 2)}
    messages = [encode(net) for net in _variants()]
    assert len({message.data for message in messages}) == len(messages)
    x = np.random.default_rng(0).integers(0, 256, (64, 1, 2, 2), dtype=np.uint8)
    for net, message in zip(_variants(), messages, strict=True):
        assert (decode(message.data, message.bits).scores(x) == net.scores(x)).all()
        assert next(item.bits for item in message.ledger if item.item == "layer 1: biases") > 0

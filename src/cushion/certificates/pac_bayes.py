"""The PAC-Bayes-kl bound of a posterior over integer nets; proof: docs/derivations.md."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from cushion.certificates.certificate import Certificate, doubts_about
from cushion.certificates.features import Seen
from cushion.certificates.format.claims import (
    CONFIDENCE,
    GaussianClaim,
    Holdout,
    Payment,
    assumptions_of,
)
from cushion.certificates.format.draws import (
    TRIES_BITS,
    count_draws,
    key_of,
    random_rows,
    row_by_row,
)
from cushion.certificates.format.limits import FEWEST_DRAWS
from cushion.certificates.format.posterior import Factor, Posterior, encode_posterior
from cushion.certificates.format.rounded_gaussian import ERROR, LEAST_EXPONENT
from cushion.certificates.sample_assumptions import notes_on
from cushion.data.dataset import Dataset
from cushion.data.inputs import check_holdout
from cushion.data.registered import note_first_use
from cushion.errors import BadInput, Malformed, remark
from cushion.numerics import binomial_inverse, decimal_up, float_up, kl_inverse

# ln 2 lies between these.
_LN2_DOWN = Fraction(693147180559945309417232121458176568, 10**36)
_LN2_UP = _LN2_DOWN + Fraction(1, 10**36)
_SLACK = 1.0 + 1e-12  # covers the rounding of a few float operations and library functions
_PLACES = 10**6  # nats are stated to six decimals
_SHARE_OF_DRAWS = 5  # δ' = δ/5


def gaussian_kl(factor: Factor) -> Fraction:
    """KL(Q‖P) = Σ [ln(s/σ) + (σ² + μ²)/(2s²) - 1/2] in nats, erring upwards by less than 10^-20.

    With σ² = 2^v and s² = 2^p the logarithm is (p - v)/2 · ln 2, so all but ln 2 is exact.
    """
    halves = int((factor.prior - factor.variances).sum())
    # Σ σ² in units of 2^LEAST_EXPONENT
    scaled = (np.int64(1) << (factor.variances - LEAST_EXPONENT)).sum()
    squares = (factor.means**2).sum()  # Σ (4μ)²: below 2^40 · 10^5
    moments = int(scaled) * Fraction(2) ** LEAST_EXPONENT + Fraction(int(squares), 16)
    ln2 = _LN2_UP if halves > 0 else _LN2_DOWN
    return (halves * ln2 + moments / Fraction(2) ** factor.prior - factor.means.size) / 2


def confidence_nats(m: int, delta: Fraction) -> float:
    """ln(2√m/δ), erring upwards.

    >>> abs(confidence_nats(1, Fraction(1, 2)) - math.log(4)) < 1e-10
    True
    """
    return (math.log(2.0) + 0.5 * math.log(m) - math.log(delta)) * _SLACK


def sampling_slack(size: int, m: int) -> Fraction:
    """Total variation of one counted net and its row from ideal draws, at most; m: 0 where the row
    is not drawn.
    """
    return size * ERROR + Fraction(m, 2**64)


def binomial_bound(errors: int, draws: int, delta: Fraction, bits: int, slack: Fraction) -> str:
    """BinInv(errors; draws, δ·2^-bits) + slack, rounded up, at most 1.

    At least L̂(Q), with probability ≥ 1-δ over the draws, for 2^bits tries at once: each draw, a net
    of the sampler's law on a uniform row of the sample, errs with a probability that is L̂(Q) up to
    the slack, independently of the others.
    """
    log_delta = (math.log(delta) - bits * math.log(2.0)) * _SLACK
    found = binomial_inverse(errors, draws, log_delta)
    return decimal_up(min(1.0, math.nextafter(found + float(slack) * _SLACK, 1.0)))


def pac_bayes_bound(sample_error: str, m: int, nats: float) -> str:
    """kl⁻¹(sample_error, nats/m), rounded up; nats = header bits · ln 2 + KL(Q‖P) + ln(2√m/δ).

    With probability ≥ 1-δ over S ~ D^m, for every header and every Q at once, kl(L̂(Q)‖L(Q)) ≤
    nats/m (Seeger 2002, Maurer 2004): the prior is the mixture of all headers' priors, a header of
    b bits weighing 2^-b.

    >>> pac_bayes_bound("0.000000", 100, 5.0)  # rounded up from 1 - exp(-0.05)
    '0.048771'
    """
    return decimal_up(kl_inverse(float_up(sample_error), nats / m * _SLACK))


def certify_gaussian(
    posterior: Posterior,
    sample: Dataset,
    delta: Decimal,
    *,
    draws: int,
    holdout: Dataset | None = None,
    made_with: Mapping[str, Any] | None = None,
    seen: Seen | None = None,
) -> Certificate:
    """State the PAC-Bayes bound of one posterior on its sample, and perhaps a hold-out line.

    Valid however the posterior was found, and even if it was chosen by looking at the draws of up
    to 2^80 of them, as long as the held-out examples were not looked at. δ/5 goes to the draws, the
    rest to the theorem. seen: the backbone that made the examples' bytes, which allows some errors
    more.
    """
    check_holdout(holdout, sample, posterior.skeleton.as_read)
    check_draws(posterior, draws, holdout)
    message = encode_posterior(posterior)
    m, stated, line = len(sample), format(delta, "f"), None
    floor = Context(prec=40, rounding=ROUND_FLOOR)
    share = (delta / _SHARE_OF_DRAWS).quantize(Decimal("1e-18"), context=floor)
    confidence = confidence_nats(m, Fraction(delta - share))
    prices = [Payment(f.item, 0, f.meaning, nats_up(gaussian_kl(f))) for f in posterior.factors]
    kl = sum((Decimal(paid.nats) for paid in prices), Decimal(0))
    ledger = [
        *(Payment(p.item, p.bits, p.meaning, nats_up(p.bits * _LN2_UP)) for p in message.ledger),
        *prices,
        Payment(CONFIDENCE[0], 0, CONFIDENCE[1], nats_up(Fraction(confidence))),
    ]
    nats = float(message.bits * _LN2_UP + Fraction(kl) + Fraction(confidence))

    def count(data: Dataset, nets: int, drawn: bool) -> int:
        key = key_of(message.data, nets, data.fingerprint)
        rows = random_rows(key, len(data)) if drawn else row_by_row
        found = count_draws(posterior, key, data.x, data.y, nets, rows, progress=True)
        return min(nets, found + (0 if seen is None else seen.allowed(nets, m)))

    errors = count(sample, draws, drawn=True)
    slack = sampling_slack(posterior.size, m)
    empirical = binomial_bound(errors, draws, Fraction(share), TRIES_BITS, slack)
    if holdout is not None:
        n, slack = len(holdout), sampling_slack(posterior.size, 0)
        missed = count(holdout, n, drawn=False)
        bound = binomial_bound(missed, n, Fraction(delta), 0, slack)
        line = Holdout(holdout.fingerprint, missed, n, stated, bound)
        note_first_use(holdout, hashlib.sha256(message.data).hexdigest())
    claim = GaussianClaim(
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=m,
        draws=draws,
        errors=errors,
        header_bits=message.bits,
        kl=format(kl, "f"),
        delta=stated,
        delta_draws=format(share.normalize(), "f"),
        tries_bits=TRIES_BITS,
        sample_bound=empirical,
        bound=pac_bayes_bound(empirical, m, nats),
        ledger=tuple(ledger),
        assumptions=assumptions_of(
            "pac-bayes", holdout=line is not None, features=seen is not None
        ),
        holdout=line,
        made_with={**(made_with or {}), **notes_on(sample, holdout)},
        features=None if seen is None else seen.claim,
    )
    remark(*doubts_about(claim))
    return Certificate(claim, message.data)


def check_draws(posterior: Posterior, draws: int, holdout: Dataset | None) -> None:
    """BadInput unless so many nets on the sample, and one on each held-out row, can be stated."""
    if draws < FEWEST_DRAWS:
        raise BadInput(f"`draws` must be at least {FEWEST_DRAWS}, not {draws}")
    try:
        posterior.check_draws(draws + (0 if holdout is None else len(holdout)))
    except Malformed as problem:
        raise BadInput(
            f"{problem}; take fewer draws (at least {FEWEST_DRAWS}), held-out examples or weights, "
            "or another `method`"
        ) from None


def nats_up(value: Fraction) -> str:
    """A number ≥ 0 as a decimal string of six places, rounded up.

    >>> nats_up(Fraction(1, 3)), nats_up(Fraction(12))
    ('0.333334', '12.000000')
    """
    millionths = max(0, math.ceil(value * _PLACES))
    return f"{millionths // _PLACES}.{millionths % _PLACES:06d}"

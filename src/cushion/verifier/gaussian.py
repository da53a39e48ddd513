"""Rechecks a PAC-Bayes certificate: its own arithmetic in decimals, the message, and a replay of
every stated draw.

Levels as in `check`: arithmetic (the stated counts, nats and bits imply both stated bounds),
message (the bytes decode strictly to a posterior whose header costs the stated bits and whose
divergence is at most the stated nats), replay (the nets of the stated streams, evaluated exactly,
make the stated number of errors on data with the stated fingerprint).
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce

from cushion.certificates.format.claims import Verdict
from cushion.certificates.format.gaussian_claims import (
    CONFIDENCE,
    GaussianClaim,
    Payment,
    posterior_assumptions,
)
from cushion.certificates.format.limits import effort
from cushion.certificates.format.posterior import (
    Factor,
    Posterior,
    PosteriorMessage,
    Rows,
    count_draws,
    key_of,
    random_rows,
    read_posterior,
    row_by_row,
)
from cushion.data import Dataset
from cushion.data.inputs import holdout_fault
from cushion.errors import Malformed
from cushion.verifier.effort import DRAWN, check_effort
from cushion.verifier.fields import check_counts, check_fingerprint, check_line
from cushion.verifier.tails import bound_holds

# Every inexact operation names its context: the program around us may have changed the default one.
_UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARGIN = Decimal(
    "1e-50"
)  # more than all rounding of a handful of 60-digit operations on numbers below 100
_NATS = re.compile(r"(0|[1-9][0-9]{0,8})\.[0-9]{6}", re.ASCII)
_LAST_PLACE = Decimal("0.000001")
_SMALLEST = Decimal("1e-18")
_MOST_HEADER = 2**22  # as many as the longest message that a file can hold


def verify_claim(
    claim: GaussianClaim,
    message: bytes,
    data: Dataset | None,
    holdout: Dataset | None,
    *,
    slow: bool = False,
) -> Verdict:
    """Check a claim with its message; Malformed if either is not of the format, otherwise a
    Verdict.
    """
    check_fields(claim)
    posterior, read = read_posterior(message, claim.header_bits)
    nets = claim.draws + (0 if claim.holdout is None else claim.holdout.m)
    posterior.check_draws(nets)
    reason = arithmetic_fault(claim, posterior.size)
    if reason:
        return Verdict(False, "none", reason, claim)
    reason = ledger_fault(claim, posterior, read)
    if reason:
        return Verdict(False, "arithmetic", reason, claim)
    if data is None:
        return Verdict(
            False, "message", "the error count was not replayed: no data was given", claim
        )
    skeleton = posterior.skeleton
    check_effort(
        nets * (DRAWN * posterior.size + effort(skeleton.input_shape, skeleton.layers)), slow
    )
    key = key_of(message, claim.draws)
    rows = random_rows(key, claim.m)
    stated = (claim.m, claim.data_fingerprint, claim.errors)
    if reason := _count_fault(
        posterior, key, data, claim.draws, rows, stated, f"examples of {claim.data}"
    ):
        return Verdict(False, "message", reason, claim)
    line = claim.holdout
    if holdout is not None and line is not None:
        stated = (line.m, line.data_fingerprint, line.errors)
        reason = _count_fault(
            posterior, key, holdout, line.m, row_by_row, stated, "held-out examples"
        )
        if reason := reason or holdout_fault(holdout, data):
            return Verdict(False, "message", reason, claim, sample_replayed=True)
    return Verdict(
        True,
        "replay",
        "",
        claim,
        sample_replayed=True,
        holdout_replayed=holdout is not None and line is not None,
    )


def check_fields(claim: GaussianClaim) -> None:
    """Malformed unless the claim's numbers are of the kind that the format allows."""
    check_counts(claim.errors, claim.draws, "errors", "draws")
    check_counts(0, claim.m, "errors", "examples")
    if not 1 <= claim.header_bits <= _MOST_HEADER:
        raise Malformed(f"a header of {claim.header_bits} bits is outside the format")
    if not claim.data.isprintable():
        raise Malformed("the name of the data must be printable")
    check_fingerprint(claim.data_fingerprint, "the fingerprint of the data")
    if claim.assumptions != posterior_assumptions(claim.holdout is not None):
        raise Malformed(
            "the assumptions are not the ones that every certificate of this kind makes"
        )
    for delta, bound in ((claim.delta, claim.bound), (claim.delta_draws, claim.sample_bound)):
        check_line(delta, bound)
    if Decimal(claim.delta_draws) != _DOWN.quantize(
        _DOWN.divide(Decimal(claim.delta), 5), _SMALLEST
    ):
        raise Malformed(
            "the share of δ for the draws must be a fifth of it, rounded down to 18 places"
        )
    if not all(_NATS.fullmatch(text) for text in (claim.kl, *(paid.nats for paid in claim.ledger))):
        raise Malformed("nats must be plain decimals with six places, such as 12.345678")
    line = claim.holdout
    if line is not None:
        check_counts(line.errors, line.m, "errors", "held-out examples")
        if line.delta != claim.delta:
            raise Malformed("the hold-out line must have the certificate's own delta")
        check_fingerprint(line.data_fingerprint, "the hold-out line's fingerprint")
        if line.data_fingerprint == claim.data_fingerprint:
            raise Malformed("the held-out examples are the sample itself")
        check_line(line.delta, line.bound)


def arithmetic_fault(claim: GaussianClaim, size: int) -> str:
    """Why the stated counts, nats and bits do not imply the stated bounds; empty if they do."""
    theorem = _DOWN.subtract(Decimal(claim.delta), Decimal(claim.delta_draws))
    nats = _UP.add(
        _UP.add(bits_nats(claim.header_bits), Decimal(claim.kl)), confidence_nats(claim.m, theorem)
    )
    counts = [(claim.errors, claim.draws, claim.m, claim.delta_draws, claim.sample_bound)]
    if (line := claim.holdout) is not None:
        counts.append((line.errors, line.m, 0, line.delta, line.bound))
    for errors, draws, rows, delta, bound in counts:
        left = _DOWN.subtract(Decimal(delta), sampling_slack(size, draws, rows))
        if left <= 0:
            return (
                f"{draws} draws cannot be had for a failure of {delta}: the sampler is not that "
                "exact"
            )
        if not bound_holds(errors, draws, 0, left, Decimal(bound)):
            return f"{errors} errors in {draws} draws do not imply {bound}"
    if not kl_reaches(Decimal(claim.sample_bound), Decimal(claim.bound), _UP.divide(nats, claim.m)):
        return (
            f"an error of {claim.sample_bound}, {claim.m} examples and {nats:.3f} nats do not "
            f"imply {claim.bound}"
        )
    return ""


def ledger_fault(claim: GaussianClaim, posterior: Posterior, message: PosteriorMessage) -> str:
    """Why the stated nats are not what this message costs; empty if they are."""
    theorem = _DOWN.subtract(Decimal(claim.delta), Decimal(claim.delta_draws))
    due = [(paid.item, paid.bits, bits_nats(paid.bits), paid.meaning) for paid in message.ledger]
    prices = [(factor.item, 0, gaussian_kl(factor), factor.meaning) for factor in posterior.factors]
    due += [*prices, (CONFIDENCE[0], 0, confidence_nats(claim.m, theorem), CONFIDENCE[1])]
    if len(claim.ledger) != len(due) or not all(map(_pays, claim.ledger, due)):
        return "the ledger in the file is not what the message costs"
    stated = [Decimal(paid.nats) for paid in claim.ledger[len(message.ledger) : -1]]
    if Decimal(claim.kl) < reduce(_UP.add, stated, Decimal(0)):
        return f"the divergence is more than the {claim.kl} nats stated"
    return ""


def _pays(paid: Payment, due: tuple[str, int, Decimal, str]) -> bool:
    """Exactly the same item, and its nats rounded up (by at most one more in the last place)."""
    item, bits, nats, meaning = due
    over = _UP.subtract(Decimal(paid.nats), nats)
    return (paid.item, paid.bits, paid.meaning) == (
        item,
        bits,
        meaning,
    ) and 0 <= over <= 2 * _LAST_PLACE


def gaussian_kl(factor: Factor) -> Decimal:
    """Σ [ln(s²/σ²) + (σ² + μ²)/s² - 1]/2 over the factor's numbers, one by one, rounded up."""
    prior = _UP.power(2, factor.prior)
    # Only a few variances occur, so each one's share is computed once; all numbers but the
    # logarithm are exact.
    shares: dict[int, Decimal] = {}
    for exponent in set(factor.variances.reshape(-1).tolist()):
        variance = _UP.power(2, exponent)
        ratio = _UP.divide(variance, prior)
        shares[exponent] = _UP.subtract(_UP.add(_ln_up(_UP.divide(prior, variance)), ratio), 1)
    total = Decimal(0)
    for mean, exponent in zip(
        factor.means.reshape(-1).tolist(), factor.variances.reshape(-1).tolist(), strict=True
    ):
        square = _UP.divide(mean * mean, _UP.multiply(16, prior))
        total = _UP.add(total, _UP.add(shares[exponent], square))
    return _UP.divide(total, 2)


def bits_nats(bits: int) -> Decimal:
    """bits · ln 2, rounded up."""
    return _UP.multiply(bits, _ln_up(Decimal(2)))


def confidence_nats(m: int, delta: Decimal) -> Decimal:
    """ln(2√m/δ) = ln(4m/δ²)/2, rounded up."""
    return _UP.divide(_ln_up(_UP.divide(4 * m, _DOWN.multiply(delta, delta))), 2)


def sampling_slack(size: int, draws: int, m: int) -> Decimal:
    """Total variation between the counted nets and rows and ideal ones: D·2^-54 a net, m·2^-64 a
    row; rounded up.
    """
    return _UP.divide(draws * (size * 2**10 + m), 2**64)


def kl_reaches(q: Decimal, p: Decimal, budget: Decimal) -> bool:
    """Is p ≥ kl⁻¹(q, budget): p = 1, or p > q and kl(q‖p) ≥ budget? (kl rises in p beyond q.)"""
    if p >= 1:
        return True
    if p <= q:
        return False
    value = Decimal(0)
    if q > 0:
        value = _DOWN.multiply(q, _DOWN.subtract(_DOWN.ln(q), _DOWN.ln(p)))
    rest_q, rest_p = _DOWN.subtract(1, q), _DOWN.subtract(1, p)
    value = _DOWN.add(
        value, _DOWN.multiply(rest_q, _DOWN.subtract(_DOWN.ln(rest_q), _DOWN.ln(rest_p)))
    )
    return _DOWN.subtract(value, _MARGIN) >= budget


def _ln_up(value: Decimal) -> Decimal:
    """ln, rounded up: `ln` is within half a unit of the 60th digit, and values here have logarithms
    below 100.
    """
    return Decimal(0) if value == 1 else _UP.add(_UP.ln(value), _MARGIN)


def _count_fault(
    posterior: Posterior,
    key: str,
    data: Dataset,
    nets: int,
    rows: Rows,
    stated: tuple[int, str, int],
    what: str,
) -> str:
    m, fingerprint, errors = stated
    if len(data) != m:
        return f"the certificate is about {m} {what}, but {data.name} has {len(data)}"
    if data.hashed() != fingerprint:
        return f"these are not the {what} that the certificate is about (their fingerprints differ)"
    if fault := posterior.skeleton.fault(data.x):
        return f"{fault} (the {what})"
    if int(data.y.max()) >= posterior.skeleton.classes:
        return (
            f"the nets know {posterior.skeleton.classes} classes, the {what} have label "
            f"{int(data.y.max())}"
        )
    counted = count_draws(posterior, key, data.x, data.y, nets, rows, progress=True)
    return (
        ""
        if counted == errors
        else f"the drawn nets make {counted} errors on the {what}, not {errors} as stated"
    )

"""Rechecks a PAC-Bayes certificate: arithmetic in decimals, and a replay of every stated draw.

The stated counts, nats and bits imply both stated bounds; the bytes decode strictly to a posterior
whose header costs the stated bits and whose divergence is at most the stated nats; the nets of the
stated streams, evaluated exactly, make the stated number of errors.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce

from cushion.certificates.format.claims import CONFIDENCE, GaussianClaim, Payment
from cushion.certificates.format.draws import (
    TRIES_BITS,
    count_draws,
    key_of,
    random_rows,
    row_by_row,
)
from cushion.certificates.format.errors import Malformed
from cushion.certificates.format.limits import FEWEST_DRAWS, effort
from cushion.certificates.format.posterior import Factor, read_posterior
from cushion.verifier.stated import Examples, check_claim, check_counts, check_line
from cushion.verifier.tails import bound_holds

# Every inexact operation names its context: the program around us may have changed the default one.
_UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
# more than all rounding of a handful of 60-digit operations on numbers below 100
_MARGIN = Decimal("1e-50")
_NATS = re.compile(r"(0|[1-9][0-9]{0,8})\.[0-9]{6}", re.ASCII)
_LAST_PLACE = Decimal("0.000001")
_SMALLEST = Decimal("1e-18")
_DRAWN = 320  # multiplications in the time of drawing one number


class GaussianCheck:
    """A claim and the posterior of its message; Malformed if either is not of the format."""

    def __init__(self, claim: GaussianClaim, message: bytes) -> None:
        check_fields(claim)
        self.claim, self._message = claim, message
        self._posterior, self._header = read_posterior(message, claim.header_bits)
        self.net = self._posterior.skeleton  # reads the inputs as every drawn net does
        self._nets = claim.draws + (0 if claim.holdout is None else claim.holdout.m)
        self._posterior.check_draws(self._nets)
        theorem = _DOWN.subtract(Decimal(claim.delta), Decimal(claim.delta_draws))
        self._confidence = confidence_nats(claim.m, theorem)

    def arithmetic_fault(self) -> str:
        """Why the stated counts, nats and bits do not imply the stated bounds; empty if they do."""
        claim = self.claim
        nats = _UP.add(_UP.add(bits_nats(claim.header_bits), Decimal(claim.kl)), self._confidence)
        if not claim.tries_bits:
            return (
                "this file is of the version before, whose draws could be chosen by looking at "
                "them; certify again"
            )
        counts = [
            (claim.errors, claim.draws, claim.m, TRIES_BITS, claim.delta_draws, claim.sample_bound)
        ]
        if (line := claim.holdout) is not None:
            counts.append((line.errors, line.m, 0, 0, line.delta, line.bound))
        for errors, draws, rows, bits, delta, bound in counts:
            slack = sampling_slack(self._posterior.size, rows)
            left = Decimal(1) if Decimal(bound) == 1 else _DOWN.subtract(Decimal(bound), slack)
            if left <= 0 or not bound_holds(errors, draws, bits, Decimal(delta), left):
                return f"{errors} errors in {draws} draws do not imply {bound}"
        price = _UP.divide(nats, claim.m)
        if not kl_reaches(Decimal(claim.sample_bound), Decimal(claim.bound), price):
            return (
                f"an error of {claim.sample_bound}, {claim.m} examples and {nats:.3f} nats do not "
                f"imply {claim.bound}"
            )
        return ""

    def ledger_fault(self) -> str:
        """Why the stated nats are not what this message costs; empty if they are."""
        claim, header, factors = self.claim, self._header.ledger, self._posterior.factors
        due = [(paid.item, paid.bits, bits_nats(paid.bits), paid.meaning) for paid in header]
        due += [(factor.item, 0, gaussian_kl(factor), factor.meaning) for factor in factors]
        due.append((CONFIDENCE[0], 0, self._confidence, CONFIDENCE[1]))
        if len(claim.ledger) != len(due) or not all(map(_pays, claim.ledger, due)):
            return "the ledger in the file is not what the message costs"
        stated = [Decimal(paid.nats) for paid in claim.ledger[len(header) : -1]]
        if Decimal(claim.kl) < reduce(_UP.add, stated, Decimal(0)):
            return f"the divergence is more than the {claim.kl} nats stated"
        return ""

    def effort(self, rows: int) -> int:  # noqa: ARG002
        """How long all nets take, in multiplications, whatever the rows."""
        each = effort(self.net.input_shape, self.net.layers)
        return self._nets * (_DRAWN * self._posterior.size + each)

    def errors(self, data: Examples, held_out: bool) -> int:
        """Of the drawn nets, each on its row: a random one, or of held-out ones every row once."""
        nets = len(data.x) if held_out else self.claim.draws
        key = key_of(self._message, nets, data.hashed())
        rows = row_by_row if held_out else random_rows(key, self.claim.m)
        return count_draws(self._posterior, key, data.x, data.y, nets, rows, progress=True)


def check_fields(claim: GaussianClaim) -> None:
    """Malformed unless the claim's numbers are of the kind that the format allows."""
    if not claim.tries_bits:
        return
    check_claim(claim, claim.header_bits, transfer=False)
    check_counts(claim.errors, claim.draws, "errors", "draws")
    if claim.tries_bits != TRIES_BITS or claim.draws < FEWEST_DRAWS:
        raise Malformed(f"a posterior is drawn {FEWEST_DRAWS} times or more, and 2^80 tries paid")
    check_line(claim.delta_draws, claim.sample_bound)
    fifth = _DOWN.quantize(_DOWN.divide(Decimal(claim.delta), 5), _SMALLEST)
    if Decimal(claim.delta_draws) != fifth:
        raise Malformed("the draws must have a fifth of δ, rounded down to 18 places")
    if not all(_NATS.fullmatch(text) for text in (claim.kl, *(paid.nats for paid in claim.ledger))):
        raise Malformed("nats must be plain decimals with six places, such as 12.345678")


def _pays(paid: Payment, due: tuple[str, int, Decimal, str]) -> bool:
    """Exactly the same item, and its nats rounded up (by at most one more in the last place)."""
    item, bits, nats, meaning = due
    same = (paid.item, paid.bits, paid.meaning) == (item, bits, meaning)
    return same and 0 <= _UP.subtract(Decimal(paid.nats), nats) <= 2 * _LAST_PLACE


def gaussian_kl(factor: Factor) -> Decimal:
    """Σ [ln(s²/σ²) + (σ² + μ²)/s² - 1]/2 over the factor's numbers, one by one, rounded up."""
    prior = _UP.power(2, factor.prior)
    # Only a few variances occur, so each one's share is computed once; all numbers but the
    # logarithm are exact.
    shares: dict[int, Decimal] = {}
    exponents = factor.variances.reshape(-1).tolist()
    for exponent in set(exponents):
        variance = _UP.power(2, exponent)
        ratio = _UP.divide(variance, prior)
        shares[exponent] = _UP.subtract(_UP.add(_ln_up(_UP.divide(prior, variance)), ratio), 1)
    total = Decimal(0)
    for mean, exponent in zip(factor.means.reshape(-1).tolist(), exponents, strict=True):
        square = _UP.divide(mean * mean, _UP.multiply(16, prior))
        total = _UP.add(total, _UP.add(shares[exponent], square))
    return _UP.divide(total, 2)


def bits_nats(bits: int) -> Decimal:
    """bits · ln 2, rounded up."""
    return _UP.multiply(bits, _ln_up(Decimal(2)))


def confidence_nats(m: int, delta: Decimal) -> Decimal:
    """ln(2√m/δ) = ln(4m/δ²)/2, rounded up."""
    return _UP.divide(_ln_up(_UP.divide(4 * m, _DOWN.multiply(delta, delta))), 2)


def sampling_slack(size: int, m: int) -> Decimal:
    """At most D·2^-54 of total variation a net and m·2^-64 a row, rounded up."""
    return _UP.divide(size * 2**10 + m, 2**64)


def kl_reaches(q: Decimal, p: Decimal, budget: Decimal) -> bool:
    """Is p ≥ kl⁻¹(q, budget): p = 1, or p > q and kl(q‖p) ≥ budget? (kl rises in p beyond q.)"""
    if p >= 1:
        return True
    if p <= q:
        return False
    value = Decimal(0)
    for a, b in ((q, p), (_DOWN.subtract(1, q), _DOWN.subtract(1, p))):
        if a > 0:
            part = _DOWN.multiply(a, _DOWN.subtract(_DOWN.ln(a), _DOWN.ln(b)))
            value = _DOWN.add(value, part)
    return _DOWN.subtract(value, _MARGIN) >= budget


def _ln_up(value: Decimal) -> Decimal:
    """ln, rounded up: within half a unit of the 60th digit, and below 100 here."""
    return Decimal(0) if value == 1 else _UP.add(_UP.ln(value), _MARGIN)

"""PAC-Bayes bounds on the net under Gaussian noise in its weights: Neyshabur 2017, eq. 5 and 6,
printed and corrected.

Q = N(w, σ²I) gives a net drawn anew for every example. For a prior P fixed before the sample, with
probability ≥ 1 - δ,

    kl(L̂(Q)‖L(Q)) ≤ (KL(Q‖P) + ln(2√m/δ))/m.

With P = N(w₀, σ²I), KL = ‖w - w₀‖²/(2σ²). σ is one of a declared list, so δ is divided by its
length. L̂(Q) is itself bounded from draws. Noise that follows the size of the trained weights (eq.
5 with σ_i = α(10|w_i| + 1) and a prior with those variances) makes the prior depend on the sample:
a measure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cushion.numerics import binomial_inverse, kl_inverse
from cushion.theorems.logs import log
from cushion.theorems.records import FORMS, Bound, Statement

SOURCE = "Neyshabur 2017, eq. {}"
SIGMAS = tuple(2.0 ** (-j / 2) for j in range(1, 33))  # the declared list: 2^-1/2 … 2^-16
_NONE = "no noise level was drawn"
_SHARE = 0.2  # of δ for the draws, as in certificates
_SLACK = 1 + 1e-12  # for the rounding of a few float operations


@dataclass(frozen=True)
class NoisyErrors:
    """Errors of nets drawn from N(w, σ²I), σ from `SIGMAS`, on uniform rows of the sample.

    `independent`: every one of the `draws` (example, net) pairs was drawn by itself, so `errors` is
    binomial. Otherwise the pairs come in `clusters` of equal size that share a net, and
    `errors/draws` is the mean of `clusters` variables.
    """

    sigma: float
    errors: int
    draws: int
    clusters: int
    independent: bool

    def upper(self, delta: float) -> float:
        """At least L̂(Q) with probability ≥ 1 - δ over the draws."""
        nats = -math.log(delta) * _SLACK
        if self.independent:
            return binomial_inverse(self.errors, self.draws, -nats)
        return min(1.0, kl_inverse(self.errors / self.draws, nats / self.clusters) * _SLACK)


def isotropic(
    found: Sequence[NoisyErrors],
    squared_distance: float,
    m: int,
    delta: float,
    *,
    from_initialisation: bool,
) -> Bound:
    """The certificate with prior N(w₀, σ²I), w₀ = 0 or the initialisation; the best σ is paid."""
    name = "noise around initialisation" if from_initialisation else "noise"
    start = "the initialisation (drawn before the data)" if from_initialisation else "zero"
    row = Statement(name, SOURCE.format(6), "corrected", "Q")
    if not found:
        return row.abstains(_NONE, "certificate")
    confidence = math.log(2 * math.sqrt(m) * len(SIGMAS) / ((1 - _SHARE) * delta))

    def bound(one: NoisyErrors) -> float:
        sample = one.upper(_SHARE * delta / len(SIGMAS))
        nats = squared_distance / (2 * one.sigma**2) + confidence
        return kl_inverse(min(1.0, sample), nats / m * _SLACK)

    best, at = min(((bound(one), one) for one in found), key=lambda pair: pair[0])
    text = f"the net with noise of std {at.sigma:.3g} in every weight, prior around {start}"
    kl, sampled = squared_distance / (2 * at.sigma**2), at.errors / at.draws
    return row.proves(best, text, sigma=at.sigma, kl=kl, sampled_error=sampled)


def isotropic_as_printed(
    found: Sequence[NoisyErrors], squares: float, m: int, delta: float
) -> Bound:
    """Eq. 6 as printed: ln(1/δ) for ln(2√m/δ), no ½ under the root, the sampled error exact."""
    row = Statement("noise", SOURCE.format(6), "as printed", "Q")
    if not found:
        return row.abstains(_NONE)
    text = "eq. 6 as printed: without ln m and without paying for the choice of σ"
    nats = math.log(1 / delta)
    kls = ((one.errors / one.draws, squares / (2 * one.sigma**2)) for one in found)
    return row.states(log(min(error + math.sqrt((kl + nats) / m) for error, kl in kls)), text)


def magnitude_noise(
    points: Sequence[tuple[float, float]], m: int, delta: float, why_not: str = ""
) -> list[Bound]:
    """Eq. 5, σ_i = α(10|w_i| + 1) at the best α, from pairs (expected error, ½Σw²/σ²)."""
    rows = [Statement("noise like the weights", SOURCE.format(5), form, "Q") for form in FORMS]
    if not points:
        return [row.abstains(why_not) for row in rows]
    slip, right = math.log(2 * m / delta), math.log(2 * math.sqrt(m) / delta)
    printed = min(error + math.sqrt((2 * kl + slip) / m) for error, kl in points)
    corrected = min(error + math.sqrt((kl + right) / (2 * m)) for error, kl in points)
    why = "its prior has the posterior's variances, which depend on the sample: no certificate"
    return [
        rows[0].states(log(printed), f"eq. 5 with the appendix's KL (no ½); {why}"),
        rows[1].states(log(corrected), f"eq. 5 with KL = ½Σw²/σ²; {why}"),
    ]

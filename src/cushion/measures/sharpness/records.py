"""What sharpness (Neyshabur 2017, section 2.4) is reported in: frozen records, no torch. Measures,
not bounds.

w are all parameters of the net, biases included, batch-norms folded; ν is a perturbation of them.
L̂ is the mean cross-entropy over all rows; the error is the fraction of examples whose true class
does not win (ties are errors).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from cushion.records import Record


@dataclass(frozen=True)
class MaxSharpness(Record):
    """Keskar's ζ_α (eq. 4): the largest rise of the loss in the box |ν_i| ≤ α(|w_i| + 1), over 1 +
    L̂(w).

    The maximum is searched by `steps` steps of stochastic gradient ascent, so `value` is a lower
    estimate of ζ_α. `loss_after` and `error_after` are those of the point where the ascent ended,
    on all rows. ν = 0 lies in the box too: `difference` = max(`loss_after`, `loss_before`) -
    `loss_before`, the numerator, is 0 where the ascent ended below its start (`ended_below`), and
    `value` = `difference` / (1 + `loss_before`). `at_the_edge` is the fraction of parameters whose
    ν_i is at its bound: a small one says that more or larger steps may still climb.
    """

    alpha: float
    steps: int
    batch: int
    step_size: float
    momentum: float
    loss_before: float
    loss_after: float
    error_before: float
    error_after: float
    difference: float
    value: float
    ended_below: bool
    at_the_edge: float


@dataclass(frozen=True)
class SharpnessPoint(Record):
    """Expected loss under ν_i ~ N(0, σ_i²) with σ_i = α(scale·|w_i| + offset), and the divergence
    that goes with it.

    `kl` = ½ Σ w_i²/σ_i², of N(w, σ²) from the prior N(0, σ²), which depends on w: no PAC-Bayes
    bound follows. `kl_as_printed` is Appendix A's, which lacks the ½. Both are infinite where a σ_i
    is 0 but w_i is not. `expected_loss` estimates E_ν L̂(w + ν), `expected_error` the same of the
    0-1 loss; `sharpness` and `error_sharpness` are those minus the values at ν = 0. They average
    the change that ν makes on the rows of a mini-batch of `batch` over `draws` perturbations, ν and
    -ν on the same rows. Standard errors are over these pairs (None: a single one), and those of the
    expected losses too, since L̂(w) is exact.
    """

    alpha: float
    kl: float
    kl_as_printed: float
    expected_loss: float
    expected_error: float
    sharpness: float
    sharpness_standard_error: float | None
    error_sharpness: float
    error_sharpness_standard_error: float | None
    draws: int
    batch: int


@dataclass(frozen=True)
class ExpectedSharpness(Record):
    """The bi-criteria curve (Figure 2): sharpness against KL as α grows; `loss` and `error` are
    those of w itself.

    Points share their mini-batches and their standard normal numbers, so that the curve is smooth:
    each point is unbiased, but the points are not independent. `shared`: whether one ν served all
    rows of a mini-batch, as in the definition; otherwise each example had a ν of its own wherever
    that costs less, which has the same expectation.
    """

    scale: float
    offset: float
    loss: float
    error: float
    shared: bool
    points: tuple[SharpnessPoint, ...]

    def kl_at(self, rise: float) -> float | None:
        """The KL at which the error rises by `rise`, between two points by straight lines in ln KL;
        None: not reached.

        The smallest such KL: the largest noise that the net bears.
        """
        points = sorted(self.points, key=lambda point: point.kl)
        for one, two in pairwise(points):  # noise falls, and with it the rise
            high, low = one.error_sharpness, two.error_sharpness
            if high > rise >= low and 0 < one.kl < two.kl < math.inf:
                share = (high - rise) / (high - low)
                return math.exp((1 - share) * math.log(one.kl) + share * math.log(two.kl))
        return None

    @property
    def rule(self) -> str:
        """The standard deviation of ν_i in words, such as "alpha*(10|w|+1)"."""
        if self.scale == 0:
            return f"alpha*{self.offset:g}"
        return f"alpha*({self.scale:g}|w|" + (f"+{self.offset:g})" if self.offset else ")")


@dataclass(frozen=True)
class Sharpness(Record):
    """Both kinds of sharpness of a net on `examples` rows; None: not asked for. `seed` is of all
    draws.
    """

    examples: int
    parameters: int
    seed: int
    maximum: MaxSharpness | None
    expected: ExpectedSharpness | None

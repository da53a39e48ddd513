"""What sharpness (Neyshabur 2017, section 2.4) is reported in: frozen records, measures.

w are all parameters of the net, biases included, batch-norms folded; ν is a perturbation of them.
L̂ is the mean cross-entropy over all rows; the error is the fraction of examples whose true class
does not win (ties are errors).
"""

from __future__ import annotations

import math
from itertools import pairwise

from cushion.records import Record, column


class MaxSharpness(Record):
    """Keskar's ζ_α (eq. 4), as far as ascent climbs; never negative, as ν = 0 lies in the box."""

    alpha: float = column("of the box |ν_i| ≤ α(|w_i| + 1)", label="α")
    steps: int = column("of ascent")
    batch: int = column("rows of a mini-batch")
    step_size: float = column("of the ascent")
    momentum: float = column("of the ascent")
    loss_before: float = column("cross-entropy of w", label="cross-entropy")
    loss_after: float = column("where the ascent ended, on all rows", label="after ascent")
    error_before: float = column("of w", label="error")
    error_after: float = column("where the ascent ended, on all rows", label="error after")
    difference: float = column("the rise of the loss, 0 where the ascent ended below its start")
    value: float = column(
        "largest rise of the loss in the box over 1 + L̂(w)", label="ζ", better="low", source="eq. 4"
    )
    ended_below: bool = column("whether the ascent ended below its start")
    at_the_edge: float = column("share of ν_i at their bounds: if few, more steps may still climb")


class SharpnessPoint(Record):
    """Expected loss under ν_i ~ N(0, σ_i²) with σ_i = α(scale·|w_i| + offset), and its KL.

    Averaged is the change that ν makes on the rows of a mini-batch, ν and -ν on the same rows.
    Standard errors are over these pairs (None: a single one), and those of the expected losses too,
    since L̂(w) is exact.
    """

    alpha: float = column("size of the noise", label="α")
    kl: float = column("½ Σ w_i²/σ_i²; no bound: the prior depends on w", label="KL", unit="nats")
    kl_as_printed: float = column("Appendix A's, which lacks the ½", unit="nats")
    expected_loss: float = column("estimates E_ν L̂(w + ν)")
    expected_error: float = column("the same of the 0-1 loss")
    sharpness: float = column("of the cross-entropy, expected", label="rise of loss", better="low")
    sharpness_standard_error: float | None = column("its standard error", label="±")
    error_sharpness: float = column("of the error, expected", label="rise of error", better="low")
    error_sharpness_standard_error: float | None = column("its standard error", label="±")
    draws: int = column("perturbations")
    batch: int = column("rows of a mini-batch")


class ExpectedSharpness(Record):
    """The bi-criteria curve (Figure 2): sharpness against KL as α grows.

    Points share their mini-batches and their standard normal numbers, so that the curve is smooth:
    each point is unbiased, but the points are not independent.
    """

    scale: float = column("of the noise")
    offset: float = column("of the noise")
    loss: float = column("cross-entropy of w")
    error: float = column("of w")
    shared: bool = column("whether one ν served all rows of a mini-batch, as in the definition")
    points: tuple[SharpnessPoint, ...] = column("one for each α")

    def kl_at(self, rise: float) -> float | None:
        """The smallest KL (largest noise) at which the error rises by `rise`, between two points by
        straight lines in ln KL; None: not reached.
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


class Sharpness(Record):
    """Both kinds of sharpness of a net; None: not asked for."""

    examples: int = column("rows of the sample")
    parameters: int = column("that are perturbed")
    seed: int = column("of all draws")
    maximum: MaxSharpness | None = column("Keskar's")
    expected: ExpectedSharpness | None = column("under Gaussian noise")


class SharpnessOfNet(Record):
    """What sharpness adds to the net's row."""

    sharpness: Sharpness | None = column("how much the loss rises as weights move")

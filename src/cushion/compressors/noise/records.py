"""What `cushion compress --method heavy-tail` answers: layers, trials, promises, counts, bounds; no
torch.

Letters are those of Shin 2021: W = A + B, B the weights that stay, τ the threshold, W(t) = √t·G +
B, k the non-zeros of B. Errors are relative: ε of a layer stands for |uᵀ(W - W(t))v| ≤
ε‖W‖_F‖u‖‖v‖. What Propositions 1.1 and 1.2 say of a trained net is a measure: they take weights as
random, and u, v as fixed before them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cushion.compressors.records import InductionError, Occam, Promise, PromiseCheck
from cushion.records import Record
from cushion.theorems.records import Bound


@dataclass(frozen=True)
class LayerReplacement(Record):
    """One affine layer; of one that is left as it is, everything from `deviation` to
    `replaced_largest` is None or 0.

    deviation: σ of its weights, in which --tau counts. tau: τ itself. t: the variance of the noise
    as it is stored (σ² of the draws in Appendix E), and t_asked the same in mean squares of what
    goes; noise_mean: of the draws. kept: k, the weights that stay; replaced: the others; nonzeros:
    those of B that are stored, fewer where a weight rounds to zero (`rounded_away` of them) or
    belongs to a unit without inputs or readers. replaced_mean: mean of what goes, which noise of
    mean 0 does not replace; replaced_largest: its largest magnitude, at most τ in the corrected
    form.

    epsilon: what Proposition 1.1, corrected, promises the layer at the η of Lemma 2.2, the rounding
    of its kept weights included, `rounding` = ‖B̂ - B‖_F/‖W‖_F; None for a form that it does not
    cover. epsilon_printed: the same by the proposition as printed. worst_ratio: the worst ‖JΔφ(x)‖
    that was seen over what the form's ε allows.

    alpha: exponent of the power law fitted to |w| (density; the paper's α is one less), None where
    none is. xmin: where it begins. kept_model: k as Proposition 1.2 expects it if all weights were
    Pareto from xmin on; kept_fitted: the same with only the fitted tail as Pareto; None where τ <
    xmin, and for forms that keep one sign only.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters_before: int
    stored_as: str
    deviation: float | None
    tau: float | None
    t: float
    t_asked: float | None
    noise_mean: float
    kept: int
    replaced: int
    nonzeros: int
    rounded_away: int
    bits: int
    frobenius: float
    replaced_mean: float
    replaced_largest: float
    rounding: float
    epsilon: float | None
    epsilon_printed: float | None
    worst_ratio: float | None
    alpha: float | None
    xmin: float | None
    kept_model: float | None
    kept_fitted: float | None

    @property
    def weights(self) -> int:
        """Numbers in its weight, the bias left out."""
        return math.prod(self.shape)

    @property
    def is_replaced(self) -> bool:
        return self.tau is not None


@dataclass(frozen=True)
class Trial(Record):
    """The same thresholds with the noise of one seed: errors on the sample, and on held-out
    examples if there are.
    """

    seed: int
    errors: int
    holdout_errors: int | None


@dataclass(frozen=True)
class Accuracy(Record):
    """Accuracy on m examples, before and after: mean and standard deviation over the trials
    (divided by one less than their number; None for one trial). Fractions, not percent.
    """

    m: int
    before: float
    mean: float
    deviation: float | None
    trials: int


@dataclass(frozen=True)
class TriedTail(Record):
    """One threshold with one variance and one grid, of those that were tried; the smallest bound is
    taken.

    kept: Σ k_i of the layers that are replaced. bits: of the message with the first seed; an
    estimate, to a few in a thousand, where it was not `written` because it has more than 32 768
    numbers and another was taken.
    """

    asked: str
    grid: str
    kept: int
    bits: int
    errors: int
    bound: float
    written: bool
    chosen: bool = False


@dataclass(frozen=True)
class NetHeavyTail(Record):
    """One net whose small weights were replaced, layer by layer.

    eta: η = δ/(2d²mh) of Lemma 2.2, for which the layers' ε are given. epsilon: the ε of the scores
    that Lemma 2.2's expression gives, max 6cd·ε_i/(μ_i μ_{i→}), promised or not; None where a
    cushion is unknown. smoothness: ρ_δ, which the lemma wants at 3d at least; None where not
    measured. induction: ‖x̂_i^j - x^j‖/‖x^j‖ beside (i/d)ε, the promise None where the lemma is
    silent. tried: every setting that was tried, for which `price` nats are paid in the paper's
    bounds; the certificate's code covers all messages, so that there the choice is free. errors: of
    the net in the file, that of the first trial. output_error: worst ‖f̂(x) - f(x)‖ over the
    sample.
    """

    method: str
    form: str
    seed: int
    settings: dict[str, Any]
    gamma: float | None
    m: int
    delta: float
    parameters_before: int
    parameters: int
    bits: int
    layers: tuple[LayerReplacement, ...]
    eta: float
    epsilon: float | None
    smoothness: float | None
    induction: tuple[InductionError, ...]
    promises: tuple[PromiseCheck, ...]
    promise: Promise | None
    tried: tuple[TriedTail, ...]
    price: float
    errors_before: int
    errors: int
    trials: tuple[Trial, ...]
    accuracy: Accuracy | None
    holdout_accuracy: Accuracy | None
    output_error: float
    occam: tuple[Occam, ...]
    paper_bounds: tuple[Bound, ...]
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

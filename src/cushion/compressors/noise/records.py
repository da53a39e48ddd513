"""What replacing small weights by noise (Shin 2021) answers beyond every compression; no torch.

Letters are those of the paper: W = A + B, B the weights that stay, τ the threshold, W(t) = √t·G +
B, k the non-zeros of B. Errors are relative: ε of a layer stands for |uᵀ(W - W(t))v| ≤
ε‖W‖_F‖u‖‖v‖. What Propositions 1.1 and 1.2 say of a trained net is a measure: they take weights as
random, and u, v as fixed before them.
"""

from __future__ import annotations

from cushion.compressors.records import InductionError, LayerSummary, Tried, TriedSummary
from cushion.records import Record, column


class LayerReplacement(LayerSummary, kw_only=True):
    """One affine layer; of one that is left as it is, thresholds and what they replace are None or
    0.

    t: the variance of the noise as it is stored (σ² of the draws in Appendix E); t_asked: the same
    in mean squares of what goes. kept_model, kept_fitted: None where there is no law or τ < xmin,
    and for forms that keep one sign only.
    """

    deviation: float | None = column("σ of its weights, in which tau counts", label="σ")
    tau: float | None = column("the threshold itself", label="τ", default=None)
    t: float = column("variance of the noise as it is stored")
    t_asked: float | None = None
    noise_mean: float
    kept: int = column("weights that stay", label="k")
    replaced: int = column("weights that go")
    nonzeros: int = column(
        "stored, without weights that round to zero or that no unit reads", label="stored"
    )
    rounded_away: int
    frobenius: float
    rounding: float  # ‖B̂ - B‖_F/‖W‖_F
    epsilon: float | None = column(
        "what Proposition 1.1, corrected, allows at the η of Lemma 2.2, rounding included; - for a "
        "form that it does not cover",
        label="ε",
    )
    epsilon_printed: float | None = column("the same as printed", label="ε printed")
    worst_ratio: float | None = column(
        "the worst ‖JΔφ(x)‖ over what the form's ε allows", label="seen/allowed", default=None
    )
    replaced_mean: float = column("which noise lacks", label="mean of what goes", default=0.0)
    replaced_largest: float = column(
        "that goes; up to τ if corrected", label="largest", default=0.0
    )
    alpha: float | None = column(
        "exponent of the power law fitted to |w| (the paper's is α - 1)", label="α", default=None
    )
    xmin: float | None = column("where the power law begins", default=None)
    kept_model: float | None = column(
        "k if all weights were Pareto from xmin on", label="k of Prop. 1.2", default=None
    )
    kept_fitted: float | None = column(
        "the same with only the fitted tail as Pareto", label="k of the tail", default=None
    )

    @property
    def is_replaced(self) -> bool:
        return self.tau is not None


class Trial(Record):
    """The same thresholds with the noise of one seed."""

    seed: int = column("")
    errors: int = column("")
    holdout_errors: int | None = column("", label="held-out errors")


class Accuracy(Record):
    """Accuracy on m examples, before and after, over the trials. Fractions, not percent."""

    m: int = column("")
    before: float = column("", unit="error")
    mean: float = column("over the trials", label="after", unit="error")
    deviation: float | None = column(
        "standard deviation over the trials, - for one trial", label="±", unit="error"
    )
    trials: int = column("")


class TriedTail(Tried, kw_only=True):
    """One threshold with one variance and one grid; tau in standard deviations of each layer, t in
    mean squares of what goes. bits are those with the first seed.
    """

    kept: int = column("Σ k of the layers that are replaced", label="weights that stay")

    @property
    def count(self) -> int:
        return self.kept


class ReplacementSummary(TriedSummary, kw_only=True):
    """One net whose small weights were replaced, layer by layer. errors: of the net in the file,
    that of the first trial. induction: beside (i/d)ε, None where the lemma is silent.
    """

    form: str = column("which reading of the paper")
    eta: float = column("η = δ/(2d²mh) of Lemma 2.2, for which the layers' ε are given", label="η")
    epsilon: float | None = column(
        "ε of the scores by Lemma 2.2's expression, max 6cd·ε_i/(μ_i μ_{i→}), promised or not",
        label="ε of the scores",
    )
    smoothness: float | None = column("which the lemma wants at 3d at least", label="ρ_δ")
    induction: tuple[InductionError, ...]
    trials: tuple[Trial, ...] = column("The noise of every seed")
    accuracy: Accuracy | None = column("Accuracy on the training examples")
    holdout_accuracy: Accuracy | None = column("Accuracy on held-out examples")

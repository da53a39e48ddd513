"""What tails are reported in: laws fitted to a layer's weights and to its spectrum; no torch.

Two conventions of α are in use, and they differ by one. `alpha` of a power law is the exponent of
the density, p(x) ∝ x^-alpha for x ≥ xmin, as the packages and Table 1 of Shin 2021 have it.
`tail_index` = alpha - 1 is the exponent of the tail, P(X > x) ∝ x^-tail_index: the α of Shin's
Pareto law α·w_m^α·w^-(α+1), and the one that a stable law's α compares with. All of them are
measures: relative, not a bound.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

from cushion.measures.family import described
from cushion.records import Record, column

Rival: TypeAlias = Literal["log-normal", "exponential", "gaussian"]


class PowerLawFit(Record):
    """A power law p(x) = (alpha - 1)/xmin · (x/xmin)^-alpha on x ≥ xmin, by maximum likelihood
    (Clauset et al. 2009): alpha = 1 + tail/Σ ln(x/xmin) over the values that are at least xmin.

    The search for xmin is exact; it looks at P(X < x) at each value x, as `powerlaw` does.
    """

    alpha: float = column("the density falls as x^-alpha from xmin on")
    alpha_error: float = column("standard error of alpha given xmin, (alpha - 1)/√tail", label="±")
    xmin: float = column("where the tail begins: the value whose tail is nearest to a power law")
    ks_distance: float = column(
        "Kolmogorov-Smirnov distance of tail and law, just below each value", label="KS"
    )
    ks_both_sides: float = column("the same with P(X ≤ x) beside P(X < x): ties do not hide")
    tail: int = column("how many are at least xmin")
    values: int = column("positive numbers that were fitted")
    zeros: int = column("numbers left out")
    distinct: int = column("different values (many ties: the law of a grid, not of a tail)")
    largest: float = column("the largest value")

    @property
    @described(
        "alpha - 1: P(X > x) falls as x^-index; up to 2 the variance is infinite", label="index"
    )
    def tail_index(self) -> float:
        return self.alpha - 1

    @property
    @described("of the non-zero values that are in the tail", unit="error")
    def share(self) -> float:
        return self.tail / self.values

    @property
    @described("the largest value over xmin")
    def reach(self) -> float:
        return self.largest / self.xmin

    @property
    def decades(self) -> float:
        """Over how many powers of ten the tail reaches."""
        return math.log10(self.reach)


class Goodness(Record):
    """Bootstrap test of a power-law fit (Clauset et al. 2009, §4)."""

    p: float = column(
        "of the bootstrap test (`bootstrap`): the share of samples of the fitted law, the body "
        "resampled, whose own fit has at least the KS distance of the data; below 0.1 the tail is "
        "no power law, a large p proves nothing"
    )
    p_error: float = column("√((k+1)(n-k+1)/((n+2)²(n+3))) for k of n draws: near √(p(1-p)/n)")
    draws: int = column("samples of the fitted law")


class LikelihoodRatio(Record):
    """The power law against another on the same tail, both by maximum likelihood (Vuong's test)."""

    rival: Rival = column("the other law")
    ratio: float = column("Σ ln p_power - ln p_rival; positive where the power law is more likely")
    p: float = column("two-sided, of a ratio that far from 0 if both laws were equally far off")
    parameters: dict[str, float] = column("of the rival, by name")

    @property
    def favours(self) -> str:
        """Which law the test takes, or neither, at level 0.1."""
        if self.p >= 0.1:
            return "neither"
        return "power law" if self.ratio > 0 else self.rival


class StableFit(Record):
    """A stable law S(alpha, beta, scale, location), E exp(iuX) = exp(-|cu|^α + iδu) where beta = 0
    (Nolan's S0); fitted to all weights with their signs, so that the body counts as well as the
    tail.
    """

    alpha: float = column(
        "a stable law's sums have its own shape: 2 is the normal law N(δ, 2c²), 1 the Cauchy law; "
        "below 2 the tail index is alpha and the variance infinite"
    )
    beta: float = column("skewness in [-1, 1], held at 0 in the symmetric fit")
    scale: float = column("c > 0 (σ/√2 if normal)", label="c")
    location: float = column("δ, its centre", label="δ")
    symmetric: bool = column("whether beta was held at 0")
    errors: dict[str, float | None] = column("standard errors by name; on an edge there is none")
    log_likelihood: float = column("of the whole sample")
    ks_distance: float = column("of sample and fit, on both sides of each value", label="KS")

    @property
    @described("standard error of alpha", label="±")
    def alpha_error(self) -> float | None:
        return self.errors.get("alpha")

    @property
    @described("standard error of beta", label="±")
    def beta_error(self) -> float | None:
        return self.errors.get("beta")


class HillPlot(Record):
    """Hill's estimate 1/mean ln(x_(i)/x_(k+1)): a power law's tail shows a flat stretch over k."""

    k: tuple[int, ...] = column("largest values used")
    tail_index: tuple[float, ...] = column("the estimate for each k")
    errors: tuple[float, ...] = column("estimate/√k")


class Survival(Record):
    """The empirical P(X ≥ x) of the non-zero numbers, at some values, dense in the tail."""

    x: tuple[float, ...] = column("some of the values")
    share: tuple[float, ...] = column("of all that are at least x")


class TailFits(Record):
    """Everything fitted to one set of numbers."""

    what: Literal["weights", "eigenvalues"] = column("|w| of the layer, or eigenvalues of WWᵀ")
    count: int = column("numbers")
    slices: int = column("of a kernel, whose eigenvalues are pooled; 1: of all of W", default=1)
    power_law: PowerLawFit | None = column("of the tail", default=None)
    no_fit: str = column("why there is no power law", default="")
    goodness: Goodness | None = column("of the power law, on demand", default=None)
    comparisons: tuple[LikelihoodRatio, ...] = column("with other laws on its tail", default=())
    no_comparisons: str = column("why it is not compared", default="")
    stable: StableFit | None = column("a symmetric stable law", label="symmetric", default=None)
    stable_skewed: StableFit | None = column("a skewed one", label="skewed", default=None)
    no_stable: str = column("why there are no stable laws", default="")
    hill: HillPlot | None = column("there where a power law is", default=None)
    survival: Survival | None = column("there where a power law is", default=None)
    doubts: tuple[str, ...] = column("why not to believe the fits, a sentence each", default=())

    @property
    @described(
        "of the laws that beat the power law on its tail, by likelihood ratio at level 0.1, the "
        "one with the largest likelihood (they are not tested against each other); else the power "
        "law, with 'or' beside those of exponential and Gaussian that it does not beat. A "
        "log-normal law imitates any power law, so it is named only where it is better"
    )
    def likeliest(self) -> str:
        if not self.comparisons:
            return "not compared" if self.power_law else ""
        better = [test for test in self.comparisons if test.favours == test.rival]
        if better:
            return min(better, key=lambda test: test.ratio).rival
        light = [test for test in self.comparisons if test.rival != "log-normal"]
        left = [test.rival for test in light if test.favours == "neither"]
        undecided = left and len(left) == len(light)
        return "undecided" if undecided else " or ".join(["power law", *left])


class LayerTails(Record):
    """The tails of one layer."""

    weights: TailFits = column(
        "of the net as it is traced: a batch-norm is folded into the layer before it, where there "
        "is one, and multiplies that layer's rows; biases are left out"
    )
    eigenvalues: TailFits = column(
        "of WWᵀ, W the weight as the matrix [out, rest]; of a kernel that has fewer than 50 so, "
        "those of its slices [out, in], one a place, pooled. They repel each other: standard "
        "errors and p, which take values as independent, are rough"
    )


class TailsOfLayer(Record):
    """What tails add to a layer's row."""

    tail_alpha: float | None = column("exponent of the tail of |w|: p ∝ |w|^-alpha from xmin on")
    tails: LayerTails | None = column("laws of the weights and of their spectrum")

    def flat_columns(self) -> dict[str, Any]:
        """Of a DataFrame, beyond what every record lays flat; what was not fitted is None."""
        if self.tails is None:
            return {}
        found: dict[str, Any] = {}
        for prefix, fits in (("tail", self.tails.weights), ("eigenvalue", self.tails.eigenvalues)):
            for name in ("alpha", "alpha_error", "xmin", "ks_distance"):
                found[f"{prefix}_{name}"] = getattr(fits.power_law, name, None)
            found[f"{prefix}_size"] = getattr(fits.power_law, "tail", None)
            found[f"{prefix}_doubts"] = len(fits.doubts)
            found[f"{prefix}_no_fit"] = fits.no_fit
        stable = self.tails.weights.stable
        names = ("alpha", "scale")
        return found | {f"stable_{name}": getattr(stable, name, None) for name in names}

"""What `cushion measure --only tails` answers: laws fitted to the weights of a layer and to its
spectrum; no torch.

Two conventions of α are in use, and they differ by one. `alpha` of a power law is the exponent of
the density, p(x) ∝ x^-alpha for x ≥ xmin, as the packages and Table 1 of Shin 2021 have it.
`tail_index` = alpha - 1 is the exponent of the tail, P(X > x) ∝ x^-tail_index: the α of Shin's
Pareto law α·w_m^α·w^-(α+1), and the one that a stable law's α compares with. All of them are
measures: relative, not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cushion.records import Record

Rival: TypeAlias = Literal["log-normal", "exponential", "gaussian"]


@dataclass(frozen=True)
class PowerLawFit(Record):
    """A power law p(x) = (alpha - 1)/xmin · (x/xmin)^-alpha on x ≥ xmin, by maximum likelihood
    (Clauset et al. 2009).

    alpha = 1 + tail/Σ ln(x/xmin) over the `tail` values that are at least xmin; alpha_error =
    (alpha - 1)/√tail, its standard error given xmin. xmin is the value of the sample at which
    `ks_distance`, the Kolmogorov-Smirnov distance of tail and fit, is smallest; the search is
    exact. It looks at P(X < x) at each value x, as the package `powerlaw` does; ks_both_sides looks
    at P(X ≤ x) as well: larger by at most the share of the most frequent value.

    values: positive numbers that were fitted; zeros: those left out. distinct: different values
    among them (many ties: the law of a grid, not of a tail). largest: the largest value.
    """

    alpha: float
    alpha_error: float
    xmin: float
    ks_distance: float
    ks_both_sides: float
    tail: int
    values: int
    zeros: int
    distinct: int
    largest: float

    @property
    def tail_index(self) -> float:
        """alpha - 1: the α of P(X > x) ∝ x^-α."""
        return self.alpha - 1

    @property
    def decades(self) -> float:
        """log10(largest/xmin): over how many powers of ten the tail reaches."""
        return math.log10(self.largest / self.xmin)


@dataclass(frozen=True)
class Goodness(Record):
    """Bootstrap test of a power-law fit (Clauset et al. 2009, §4): p is the share of `draws`
    samples of the fitted law, with the body resampled from the data, whose own fit has at least the
    KS distance of the data.

    A small p (below 0.1) says that the data are not that power law; a large one only that nothing
    speaks against it. p_error: standard deviation of the share that is believed after so many
    draws, √((k+1)(n-k+1)/((n+2)²(n+3))) for k of n: near √(p(1-p)/n), and above 0 where all draws
    agree.
    """

    p: float
    p_error: float
    draws: int


@dataclass(frozen=True)
class LikelihoodRatio(Record):
    """The power law against another law on the same tail x ≥ xmin, both by maximum likelihood
    (Vuong's test).

    ratio: Σ ln p_power - ln p_rival; positive where the power law is more likely. p: two-sided
    probability of a ratio that far from zero if both laws were equally far from the truth.
    parameters: of the rival, by name.
    """

    rival: Rival
    ratio: float
    p: float
    parameters: dict[str, float]

    @property
    def favours(self) -> str:
        """Which law the test takes, or neither, at level 0.1."""
        if self.p >= 0.1:
            return "neither"
        return "power law" if self.ratio > 0 else self.rival


@dataclass(frozen=True)
class StableFit(Record):
    """A stable law S(alpha, beta, scale, location), E exp(iuX) = exp(-|cu|^α + iδu) where beta = 0
    (Nolan's S0).

    alpha in (0, 2], 2 is the normal law N(δ, 2c²); beta in [-1, 1] its asymmetry; scale c > 0;
    location δ. `symmetric`: beta was held at 0. errors: standard errors by name, from the
    information at the fit; a parameter on its edge (alpha = 2) has none. log_likelihood: of the
    whole sample; ks_distance: of sample and fit.
    """

    alpha: float
    beta: float
    scale: float
    location: float
    symmetric: bool
    errors: dict[str, float | None]
    log_likelihood: float
    ks_distance: float


@dataclass(frozen=True)
class HillPlot(Record):
    """Hill's estimate of the tail index from the k largest values, 1/mean ln(x_(i)/x_(k+1)), for
    several k.

    errors: estimate/√k. A tail that is a power law shows a flat stretch; without one, no exponent
    is meant.
    """

    k: tuple[int, ...]
    tail_index: tuple[float, ...]
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Survival(Record):
    """The empirical P(X ≥ x) of the numbers that are not zero: the fraction `share` of them is at
    least `x`.

    At some of their values, from the largest down, dense in the tail: what a picture on logarithmic
    axes shows.
    """

    x: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True)
class TailFits(Record):
    """Everything fitted to one set of numbers.

    what: "weights" (|w| of the layer) or "eigenvalues" (of WWᵀ, W the weight as the matrix [out,
    rest]). no_fit: why there is no power law; empty where there is one; no_comparisons: why it is
    not compared with other laws. no_stable: why there are no stable laws, which are fitted to the
    weights with their signs. doubts: why the fits should not be believed, a sentence each; empty if
    nothing that was looked at speaks against them. hill and survival: there where a power law is.
    """

    what: Literal["weights", "eigenvalues"]
    count: int
    power_law: PowerLawFit | None = None
    no_fit: str = ""
    goodness: Goodness | None = None
    comparisons: tuple[LikelihoodRatio, ...] = ()
    no_comparisons: str = ""
    stable: StableFit | None = None
    stable_skewed: StableFit | None = None
    no_stable: str = ""
    hill: HillPlot | None = None
    survival: Survival | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerTails(Record):
    """The tails of one layer: its weights (biases left out) and the eigenvalues of WWᵀ."""

    weights: TailFits
    eigenvalues: TailFits

    def columns(self) -> dict[str, Any]:
        """The fits as flat columns of a table, by name; what was not fitted is None."""
        found: dict[str, Any] = {}
        for prefix, fits in (("tail", self.weights), ("eigenvalue", self.eigenvalues)):
            law = fits.power_law
            for name in ("alpha", "alpha_error", "xmin", "ks_distance"):
                found[f"{prefix}_{name}"] = None if law is None else getattr(law, name)
            found[f"{prefix}_size"] = None if law is None else law.tail
            found[f"{prefix}_doubts"] = len(fits.doubts)
            found[f"{prefix}_no_fit"] = fits.no_fit
        stable = self.weights.stable
        found["stable_alpha"] = None if stable is None else stable.alpha
        found["stable_scale"] = None if stable is None else stable.scale
        return found

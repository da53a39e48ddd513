"""What norms of weights and paths are reported in: frozen records, no torch. Every one is a
measure, not a bound.

A unit is one number of a layer's output (a convolution has one at every position); a row of a
layer's map holds the weights that enter one unit. ℓ_{p,q} is the ℓ_q norm over units of the ℓ_p
norm of the weights that enter each (Neyshabur et al. 2015), so that Bartlett 2017's ‖Aᵀ‖_{2,1} is
`l2_1`: that paper takes norms of columns first.
"""

from __future__ import annotations

from dataclasses import dataclass

from cushion.records import Record


@dataclass(frozen=True)
class PathNorm(Record):
    """The ℓ_p path norm: the ℓ_p norm of the vector with one entry, the product of its weights, for
    every path.

    A path leads from an input to an output through weights, biases left out. A max-pool is a unit
    that every number of its window enters with weight 1, an average pool one that they enter with
    the weight that the average gives them; ReLUs change nothing and parallel branches are different
    paths. Multiplying all that enters a hidden unit (its bias included) by a > 0 and dividing all
    that leaves it by a leaves every number here as it was.

    `value` is infinite (null in JSON) where it exceeds a float, and `log10` finite there too;
    `log10` is None for 0. `with_biases` counts as well the paths that start at a bias, each bias
    being a weight from an input of 1.
    """

    p: float
    value: float
    log10: float | None
    with_biases: float
    log10_with_biases: float | None


@dataclass(frozen=True)
class GroupNorms(Record):
    """ℓ_{p,q} norms and the trace norm of one layer's true map; taps that fall on padding do not
    count.

    `l2_2` is ‖A‖_F of the true map and `l1_inf` its norm from ℓ_∞ to ℓ_∞. `trace_norm` is the sum
    of the singular values: exact (operators.spectrum states to what accuracy), or where the map is
    too large for all of them an estimate from random probes with its standard error; None if it was
    not asked for. `kernel` holds the same norms of the weight as a matrix with one row a filter
    (None in that record itself), whose unit is a filter and not one of its positions; for a dense
    layer the two are equal, for a diagonal one it has one factor a channel.
    """

    l1_inf: float
    l2_inf: float
    l1_1: float
    l1_2: float
    l2_1: float
    l2_2: float
    l3_15: float  # p = 3, q = 1.5
    trace_norm: float | None
    trace_norm_exact: bool | None
    trace_norm_standard_error: float | None  # None where the sum is exact
    kernel: GroupNorms | None


@dataclass(frozen=True)
class DistanceFromInitialisation(Record):
    """Norms of what training changed in one layer: A - A₀ for its true map A, and b - b₀.

    `frobenius` is that of the layer's own parameters (each kernel once); the next four are of the
    true map: its Frobenius norm, its largest singular value (Lanczos, from below), `l2_1` = ‖(A -
    A₀)ᵀ‖_{2,1} as the bound of Bartlett 2017 reads it, and `l1_inf`. `bias` is ‖b - b₀‖₂, a missing
    bias standing for zeros.
    """

    frobenius: float
    operator_frobenius: float
    spectral: float
    l2_1: float
    l1_inf: float
    bias: float

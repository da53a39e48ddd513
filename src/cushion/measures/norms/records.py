"""What norms of weights and paths are reported in: frozen records, no torch, measures.

A unit is one number of a layer's output (a convolution has one at every position); a row of a
layer's map holds the weights that enter one unit. ℓ_{p,q} is the ℓ_q norm over units of the ℓ_p
norm of the weights that enter each (Neyshabur et al. 2015), so that Bartlett 2017's ‖Aᵀ‖_{2,1} is
`l2_1`: that paper takes norms of columns first.
"""

from __future__ import annotations

from cushion.measures.distribution import Spectrum
from cushion.records import Record, column


class PathNorm(Record):
    """The ℓ_p path norm: of the vector with one entry, the product of its weights, for every path.

    A path leads from an input to an output through weights, biases left out. A max-pool is a unit
    that every number of its window enters with weight 1, an average pool one that they enter with
    the weight that the average gives them; ReLUs change nothing and parallel branches are different
    paths. Multiplying all that enters a hidden unit (its bias included) by a > 0 and dividing all
    that leaves it by a leaves every number here as it was.
    """

    p: float = column("the p of ℓ_p")
    value: float = column("infinite (null in JSON) where it exceeds a float", better="low")
    log10: float | None = column(
        "of the products of the weights along all paths from an input to an output; none: it is 0",
        label="path norm",
        unit="log10",
        better="low",
    )
    with_biases: float = column("with the paths that start at a bias, a weight from an input of 1")
    log10_with_biases: float | None = column(
        "with the paths that start at a bias", label="with biases", unit="log10", better="low"
    )


class GroupNorms(Record):
    """ℓ_{p,q} norms and trace norm of a layer's true map; taps on padding do not count."""

    l1_inf: float = column("largest ℓ_1 norm of a unit's incoming weights", label="‖·‖_1,∞")
    l2_inf: float = column("largest ℓ_2 norm of a unit's incoming weights")
    l1_1: float = column("sum of all |weights| of the map")
    l1_2: float = column("ℓ_2 over units of the ℓ_1 norm of their incoming weights")
    l2_1: float = column("sum of the ℓ_2 norms of units' incoming weights", label="‖·‖_2,1")
    l2_2: float = column("‖A‖_F of the true map")
    l3_15: float = column("p = 3, q = 1.5")
    trace_norm: float | None = column("sum of the singular values; none if it was not asked for")
    trace_norm_exact: bool | None = column("whether no random probe entered", label="trace exact")
    trace_norm_standard_error: float | None = column("of the probes; none where the sum is exact")
    kernel: GroupNorms | None = column(
        "the same of the weight with one row a filter; equal for a dense layer"
    )


class DistanceFromInitialisation(Record):
    """Norms of what training changed in one layer: A - A₀ for its true map A, and b - b₀."""

    frobenius: float = column("of the parameters, each kernel once", label="moved ‖·‖_F")
    operator_frobenius: float = column("of the true map")
    spectral: float = column("largest singular value (Lanczos, from below)", label="moved ‖·‖₂")
    l2_1: float = column("‖(A - A₀)ᵀ‖_2,1 as the bound of Bartlett 2017 reads it")
    l1_inf: float = column("largest ℓ_1 norm of a row of A - A₀")
    bias: float = column("‖b - b₀‖₂, a missing bias standing for zeros")


class LayerNorms(Record):
    """Norms of one layer: of its parameters, and of the true linear map that they define."""

    frobenius: float | None = column(
        "of the layer's own parameters (a convolution's kernel)", label="weight ‖·‖_F"
    )
    operator_frobenius: float | None = column(
        "of the true map, with stride, padding, dilation and groups", label="map ‖·‖_F"
    )
    spectral: float | None = column("of the true map, by Lanczos: from below", label="‖·‖₂")
    spectral_upper: float | None = column(
        "above ‖·‖₂ whatever the rounding; far above for sides beyond 2048", label="at most"
    )
    stable_rank: float | None = column("‖·‖_F² / ‖·‖₂² of the true map; undefined for zeros")
    group_norms: GroupNorms | None = column("‖·‖_p,q: ℓ_q over units of the ℓ_p norm of each")
    distance: DistanceFromInitialisation | None = column("what training changed")


class NetNorms(Record):
    """Norms of all parameters together, biases included."""

    l2: float | None = column("of all parameters together", label="‖w‖₂")
    distance: float | None = column("how far training moved them", label="‖w - w₀‖₂")


class NetPaths(Record):
    """The path norms of a net."""

    path_norms: tuple[PathNorm, ...] = column("for p = 1 and 2")


class LayerSpectra(Record):
    """Singular values of one layer."""

    spectrum: Spectrum | None = column("of the true map, padding and stride included", label="map")
    kernel_spectrum: Spectrum | None = column("of the weight as a matrix", label="kernel")

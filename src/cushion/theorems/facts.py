"""What the theorems need to know of a net and its sample: numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cushion.theorems.logs import log


@dataclass(frozen=True)
class LayerFacts:
    """One affine layer x -> A x + b; all norms are those of the true map, a unit is one number of
    its output. ‖A‖_{p,q} is the ℓ_q norm over units of the ℓ_p norm of the incoming weights.
    """

    name: str
    inputs: int
    outputs: int
    parameters: int
    frobenius: float
    spectral: float  # ‖A‖₂, accurate
    spectral_upper: float  # at least ‖A‖₂
    l1_inf: float
    l2_inf: float
    l2_1: float
    bias: float  # ‖b‖₂ over all units
    bias_largest: float  # the largest |b_i|
    lipschitz: float = 1.0  # in ℓ2, of what stands between this layer and the next: ReLU, pooling
    lipschitz_inf: float = 1.0  # the same in ℓ∞
    moved_l2_1: float | None = None  # ‖A - A₀‖_{2,1} from the initialisation, where that is known
    moved_bias: float | None = None  # ‖b - b₀‖₂


@dataclass(frozen=True)
class NetFacts:
    """A net on its sample S."""

    m: int  # examples of S
    delta: float
    classes: int
    errors: int  # on S
    margin: float  # γ
    margin_loss: float  # the fraction of S with margin at most γ
    layers: tuple[LayerFacts, ...]
    input_size: int
    input_energy: float  # √Σ‖x‖²
    input_column: float  # the largest √Σ_i x_ij² of a coordinate j
    # Bounds ‖x‖₂ of every input that can occur: √n for n pixels in [0, 1], else the largest of S,
    # and the theorems then assume that no input is longer.
    radius: float
    is_chain: bool
    not_a_chain_because: str
    plain: bool  # a chain of affine layers and ReLUs, without pooling
    largest_score: float  # max over S of ‖f(x)‖₂
    path_logs: dict[int, float]  # p -> ln of the ℓ_p path norm
    weight_bits: int = 32  # of one weight as it is stored
    # Of what stands before the first layer; `input_energy` and `radius` are those after it.
    first_lipschitz: float = 1.0
    first_lipschitz_inf: float = 1.0

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def has_bias(self) -> bool:
        return any(layer.bias > 0 for layer in self.layers)

    @property
    def error(self) -> float:
        """The training error."""
        return self.errors / self.m

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    def log_step(self, layer: LayerFacts) -> float:
        """ln of the ℓ2 constant of what follows a layer; at least 0 where biases pass by."""
        return log(max(1.0, layer.lipschitz) if self.has_bias else layer.lipschitz)

    def log_product(self, norm: Callable[[LayerFacts], float]) -> float:
        """ln of the product over the layers."""
        return math.fsum(log(norm(layer)) for layer in self.layers)

    def log_lipschitz(
        self, norm: Callable[[LayerFacts], float], *, sup: bool, start: float = 0.0
    ) -> float:
        """start plus ln of the whole net's Lipschitz constant, in ℓ∞ or ℓ2, by this norm."""
        first = self.first_lipschitz_inf if sup else self.first_lipschitz
        steps = [log(one.lipschitz_inf if sup else one.lipschitz) for one in self.layers]
        pairs = zip(self.layers, steps, strict=True)
        return start + log(first) + math.fsum(log(norm(layer)) + step for layer, step in pairs)

    # With biases a net is one without on (x, 1), each layer [[A, b], [0, 1]], the last [A, b].

    def lifted(self, norm: Callable[[LayerFacts, bool, bool], float]) -> list[float]:
        """ln of a norm of every layer so lifted."""
        return [log(norm(one, self.has_bias, one is self.layers[-1])) for one in self.layers]

    @property
    def log_radius(self) -> float:
        """ln of the length of (x, 1)."""
        return log(math.hypot(self.radius, 1.0 if self.has_bias else 0.0))

    @property
    def log_energy(self) -> float:
        """ln of √Σ‖(x, 1)‖²."""
        return log(math.hypot(self.input_energy, math.sqrt(self.m) if self.has_bias else 0.0))


def lifted_spectral(layer: LayerFacts, has_bias: bool, last: bool) -> float:
    """At least the spectral norm of the layer as a linear map on (x, 1): [[A, b], [0, 1]], or [A,
    b] for the last.

    The norm of a block matrix is at most that of the matrix of its blocks' norms.
    """
    if not has_bias:
        return layer.spectral_upper
    a, b = layer.spectral_upper, layer.bias
    if last:
        return math.hypot(a, b)
    total = a * a + b * b + 1.0  # σ² of [[a, b], [0, 1]]: the larger root of t² - total·t + a²
    return math.sqrt((total + math.sqrt(max(0.0, total * total - 4.0 * a * a))) / 2.0)


def lifted_frobenius(layer: LayerFacts, has_bias: bool, last: bool) -> float:
    """The Frobenius norm of the same matrix."""
    if not has_bias:
        return layer.frobenius
    return math.sqrt(layer.frobenius**2 + layer.bias**2 + (0.0 if last else 1.0))


def lifted_l1_inf(layer: LayerFacts, has_bias: bool, last: bool) -> float:
    """At least its largest ℓ1 norm of a row."""
    if not has_bias:
        return layer.l1_inf
    row = layer.l1_inf + layer.bias_largest
    return row if last else max(row, 1.0)

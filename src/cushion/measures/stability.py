"""Noise stability (Arora 2018): the layer cushion, from one pass over the data."""

from __future__ import annotations

from torch import Tensor
from torch.linalg import vector_norm

from cushion.network import Affine


def sample_layer_cushions(affine: Affine, frobenius: float, before: Tensor, after: Tensor) -> Tensor:
    """‖A φ(x^{i-1})‖ / (‖A‖_F ‖φ(x^{i-1})‖) for each example of a batch: [n].

    Definition 4: the layer cushion μ_i is the largest number with μ_i ‖A^i‖_F ‖φ(x^{i-1})‖ ≤ ‖A^i φ(x^{i-1})‖ on
    all of S, the minimum of these ratios. ‖A‖_F is the norm of the parameters (a convolution's kernel, as in
    Section C of the paper). The paper has no biases: A φ(x) is the layer's output without its bias. An example
    whose φ(x^{i-1}) is zero constrains nothing; its ratio comes out as NaN and is left out.
    """
    linear = after if affine.bias is None else after - _spread(affine.bias, after)
    ratios: Tensor = vector_norm(linear.flatten(1), dim=1) / (frobenius * vector_norm(before.flatten(1), dim=1))
    return ratios


def _spread(bias: Tensor, output: Tensor) -> Tensor:
    return bias.reshape(-1, *[1] * (output.ndim - 2))

"""Matrix-Project (Arora 2018, Algorithm 1): a weight as k inner products with matrices of the
helper string, rounded.

With signs the estimator is unbiased and its variance known (`operators.sign_projection`). `helper`
"srht" replaces the independent sign matrices by rows of one randomly signed Hadamard matrix: a
variant, much faster, with the same mean, a smaller variance, and without the paper's tail bound.
The k numbers are rounded to multiples of a power of two.
"""

from __future__ import annotations

import math

import torch

from cushion.compressors.storage.stored import (
    COEFFICIENTS,
    Helper,
    Numbers,
    Projected,
    helper_purpose,
)
from cushion.errors import BadInput
from cushion.nets.operators import Operator


def project(
    original: Operator,
    k: int,
    bits: int,
    seed: int,
    place: int,
    helper: Helper = "signs",
    start: Operator | None = None,
) -> Projected:
    """The weight (less `start`'s) as k numbers of at most `bits` bits each; a convolution's kernel
    as one matrix.
    """
    if k < 1:
        raise BadInput(f"a projection needs at least 1 coefficient, not {k}")
    weight = original.weight.detach().to(torch.float64)
    if start is not None:
        weight = weight - start.weight.detach().to(torch.float64)
    found = COEFFICIENTS[helper](weight, k, seed, helper_purpose(place)).numpy()
    return Projected(Numbers.fitted(found, bits), tuple(weight.shape), helper, place)


def rounding_share(layer: Projected, epsilon: float, frobenius: float) -> float:
    """What rounding the coefficients adds to Lemma 2's ε, in the same event: (s/2)·√(2(1+ε))/‖A‖_F
    for a step s.

    The signs that keep ⟨Â, B⟩ within ε‖A‖‖B‖ keep ‖a ± b‖² of the unit vectors a, b along A and B
    to a relative ε, so Σ_t⟨b, M_t⟩² ≤ 2k(1 + ε) by the parallelogram law. If c_t moves by r_t,
    |r_t| ≤ s/2, then ⟨Â, b⟩ moves by (1/k) Σ r_t ⟨b, M_t⟩ ≤ (s/2)·√(2(1 + ε)), whatever made r.
    """
    return layer.coefficients.step / 2 * math.sqrt(2 * (1 + epsilon)) / frobenius * (1 + 1e-12)

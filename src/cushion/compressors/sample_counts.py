"""f and its compressed g counted on the sample: where f is unsure, where g is too far from it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cushion.compressors.induction import LayerErrors
from cushion.compressors.storage.stored_net import StoredNet
from cushion.theorems.compression import CompressedFacts


def count_on_sample(
    gamma: float, margins: NDArray[np.float64], errors: LayerErrors, stored: StoredNet, delta: float
) -> CompressedFacts:
    """What Theorem 2.1 and Corollary A.1 (Arora 2018) ask for; margins: [m], of f.

    f and g are compared in whichever norm fewer examples fail under. Where g errs although f is
    sure and g close to it, rounding is to blame: the argument failed there too.
    """
    far = errors.largest_gaps > gamma
    far_l2 = errors.gaps > gamma / math.sqrt(2.0)
    l2 = not far_l2.any() or far.sum() >= far_l2.sum()
    unsure = margins <= (gamma if l2 else 2 * gamma)
    failed = (far_l2 if l2 else far) | ((errors.margins <= 0) & ~unsure)
    parts = [part for layer in stored.layers for part in layer.numbers]
    parts += [bias for bias in stored.biases if bias is not None]
    largest = max(int(np.abs(part.integers).max(initial=0)) for part in parts)
    return CompressedFacts(
        m=len(margins),
        delta=delta,
        numbers=sum(part.integers.size for part in parts),
        values=2 * largest + 1,
        gamma=gamma,
        norm="l2" if l2 else "largest",
        below_gamma=int((margins <= gamma).sum()),
        unsure=int(unsure.sum()),
        failed=int(failed.sum()),
        unsure_or_failed=int((failed | unsure).sum()),
        bits=stored.bits,
    )

"""What Lemmas 3 and 14 (Arora 2018) need to know of a net: cushions, contraction, spread,
smoothness on its sample.
"""

from __future__ import annotations

import math

import numpy as np

from cushion.compressors.pairs import overlap
from cushion.data import Dataset
from cushion.measures.stability.effective import LayerTerms, kept_rows
from cushion.measures.stability.measurement import measure_terms
from cushion.measures.stability.noise import Noise
from cushion.measures.stability.one_pass import OnePass
from cushion.measures.stability.options import StabilityOptions
from cushion.measures.stability.smoothness import measure_smoothness
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d
from cushion.theorems.noise_stability import LayerStabilityFacts, StabilityFacts

_DRAWS = 4  # of the noise for ρ: enough to see that it is below 3d, the only question here
_K = 1000


def stability_facts(
    net: Network,
    data: Dataset,
    norms: OnePass,
    *,
    initial: Network | None,
    examples: int,
    zeta: float,
    delta: float,
    seed: int,
    shared: bool,
) -> StabilityFacts | None:
    """The numbers of Lemmas 3 and 14, each with its worst value over the examples that are kept.

    `shared`: a convolution's kernel is compressed once and used at every place (matrix-project), so
    that Lemma 2 loses ⌈κ/s⌉ and Definition 5 holds instead of Definition 8: μ_{i→} is divided by
    √places·⌈κ/s⌉. None unless the net is a chain in which every quantity is defined.
    """
    options = StabilityOptions(examples=examples, seed=seed, draws=_DRAWS, attenuation_draws=0)
    terms, rows = measure_terms(net, data, norms, options, initial)
    if not terms:
        return None
    kept = kept_rows(terms, zeta)
    some = data.select(rows[kept], f"{int(kept.sum())} rows for noise stability, seed={seed}")
    smoothness = None
    if len(terms) > 1:
        noise = Noise("sign-projection" if initial is None else "from-initialisation", 0.1, _K)
        drawn = measure_smoothness(
            net, some, [noise], draws=_DRAWS, seed=seed, batch=64, initial=initial
        )[noise]
        value = drawn.describe_net(noise, 0.0).value if drawn.examples else None
        smoothness = math.inf if value is None and drawn.examples else value
    whole = zeta == 0.0
    return StabilityFacts(
        layers=tuple(
            _layer(term, kept, initial, whole=whole, shared=shared, at=at)
            for at, term in enumerate(terms)
        ),
        contraction=max(_contraction(term, kept, whole) for term in terms),
        m=len(data),
        width=max(node.affine.operator.output_size for node in net.affine_layers),
        smoothness=smoothness,
        delta=delta,
        examples=len(some),
    )


def _contraction(term: LayerTerms, kept: np.ndarray, whole: bool) -> float:
    """c of one layer: over all of S, or over the examples that are kept."""
    some = float(np.fmax.reduce(term.contraction[kept]))
    # NaN: nothing was measured; ∞ counts
    return float(np.fmax(some, term.whole_contraction)) if whole else some


def _layer(
    term: LayerTerms,
    kept: np.ndarray,
    initial: Network | None,
    *,
    whole: bool,
    shared: bool,
    at: int,
) -> LayerStabilityFacts:
    operator = term.node.affine.operator
    places = math.prod(operator.output_shape[1:])
    interlayer = float(np.fmin.reduce(term.minimal[kept]))
    if shared and isinstance(operator, Conv2d):
        interlayer /= math.sqrt(places * overlap(operator))
    moved = (
        operator if initial is None else operator.minus(initial.affine_layers[at].affine.operator)
    )
    return LayerStabilityFacts(
        name=term.node.name,
        weights=operator.parameters,
        frobenius=moved.frobenius(),
        cushion=term.worst_cushion if whole else float(np.fmin.reduce(term.cushion[kept])),
        interlayer=interlayer,
        beta=float(np.fmax.reduce(term.beta[kept])),
        overlap=overlap(operator),
        places=places,
    )

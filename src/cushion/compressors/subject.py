"""The net that is compressed, its sample, and what was measured on them: each once, when needed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.perturbations import overlap
from cushion.data import Dataset
from cushion.errors import BadInput, Unsupported
from cushion.measures.margins import epsilon_margin, margin_loss
from cushion.measures.one_pass import one_pass
from cushion.measures.probing import check_scores, chosen_rows, stream
from cushion.measures.stability.effective import LayerTerms, kept_rows
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.stability.measurement import measure_terms
from cushion.measures.stability.noise import Noise
from cushion.measures.stability.smoothness import measure_smoothness
from cushion.measures.table import measure
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.network import Network
from cushion.nets.operators import Conv2d, ConvNd, Positionwise
from cushion.theorems.facts import NetFacts
from cushion.theorems.net_facts import SampleFacts, gather, look_at
from cushion.theorems.noise_stability import LayerStabilityFacts, StabilityFacts

_DRAWS = 4  # of the noise for ρ: enough to see that it is below 3d, the only question here
_K = 1000


def check_weights(net: Network) -> None:
    """BadInput where a weight is no number, Unsupported for layers that no compressor takes."""
    for node in net.affine_layers:
        if isinstance(node.affine.operator, ConvNd | Positionwise):
            what = (
                "a transposed convolution, one of sequences or volumes, or a layer at each position"
            )
            said = (
                f"layer {node.name} is {what}, and compressors take Linear and Conv2d layers only"
            )
            raise Unsupported(f"{said}; `cushion certify` needs no compressor")
        for part in (node.affine.operator.weight, node.affine.bias):
            if part is not None and not bool(torch.isfinite(part).all()):
                why = "a weight or bias is infinite or not a number; check how it was trained"
                raise BadInput(f"layer {node.name}: {why}")


class Subject:
    """One compression's subject. options: the method's own; where a method asks for cushions they
    say on how many `examples`, and which fraction `zeta` of them may be left out.
    """

    shared_kernels = False  # whether a convolution's kernel is compressed once for all places

    def __init__(
        self,
        net: Network,
        start: Network | None,
        sample: Dataset,
        method: str,
        options: Any,
        delta: float,
        seed: int,
    ) -> None:
        self.net, self.start, self.sample = net, start, sample
        self.method, self.options, self.delta, self.seed = method, options, delta, seed

    @cached_property
    def seen(self) -> SampleFacts:
        return look_at(self.net, self.sample)

    @cached_property
    def net_scores(self) -> NDArray[np.float64]:
        """Of the net as it was, [m, classes]."""
        net, sample = self.net, self.sample

        def work(x: Tensor, rows: slice) -> dict[str, Tensor]:
            found = net.forward(x)
            check_scores(found, sample, rows.start)
            return {"scores": found}

        return stream(net, sample, rows_at_a_time(), work, "scores")["scores"]

    @cached_property
    def gamma(self) -> float | None:
        """As given, or what all but a fraction `level` of S exceeds; None if not positive."""
        if self.options.gamma is not None:
            return float(self.options.gamma)
        found = epsilon_margin(self.seen.margins, self.options.level)
        return found if found > 0 else None

    @cached_property
    def facts(self) -> NetFacts:
        net, sample, level = self.net, self.sample, self.options.level
        table = measure(net, sample, only=["norms", "paths"], spectra=False)
        found = gather(net, sample, self.seen, table, None, delta=self.delta, epsilon=level)
        gamma = found.margin if self.gamma is None else self.gamma
        return replace(found, margin=gamma, margin_loss=margin_loss(self.seen.margins, gamma))

    @cached_property
    def stability(self) -> StabilityFacts | None:
        """The numbers of Lemmas 3 and 14 (Arora 2018), each with its worst value over the examples
        that are kept: without the fraction ζ that the user leaves out.

        None unless the net is a chain in which every quantity is defined.
        """
        net, data, zeta, seed = self.net, self.sample, self.options.zeta, self.seed
        rows = self.options.examples
        asked = StabilityOptions(examples=rows, seed=seed, draws=_DRAWS, attenuation_draws=0)
        norms = one_pass(net, data, rows_at_a_time(), norms=True, margins=False)
        terms, seen = measure_terms(net, data, norms, asked, self.start)  # type: ignore[arg-type]
        if not terms:
            return None
        kept = kept_rows(terms, zeta)
        some = data.select(seen[kept], f"{int(kept.sum())} rows for noise stability, seed={seed}")
        return StabilityFacts(
            layers=tuple(self._layer(at, term, kept) for at, term in enumerate(terms)),
            contraction=max(_contraction(term, kept, zeta == 0.0) for term in terms),
            m=len(data),
            width=max(node.affine.operator.output_size for node in net.affine_layers),
            smoothness=self._smoothness(some) if len(terms) > 1 else None,
            delta=self.delta,
            examples=len(some),
        )

    def _smoothness(self, some: Dataset) -> float | None:
        noise = Noise("sign-projection" if self.start is None else "from-initialisation", 0.1, _K)
        setting = {"draws": _DRAWS, "seed": self.seed, "batch": 64}
        drawn = measure_smoothness(self.net, some, [noise], initial=self.start, **setting)[noise]
        value = drawn.describe(noise, 0.0).value if drawn.examples else None
        return math.inf if value is None and drawn.examples else value

    def _layer(self, at: int, term: LayerTerms, kept: NDArray[Any]) -> LayerStabilityFacts:
        """Where a kernel is compressed once and used at every place (matrix-project), Lemma 2 loses
        ⌈κ/s⌉ and Definition 5 holds instead of Definition 8: μ_{i→} is divided by √places·⌈κ/s⌉.
        """
        operator = term.node.affine.operator
        places = math.prod(operator.output_shape[1:])
        interlayer, cushion = (float(np.fmin.reduce(x[kept])) for x in (term.minimal, term.cushion))
        if self.shared_kernels and isinstance(operator, Conv2d):
            interlayer /= math.sqrt(places * overlap(operator))
        return LayerStabilityFacts(
            name=term.node.name,
            weights=operator.parameters,
            frobenius=self.changed_norm(at),
            cushion=cushion if self.options.zeta else term.worst_cushion,
            interlayer=interlayer,
            beta=float(np.fmax.reduce(term.beta[kept])),
            overlap=overlap(operator),
            places=places,
        )

    def changed_norm(self, at: int) -> float:
        """‖A‖_F of layer `at`, or ‖A - A₀‖_F where only what training changed is compressed."""
        operator = self.net.affine_layers[at].affine.operator
        if self.start is not None:
            operator = operator.minus(self.start.affine_layers[at].affine.operator)
        return operator.frobenius()

    @cached_property
    def eta(self) -> float:
        """The failure probability of one row of one Jacobian: δ/(2d²mh) (Lemma 3)."""
        layers = self.net.affine_layers
        width = max(node.affine.operator.output_size for node in layers)
        return self.delta / (2.0 * len(layers) ** 2 * len(self.sample) * width)

    def some_rows(self, what: str) -> Dataset:
        """As many examples as the options ask for, by the seed."""
        return chosen_rows(self.sample, self.options.examples, self.seed, what)[0]


def _contraction(term: LayerTerms, kept: NDArray[Any], whole: bool) -> float:
    """c of one layer: over all of S (`whole`), or over the examples that are kept."""
    some = float(np.fmax.reduce(term.contraction[kept]))
    # NaN: nothing was measured; ∞ counts
    return float(np.fmax(some, term.whole_contraction)) if whole else some

"""The net that is compressed, its sample, and what was measured on them: each once, when needed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cushion.compressors.stability import stability_facts
from cushion.data import Dataset
from cushion.data.samples import permutation
from cushion.errors import BadInput
from cushion.measures.margins import epsilon_margin, margin_loss
from cushion.measures.one_pass import one_pass
from cushion.measures.table import measure
from cushion.nets.batches import as_floats
from cushion.nets.engine import Accumulators, Samples, map_shards
from cushion.nets.network import Network
from cushion.theorems.facts import NetFacts
from cushion.theorems.net_facts import SampleFacts, gather, look_at
from cushion.theorems.noise_stability import StabilityFacts

_BATCH = 256


def check_weights(net: Network) -> None:
    """BadInput where a weight is no number."""
    for node in net.affine_layers:
        for part in (node.affine.operator.weight, node.affine.bias):
            if part is not None and not bool(torch.isfinite(part).all()):
                raise BadInput(
                    f"{node.name}: a weight or bias is infinite or not a number; check how it was "
                    "trained"
                )


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

        def work(rows: slice) -> Accumulators[str]:
            found = net.forward(as_floats(sample.x[rows]).to(net.dtype))
            if not bool(torch.isfinite(found).all()):
                raise BadInput(
                    f"the net's scores on {sample.name} are not finite near row {rows.start}; "
                    "check its weights"
                )
            return {"scores": Samples.of(rows.start, found.numpy())}

        shards = map_shards(len(sample), _BATCH, work, describe="scores")
        found: NDArray[np.float64] = shards["scores"].values()
        return found

    @cached_property
    def gamma(self) -> float | None:
        """As given, or what all but a fraction `level` of S exceeds; None if not positive."""
        if self.options.gamma is not None:
            return float(self.options.gamma)
        found = epsilon_margin(self.seen.margins, self.options.level)
        return found if found > 0 else None

    @cached_property
    def facts(self) -> NetFacts:
        table = measure(self.net, self.sample, only=["norms", "paths"], spectra=False)
        found = gather(
            self.net,
            self.sample,
            self.seen,
            table,
            None,
            delta=self.delta,
            epsilon=self.options.level,
        )
        gamma = found.margin if self.gamma is None else self.gamma
        return replace(found, margin=gamma, margin_loss=margin_loss(self.seen.margins, gamma))

    @cached_property
    def stability(self) -> StabilityFacts | None:
        """Without the fraction ζ of the examples that the user leaves out."""
        norms = one_pass(self.net, self.sample, 256, norms=True, margins=False)
        return stability_facts(
            self.net,
            self.sample,
            norms,  # type: ignore[arg-type]
            initial=self.start,
            examples=self.options.examples,
            zeta=self.options.zeta,
            delta=self.delta,
            seed=self.seed,
            shared=self.shared_kernels,
        )

    @cached_property
    def eta(self) -> float:
        """The failure probability of one row of one Jacobian: δ/(2d²mh) (Lemma 3)."""
        layers = self.net.affine_layers
        width = max(node.affine.operator.output_size for node in layers)
        return self.delta / (2.0 * len(layers) ** 2 * len(self.sample) * width)

    def some_rows(self, what: str) -> Dataset:
        """As many examples as the options ask for, by the seed."""
        rows = np.sort(permutation(len(self.sample), self.seed)[: self.options.examples])
        return self.sample.select(rows, f"{len(rows)} rows for {what}, seed={self.seed}")

"""How bounds are computed: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import field
from functools import partial

from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.margins import MarginOptions
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.measures.stability.family import StabilityOptions
from cushion.records import Options, option
from cushion.theorems.occam import parse_delta

EXAMPLES = 500  # rows for noise stability and the conditions, by far the dearest parts


class BoundOptions(MarginOptions, Options):
    """delta: the probability that a row fails, for each by itself, as a number or exactly as a
    text. sharpness, conditions and stability: as of `measure`, but on few examples.
    """

    delta: float | str = 0.05
    noisy_draws: int = option(8192, "nets drawn for the PAC-Bayes rows", least=1)
    seed: int = option(0, "of rows, probes and draws", least=0, most=2**63 - 1)
    sharpness: SharpnessOptions = field(default_factory=SharpnessOptions)
    conditions: ConditionOptions = field(
        default_factory=partial(ConditionOptions, examples=EXAMPLES)
    )
    stability: StabilityOptions = field(
        default_factory=partial(StabilityOptions, examples=EXAMPLES, draws=0, attenuation_draws=0)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_delta(str(self.delta))

"""How sharpness is measured: what a user may choose, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cushion.errors import BadInput

_LEAST = 1e-12  # noise far below the rounding of the weights


@dataclass(frozen=True)
class SharpnessOptions:
    """Defaults are quick; `as_published` has the counts of Neyshabur 2017, Appendix A.

    alphas, scale, offset: Gaussian noise of standard deviation alpha·(scale·|w| + offset) in every
    parameter, for each alpha in turn; scale 0 makes it isotropic. draws: perturbations for each
    alpha, in pairs ±ν on a mini-batch of `batch` rows (an odd number is rounded up); 0 leaves
    expected sharpness out. max_alpha: the box |ν| ≤ max_alpha·(|w| + 1) of the largest sharpness;
    ascent_steps, step_size, momentum, batch: of the stochastic gradient ascent in it; 0 steps leave
    it out. seed: of every mini-batch and draw.
    """

    alphas: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    draws: int = 100
    ascent_steps: int = 100
    batch: int = 64
    step_size: float = 0.01
    momentum: float = 0.9
    max_alpha: float = 5e-4
    scale: float = 10.0
    offset: float = 1.0
    seed: int = 0

    @classmethod
    def as_published(cls, seed: int = 0) -> SharpnessOptions:
        """1000 draws and 2000 steps of ascent, as in Appendix A."""
        return cls(draws=1000, ascent_steps=2000, seed=seed)

    def __post_init__(self) -> None:
        for name, count, least in (
            ("sharpness-draws", self.draws, 0),
            ("ascent-steps", self.ascent_steps, 0),
            ("batch", self.batch, 1),
            ("seed", self.seed, 0),
        ):
            if count != int(count) or count < least:
                raise BadInput(f"`{name}` must be a whole number of at least {least}, not {count}")
        for name, size in (("step-size", self.step_size), ("max-alpha", self.max_alpha)):
            if not 0 < size < math.inf:
                raise BadInput(f"`{name}` must be a number above 0, not {size}")
        if not 0 <= self.momentum < 1:
            raise BadInput(f"`momentum` must be at least 0 and below 1, not {self.momentum}")
        for name, part in (("scale", self.scale), ("offset", self.offset)):
            if not 0 <= part < math.inf:
                raise BadInput(f"`{name}` must be a number of at least 0, not {part}")
        if self.scale == 0 and self.offset == 0:
            raise BadInput(
                "`scale` and `offset` are both 0, which is no noise at all; make one of them larger"
            )
        if not self.alphas or not all(_LEAST <= alpha < math.inf for alpha in self.alphas):
            shown = ",".join(f"{alpha:g}" for alpha in self.alphas)
            raise BadInput(
                f"`alphas` must be numbers above 0 (at least {_LEAST:g}), such as 0.001,0.01, not "
                f"{shown or 'nothing'}"
            )
        if len(set(self.alphas)) < len(self.alphas):
            raise BadInput("`alphas` names one number twice; leave one out")

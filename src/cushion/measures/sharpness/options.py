"""How sharpness is measured: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.errors import BadInput
from cushion.records import Options, option

_LEAST = 1e-12  # noise far below the rounding of the weights


@dataclass(frozen=True)
class SharpnessOptions(Options):
    """Defaults are quick; `as_published` has the counts of Neyshabur 2017, Appendix A."""

    alphas: tuple[float, ...] = option(
        (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
        "sizes of the noise alpha(scale|w| + offset) in the weights",
        least=_LEAST,
        shown="A,...",
    )
    draws: int = option(
        100,
        "of that noise for each alpha, in pairs ±ν on a mini-batch; 0: none",
        least=0,
        flag="sharpness-draws",
    )
    ascent_steps: int = option(100, "of ascent to the largest loss; 0: none", least=0)
    batch: int = option(64, "rows of a mini-batch", least=1, flag="sharpness-batch")
    step_size: float = option(0.01, "of the ascent", above=0)
    momentum: float = option(0.9, "of the ascent", least=0, below=1)
    max_alpha: float = option(5e-4, "of the box alpha(|w| + 1) of the ascent", above=0, shown="A")
    scale: float = option(
        10.0, "of the noise; 0 makes it isotropic", least=0, flag="sharpness-scale"
    )
    offset: float = option(1.0, "of the noise", least=0, flag="sharpness-offset")
    seed: int = option(0, "of mini-batches and draws", least=0, most=2**63 - 1)

    @classmethod
    def as_published(cls, seed: int = 0) -> SharpnessOptions:
        """1000 draws and 2000 steps of ascent, as in Appendix A."""
        return cls(draws=1000, ascent_steps=2000, seed=seed)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale == 0 and self.offset == 0:
            raise BadInput(
                "`scale` and `offset` are both 0, which is no noise at all; make one of them larger"
            )
        if len(set(self.alphas)) < len(self.alphas):
            raise BadInput("`alphas` names one number twice; leave one out")

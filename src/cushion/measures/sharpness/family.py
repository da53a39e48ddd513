"""Sharpness (Neyshabur 2017, section 2.4) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cushion.errors import BadInput
from cushion.measures.family import Context, Family, Found, View
from cushion.measures.sharpness.records import SharpnessOfNet
from cushion.records import Options, option

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_LARGEST = (
    "value alpha steps loss_before loss_after error_before error_after ended_below at_the_edge"
)
_ALPHAS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
_LEAST = 1e-12  # noise far below the rounding of the weights
_EXPECTED = (
    "alpha kl sharpness sharpness_standard_error error_sharpness error_sharpness_standard_error"
)


class SharpnessOptions(Options):
    """Defaults are quick; `as_published` has the counts of Neyshabur 2017, Appendix A."""

    alphas: tuple[float, ...] = option(
        _ALPHAS, "sizes of the noise alpha(scale|w| + offset)", least=_LEAST, shown="A,..."
    )
    draws: int = option(
        100,
        "of noise an alpha, in pairs ±ν on some rows; 0: none",
        least=0,
        flag="sharpness-draws",
    )
    ascent_steps: int = option(100, "of ascent to the largest loss; 0: none", least=0)
    batch: int = option(64, "rows of a mini-batch", least=1, flag="sharpness-batch")
    step_size: float = option(0.01, "of the ascent", above=0)
    momentum: float = option(0.9, "of the ascent", least=0, below=1)
    max_alpha: float = option(5e-4, "of the box alpha(|w| + 1) of the ascent", above=0, shown="A")
    scale: float = option(10.0, "of the noise; 0: isotropic", least=0, flag="sharpness-scale")
    offset: float = option(1.0, "of the noise", least=0, flag="sharpness-offset")
    seed: int = option(0, "of mini-batches and draws", least=0, most=2**63 - 1)

    @classmethod
    def as_published(cls, seed: int = 0) -> SharpnessOptions:
        """1000 draws and 2000 steps of ascent, as in Appendix A."""
        return cls(draws=1000, ascent_steps=2000, seed=seed)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale == 0 and self.offset == 0:
            raise BadInput("`scale` and `offset` are both 0, which is no noise; make one larger")
        if len(set(self.alphas)) < len(self.alphas):
            raise BadInput("`alphas` names one number twice; leave one out")


def _measure(context: Context) -> Found:
    from cushion.measures.sharpness.measurement import measure_sharpness

    found = measure_sharpness(context.net, context.data, context.options)
    return Found(net=SharpnessOfNet(found))


def _views(table: MeasureTable) -> Iterator[View]:
    found = table.net.sharpness
    if found.maximum is not None:
        title = "Largest sharpness: the rise of the loss in a small box around the weights"
        yield View(title, [found.maximum], _LARGEST, upright=True)
    if found.expected is not None:
        curve = found.expected
        title = (
            f"Expected sharpness under Gaussian noise of std {curve.rule.replace('alpha*', 'α')} "
            f"in every parameter ({curve.points[0].draws} draws on {curve.points[0].batch} "
            "examples each)"
        )
        note = "little noise: large KL, no sharpness; the lower the sharpness over KL, the better"
        yield View(title, curve.points, _EXPECTED, [note])


FAMILY = Family(
    "sharpness",
    _measure,
    "sharpness (Neyshabur 2017)",
    SharpnessOptions,
    net=SharpnessOfNet,
    effort=4,
    ways=("trace", "hooks"),
    views=_views,
)

"""The nets of Neyshabur 2017 by size, and how each is measured.

At recorded size samples are a tenth of the paper's, and VGG has an eighth of its width and no
dropout; quick is smaller still. Equal plans share one training and one measurement among the
figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cushion.measures.conditions.family import ConditionOptions, Method
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.papers.nets import TrainingPlan
from cushion.papers.pages import Size

EPSILON = (
    0.05  # γ is the margin that all but this fraction of S exceed: the figures' 5th percentile
)
LEVEL = 0.05  # the expected sharpness at which the text compares KL


@dataclass(frozen=True)
class LabelPair:
    """The same net on `size` examples with their true labels, and with random ones."""

    size: int
    true: TrainingPlan
    random: TrainingPlan


@dataclass(frozen=True)
class Sized:
    """A net and its place on the axis: random labels (Figure 3), hidden units (Figure 4)."""

    size: int
    plan: TrainingPlan


def _vgg(size: Size, data: str) -> TrainingPlan:
    if size == "full":
        return TrainingPlan("neyshabur-vgg", data)
    epochs = 300 if size == "quick" else 100
    return TrainingPlan(
        "neyshabur-vgg", data, width=0.125, epochs=epochs, stop_loss=1e-3, dropout=False
    )


def _pairs(size: Size, samples: tuple[int, ...]) -> tuple[LabelPair, ...]:
    return tuple(
        LabelPair(
            n, _vgg(size, f"cifar10,subset={n}"), _vgg(size, f"cifar10,subset={n},random-labels=1")
        )
        for n in samples
    )


def _confused(size: Size, true: int, randoms: tuple[int, ...]) -> tuple[Sized, ...]:
    """Without random labels it is Figure 1's net on the true ones: the rows are the same."""
    return tuple(
        Sized(k, _vgg(size, f"cifar10,confusion={true}+{k}" if k else f"cifar10,subset={true}"))
        for k in randoms
    )


def _perceptrons(hidden: tuple[int, ...], data: str, epochs: int | None) -> tuple[Sized, ...]:
    return tuple(Sized(h, TrainingPlan(f"neyshabur-mlp-{h}", data, epochs=epochs)) for h in hidden)


PAIRS: dict[Size, tuple[LabelPair, ...]] = {
    "quick": _pairs("quick", (100, 200, 400)),
    "recorded": _pairs("recorded", (1000, 2000, 3000, 4000, 5000)),
    "full": _pairs("full", (10000, 20000, 30000, 40000, 50000)),
}
CONFUSED: dict[Size, tuple[Sized, ...]] = {
    "quick": _confused("quick", 100, (0, 12, 25, 37, 50)),
    "recorded": _confused("recorded", 1000, (0, 100, 200, 300, 400, 500)),
    "full": _confused("full", 10000, (0, 1000, 2000, 3000, 4000, 5000)),
}
WIDTHS: dict[Size, tuple[Sized, ...]] = {
    "quick": _perceptrons((8, 32, 128, 512), "mnist,subset=2000", 20),
    "recorded": _perceptrons(tuple(2**k for k in range(3, 11)), "mnist", 20),
    "full": _perceptrons(tuple(2**k for k in range(3, 14)), "mnist", None),
}
DEEP: dict[Size, TrainingPlan] = {
    "quick": TrainingPlan("neyshabur-mlp10", "mnist,subset=2000", width=0.1, epochs=5),
    "recorded": TrainingPlan("neyshabur-mlp10", "mnist", epochs=3),
    "full": TrainingPlan("neyshabur-mlp10", "mnist"),
}
VGG_ALPHAS = (5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 1e-2, 2e-2)
MLP_ALPHAS = (1e-3, 2e-3, 4e-3, 7e-3, 1e-2, 2e-2, 4e-2, 1e-1)
_DRAWS: dict[Size, int] = {"quick": 20, "recorded": 100, "full": 1000}
_STEPS: dict[Size, int] = {"quick": 50, "recorded": 500, "full": 2000}
_EXAMPLES: dict[Size, int] = {"quick": 20, "recorded": 50, "full": 100}


def sharpness_options(size: Size, alphas: tuple[float, ...], seed: int) -> SharpnessOptions:
    """Appendix A's, with fewer draws and steps below full size; the paper prints no α."""
    published = SharpnessOptions.as_published(seed)
    return replace(published, alphas=alphas, draws=_DRAWS[size], ascent_steps=_STEPS[size])


def condition_options(size: Size, seed: int) -> ConditionOptions:
    """So many examples (the paper does not say how many); at full size C1 without probes."""
    method: Method = "exact" if size == "full" else "auto"
    return ConditionOptions(examples=_EXAMPLES[size], method=method, seed=seed)

"""The nets of Neyshabur 2017 by size, and how each is measured.

At recorded size samples are a tenth of the paper's, and VGG has an eighth of its width and no
dropout; quick is smaller still. Equal plans share one training and one measurement among the
figures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from cushion.measures.conditions.family import ConditionOptions, Method
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.papers.nets import TrainingPlan
from cushion.papers.pages import Size

EPSILON = 0.05  # γ is the margin that all but this share of S exceed: the figures' 5th percentile
LEVEL = 0.05  # the expected sharpness at which the text compares KL
# By the number on the figure's axis: random labels (Figure 3), hidden units (Figure 4).
Sized: TypeAlias = dict[int, TrainingPlan]
# By the number of examples: the same net on their true labels, and on random ones.
Pairs: TypeAlias = dict[int, tuple[TrainingPlan, TrainingPlan]]


def _vgg(size: Size, data: str) -> TrainingPlan:
    if size == "full":
        return TrainingPlan("neyshabur-vgg", data)
    epochs = 300 if size == "quick" else 100
    return TrainingPlan("neyshabur-vgg", data, 0.125, epochs, stop_loss=1e-3, dropout=False)


def _pairs(size: Size, *samples: int) -> Pairs:
    data = {n: f"cifar10,subset={n}" for n in samples}
    return {n: (_vgg(size, one), _vgg(size, f"{one},random-labels=1")) for n, one in data.items()}


def _confused(size: Size, true: int, *randoms: int) -> Sized:
    """Without random labels it is Figure 1's net on the true ones: the rows are the same."""
    return {
        k: _vgg(size, f"cifar10,confusion={true}+{k}" if k else f"cifar10,subset={true}")
        for k in randoms
    }


def _perceptrons(data: str, epochs: int | None, *hidden: int) -> Sized:
    return {h: TrainingPlan(f"neyshabur-mlp-{h}", data, epochs=epochs) for h in hidden}


PAIRS: dict[Size, Pairs] = {
    "quick": _pairs("quick", 100, 200, 400),
    "recorded": _pairs("recorded", 1000, 2000, 3000, 4000, 5000),
    "full": _pairs("full", 10000, 20000, 30000, 40000, 50000),
}
CONFUSED: dict[Size, Sized] = {
    "quick": _confused("quick", 100, 0, 12, 25, 37, 50),
    "recorded": _confused("recorded", 1000, 0, 100, 200, 300, 400, 500),
    "full": _confused("full", 10000, 0, 1000, 2000, 3000, 4000, 5000),
}
WIDTHS: dict[Size, Sized] = {
    "quick": _perceptrons("mnist,subset=2000", 20, 8, 32, 128, 512),
    "recorded": _perceptrons("mnist", 20, *(2**k for k in range(3, 11))),
    "full": _perceptrons("mnist", None, *(2**k for k in range(3, 14))),
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
    return ConditionOptions(_EXAMPLES[size], method=method, seed=seed)

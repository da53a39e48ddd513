"""The fleet of Figure 3 and Table 1 of Shin 2021: which nets each size trains, and their training
into OUT/.runs.

The paper takes 43 pretrained nets. Here they are trained: plain SGD with momentum, because the
tails that the paper speaks of are ascribed to it. Nets differ in one thing at a time from the
middle one of their data set: width, depth, seed, or the share of random labels; small
convolutional, residual and dense nets join them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cushion.data import Dataset, load_pair
from cushion.errors import BadInput
from cushion.papers.nets import train_once
from cushion.papers.pages import Size
from cushion.papers.runner import Workshop
from cushion.training.recipes import Recipe, find_recipe
from cushion.training.training import RunResult

_IMAGE = {"digits": "1x8x8", "mnist": "1x28x28", "fashion-mnist": "1x28x28", "cifar10": "3x32x32"}


@dataclass(frozen=True)
class FleetNet:
    """One net of the fleet.

    spec: of the net, or the name of a recipe. noise: the share of the sample whose labels are drawn
    at random. varies: what sets it apart from the middle net of its data set. scale: of the hidden
    widths.
    """

    name: str
    data: str
    spec: str
    epochs: int
    varies: str
    noise: float = 0.0
    seed: int = 0
    scale: float = 1.0

    @property
    def source(self) -> str:
        """Its sample, as --data has it."""
        return self.data if self.noise == 0 else f"{self.data},random-labels={self.noise:g}"

    @property
    def recipe(self) -> Recipe:
        """A recipe of the paper's nets with fewer epochs, or a spec with plain SGD."""
        found = find_recipe(self.spec)
        if found.name != "spec":
            return replace(found, epochs=self.epochs, lr_halve_every=max(1, self.epochs // 4))
        return replace(
            found,
            name=self.name,
            source="Shin 2021, a fleet of our own",
            dataset=self.data,
            optimiser="sgd",
            lr=0.05,
            momentum=0.9,
            epochs=self.epochs,
            lr_halve_every=max(1, self.epochs // 4),
        )


def train_net(workshop: Workshop, plan: FleetNet) -> tuple[RunResult, Dataset, Dataset]:
    """Train it, or finish that, or find it trained; with the sample it saw and the test set."""
    data, test = load_pair(plan.source)
    if test is None:
        raise BadInput(f"{plan.data} has no test set, and the accuracy is counted on one")
    run = train_once(
        workshop, plan.recipe, data, test, width=plan.scale, seed=plan.seed + workshop.seed
    )
    return run, data, test


def _perceptrons(data: str, widths: tuple[int, int, int], epochs: int) -> list[FleetNet]:
    """Around one hidden layer: two other widths, two depths, two seeds, three shares of noise."""
    image, middle = _IMAGE[data], widths[1]

    def one(label: str, hidden: str, varies: str, noise: float = 0.0, seed: int = 0) -> FleetNet:
        return FleetNet(
            f"{data}-{label}", data, f"{image}: flatten {hidden} fc10", epochs, varies, noise, seed
        )

    own = f"fc{middle} relu"
    return [
        *(one(f"fc{width}", f"fc{width} relu", "width") for width in widths),
        *(one(f"fc{middle}x{depth}", f"{depth}*[fc{middle} relu]", "depth") for depth in (2, 4)),
        *(one(f"fc{middle}-seed{seed}", own, "seed", seed=seed) for seed in (1, 2)),
        *(
            one(f"fc{middle}-noise{noise:g}", own, "label noise", noise=noise)
            for noise in (0.25, 0.5, 1.0)
        ),
    ]


def _convolutional(data: str, epochs: int) -> FleetNet:
    inner = "conv16k5p2 relu maxpool2 conv32k5p2 relu maxpool2 flatten fc64 relu"
    return FleetNet(f"{data}-conv", data, f"{_IMAGE[data]}: {inner} fc10", epochs, "kind")


def _fleet(
    epochs: int, conv_epochs: int, residual: int, dense: int, dense_scale: float
) -> tuple[FleetNet, ...]:
    # An epoch of CIFAR-10 takes four times as long.
    sets = {"mnist": epochs, "fashion-mnist": epochs, "cifar10": epochs // 2}
    return (
        *(
            net
            for data, count in sets.items()
            for net in _perceptrons(data, (64, 256, 1024), count)
        ),
        *(_convolutional(data, conv_epochs) for data in sets),
        FleetNet("cifar10-resnet20", "cifar10", "shin-resnet20", residual, "kind"),
        FleetNet(
            "cifar10-densenet40", "cifar10", "shin-densenet", dense, "kind", scale=dense_scale
        ),
    )


FLEET: dict[Size, tuple[FleetNet, ...]] = {
    "quick": tuple(
        net
        for widths in ((16, 32, 64), (96, 128, 192), (256, 384, 512))
        for net in _perceptrons("digits", widths, 20)
    ),
    "recorded": _fleet(40, 12, 3, 2, 0.34),
    "full": _fleet(400, 200, 200, 200, 1.0),
}

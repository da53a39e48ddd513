"""Which nets each size of the items of Arora 2018 trains, and how closely it looks at them.

Two cores cannot train a VGG-19 for 299 epochs on 50 000 augmented images. The smaller sizes keep
net and optimiser, and take narrower layers and fewer images, without augmentation and dropout: γ,
the 5th-percentile margin, is positive only where the net errs on less than 5 % of its sample, and a
short training on everything does not get there.
"""

from __future__ import annotations

from dataclasses import replace

from cushion.measures.stability.family import StabilityOptions
from cushion.papers.nets import TrainingPlan
from cushion.papers.pages import Size
from cushion.records import Record


class Look(Record):
    """How much is measured: rows for all that is dear, probes, draws of noise, repeats of the
    attenuation; sparse: where a net is one of many (snapshots, AlexNets), without noise.
    """

    examples: int
    probes: int
    draws: int
    attenuation_draws: int
    sparse_examples: int
    sparse_probes: int

    def options(self, seed: int) -> StabilityOptions:
        """Everything."""
        draws, repeats = self.draws, self.attenuation_draws
        return StabilityOptions(
            self.examples, self.probes, draws=draws, attenuation_draws=repeats, seed=seed
        )

    def sparse(self, seed: int) -> StabilityOptions:
        """Cushions, contraction and β alone."""
        return StabilityOptions(
            self.sparse_examples, self.sparse_probes, draws=0, attenuation_draws=0, seed=seed
        )


LOOKS: dict[Size, Look] = {
    "quick": Look(20, 4, 8, 2, 20, 4),
    "recorded": Look(200, 16, 20, 4, 50, 8),
    "full": Look(1000, 16, 100, 4, 200, 16),
}


def _small(
    recipe: str, rows: int, width: float, epochs: int, halve: int, *snapshots: int
) -> TrainingPlan:
    numbers = (f"cifar10,subset={rows}", width, epochs, halve)
    return TrainingPlan(recipe, *numbers, dropout=False, augment=False, snapshots=snapshots)


def _both(plan: TrainingPlan) -> tuple[TrainingPlan, TrainingPlan]:
    """On labels as they are, and on shuffled ones."""
    return plan, replace(plan, recipe=f"{plan.recipe}-shuffled")


VGG19: dict[Size, TrainingPlan] = {
    "quick": _small("arora-vgg19", 1000, 0.0625, 60, 15, 10, 20, 30, 40, 60),
    "recorded": _small(
        "arora-vgg19", 10000, 0.125, 100, 20, 1, 2, 5, 10, 15, 20, 30, 40, 60, 80, 100
    ),
    "full": TrainingPlan(
        "arora-vgg19", "cifar10", snapshots=(1, 10, 30, 60, 90, 120, 150, 180, 210, 240, 270, 299)
    ),
}
ALEXNETS: dict[Size, tuple[TrainingPlan, TrainingPlan]] = {
    "quick": _both(_small("arora-alexnet", 500, 0.125, 40, 10)),
    "recorded": _both(_small("arora-alexnet", 2000, 0.5, 150, 50)),
    "full": _both(TrainingPlan("arora-alexnet", "cifar10")),
}

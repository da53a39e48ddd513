"""What the pages of Arora 2018 and of the note say of the nets that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cushion.papers.arora.paper import VGG19_TEST_ERROR
from cushion.papers.arora.plans import ALEXNETS, LOOKS, VGG19
from cushion.papers.nets import TrainingPlan
from cushion.papers.pages import Table
from cushion.papers.runner import Workshop

LAYERS_NOTE = (
    "Layers are counted from 1 and are the affine ones; every number is a measure: relative, not a "
    "bound."
)
SCALED_NOTE = (
    "The random net is the initialisation, each layer scaled to the trained layer's Frobenius "
    "norm, as the paper "
    'compares with "a Gaussian random network and then scaled properly".'
)


def net_name(workshop: Workshop) -> str:
    """The VGG-19 of this size, for titles: a narrow net on some images is not the paper's."""
    plan = VGG19[workshop.size]
    return "VGG-19" if plan.width == 1 else f"VGG-19 at {plan.width:g} of its width, {plan.data}"


def vgg19_settings(workshop: Workshop, *, sparse: bool = False) -> dict[str, Any]:
    """The VGG-19, and on how many examples its layers were seen."""
    look = LOOKS[workshop.size]
    seen = (look.sparse_examples, look.sparse_probes) if sparse else (look.examples, look.probes)
    found = {"net": VGG19[workshop.size].recipe, "changed": VGG19[workshop.size].changes()}
    dear = {"examples of interlayer quantities": seen[0], "probes": seen[1]}
    return found | dear | ({} if sparse else {"draws of noise": look.draws})


def alexnet_settings(workshop: Workshop) -> dict[str, Any]:
    """The two AlexNets."""
    plans: tuple[TrainingPlan, ...] = ALEXNETS[workshop.size]
    look = LOOKS[workshop.size]
    return {
        "nets": " and ".join(plan.recipe for plan in plans),
        "changed": plans[0].changes(),
        "examples of interlayer quantities": look.sparse_examples,
    }


def trained_table(nets: Mapping[str, Mapping[str, Any]], papers: Mapping[str, float]) -> Table:
    """How well the nets learned, beside the paper's, whose training errors are all 0."""
    return Table.of(
        "The nets:",
        [{"name": name, "paper": papers[name], **net} for name, net in nets.items()],
        {
            "net": "name",
            "examples": "m",
            "epochs": "epochs",
            "training error": lambda net: net["errors"] / net["m"],
            "test error": lambda net: net["test_errors"] / net["test_m"],
            "test error, paper": "paper",
        },
    )


def vgg19_table(found: Mapping[str, Any]) -> Table:
    """How well the VGG-19 learned."""
    return trained_table({"VGG-19": found}, {"VGG-19": VGG19_TEST_ERROR})

"""Tiny stand-ins for the nets of Arora 2018: as many layers as its tables name, on digits, trained
for two epochs.
"""

from __future__ import annotations

import pytest

from cushion.papers.arora import plans
from cushion.papers.nets import TrainingPlan

DEEP = "1x8x8: 2*[conv4k3p1 relu] flatten 16*[fc12 relu] fc10"
SHALLOW = "1x8x8: 2*[conv4k3p1 relu] flatten 3*[fc12 relu] fc10"
VGG19 = TrainingPlan(DEEP, "digits,subset=150", epochs=2, snapshots=(1, 2))
ALEXNETS = (
    TrainingPlan(SHALLOW, "digits,subset=150", epochs=2),
    TrainingPlan(SHALLOW, "digits,subset=150,shuffle-labels", epochs=2),
)
LOOK = plans.Look(
    examples=10, probes=2, draws=4, attenuation_draws=2, sparse_examples=10, sparse_probes=2
)


def tiny_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the quick size is tiny."""
    monkeypatch.setitem(plans.VGG19, "quick", VGG19)
    monkeypatch.setitem(plans.ALEXNETS, "quick", ALEXNETS)
    monkeypatch.setitem(plans.LOOKS, "quick", LOOK)

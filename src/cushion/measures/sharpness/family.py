"""Sharpness (Neyshabur 2017, section 2.4) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cushion.measures.family import Context, Family, Found, View
from cushion.measures.sharpness.options import SharpnessOptions
from cushion.measures.sharpness.records import SharpnessOfNet

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_LARGEST = (
    "value alpha steps loss_before loss_after error_before error_after ended_below at_the_edge"
)
_EXPECTED = (
    "alpha kl sharpness sharpness_standard_error error_sharpness error_sharpness_standard_error"
)


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
        note = (
            "little noise: large KL, no sharpness; the lower the curve of sharpness over KL, the "
            "better"
        )
        yield View(title, curve.points, _EXPECTED, [note])


FAMILY = Family(
    name="sharpness",
    effort=4,
    title="sharpness (Neyshabur 2017)",
    options=SharpnessOptions,
    net=SharpnessOfNet,
    measure=_measure,
    views=_views,
)

"""The conditions of Theorem 1 (Neyshabur 2017) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cushion.measures.conditions.options import ConditionOptions
from cushion.measures.conditions.records import ConditionsOfNet
from cushion.measures.family import Context, Family, Found, View

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

_COLUMNS = (
    "interaction.text.inverse.median interaction.text.inverse interaction.figure6.inverse.median "
    "interaction.figure6.inverse c2_for_all c2_median c2 c3 theorem_printed theorem_corrected"
)


def _measure(context: Context) -> Found:
    from cushion.measures.conditions.measurement import measure_conditions

    # They depend on scale, so that a net scaled to match another is taken as it was.
    net = context.unscaled or context.net
    return Found(net=ConditionsOfNet(measure_conditions(net, context.data, context.options)))


def _views(table: MeasureTable) -> Iterator[View]:
    mine = table.net.conditions
    title = "Conditions of Theorem 1 (Neyshabur 2017)"
    if mine.not_measured_because:
        yield View(f"{title}: not measured: {mine.not_measured_because}", [], "")
        return
    other = None if table.beside is None else table.beside.net.conditions
    beside = [] if other is None or other.not_measured_because else [other]
    exact = mine.interaction is not None and mine.interaction.exact
    how = "exactly" if exact else f"with {mine.probes} probes a layer"
    notes = [
        "1/μ: how weakly layers interact, 1 = as strongly as random ones; the paper reports at "
        "most 4"
    ]
    title = f"{title}, on {mine.examples} examples, C1 {how}"
    yield View(title, [mine], _COLUMNS, notes, beside, upright=True)


FAMILY = Family(
    name="conditions",
    effort=5,
    title="conditions of Theorem 1 (Neyshabur 2017)",
    options=ConditionOptions,
    net=ConditionsOfNet,
    measure=_measure,
    views=_views,
)

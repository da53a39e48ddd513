"""The conditions of Theorem 1 (Neyshabur 2017) as a family of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from cushion.measures.conditions.records import ConditionsOfNet
from cushion.measures.family import Context, Family, Found, View
from cushion.records import Options, option

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

Method: TypeAlias = Literal["auto", "exact", "probes"]

_COLUMNS = (
    "interaction.text.inverse.median interaction.text.inverse interaction.figure6.inverse.median "
    "interaction.figure6.inverse c2_for_all c2_median c2 c3 theorem_printed theorem_corrected"
)


class ConditionOptions(Options):
    """Every field is a flag of `cushion measure`; those of noise stability are shared with it."""

    examples: int | None = option(
        None, "rows to measure on (default: some minutes' worth)", least=1
    )
    probes: int = option(16, "random probes a layer where all unit vectors cost more", least=1)
    method: Method = option("auto", "of condition C1: exact never probes, probes always does")
    seed: int = option(0, "of rows and probes", least=0, most=2**63 - 1)
    delta: float = option(
        0.05,
        "of Theorem 1, split evenly over the layers",
        above=0,
        below=1,
        flag="condition-delta",
    )

    @classmethod
    def as_published(cls) -> ConditionOptions:
        """C1 without probes."""
        return cls(method="exact")


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
    note = "1/μ: how weakly layers interact, 1 = as strongly as random ones; in the paper at most 4"
    title = f"{title}, on {mine.examples} examples, C1 {how}"
    yield View(title, [mine], _COLUMNS, [note], beside, upright=True)


FAMILY = Family(
    "conditions",
    _measure,
    "conditions of Theorem 1 (Neyshabur 2017)",
    ConditionOptions,
    net=ConditionsOfNet,
    premises=("rectifies",),
    effort=5,
    views=_views,
)

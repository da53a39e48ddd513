"""A family of measures is one file: composed into the table, shown without more being said."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from torch import nn

import cushion
from cushion.cli.render import show
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.measures import table as module
from cushion.measures.families import FAMILIES
from cushion.measures.family import (
    Context,
    Family,
    Found,
    View,
    column_of,
    composed,
    described,
)
from cushion.measures.records import LayerMeasures, NetMeasures
from cushion.records import Distribution, Options, Record, column, columns_of, option
from cushion.theorems.records import Bound, BoundsTable, Preference


def sample() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset("noise", rng.random((8, 4), dtype=np.float32), rng.integers(0, 3, 8), 3)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def nested(record: Any, seen: set[type]) -> set[type]:
    """The record, and every record in its fields."""
    for hint in get_args(record):
        nested(hint, seen)
    if isinstance(record, type) and issubclass(record, Record) and record not in seen:
        seen.add(record)
        for hint in get_type_hints(record).values():
            nested(hint, seen)
    return seen


@pytest.mark.parametrize("record", [LayerMeasures, NetMeasures, Bound, Preference, BoundsTable])
def test_every_field_says_what_it_is(record: type) -> None:
    for part in nested(record, set()):
        if part is not Distribution:
            assert [one.name for one in columns_of(part)] == [
                one.name for one in dataclasses.fields(part)
            ]


def test_families_add_their_columns_in_their_order_and_never_twice() -> None:
    for row, kinds in (
        (LayerMeasures, [family.layer for family in FAMILIES]),
        (NetMeasures, [family.net for family in FAMILIES]),
    ):
        added = [one.name for kind in kinds if kind for one in dataclasses.fields(kind)]
        names = [one.name for one in dataclasses.fields(row)]
        assert names[len(names) - len(added) :] == added
        assert len(set(names)) == len(names)
        defaults = [one.default for one in dataclasses.fields(row)[len(names) - len(added) :]]
        assert all(default in (None, ()) for default in defaults)


class Largest(Record):
    largest: float | None = column("the largest |w|", default=None)

    @property
    @described("twice that", label="double", unit="error")
    def twice(self) -> float | None:
        return None if self.largest is None else 2 * self.largest


class Near(Options):
    near: float = option(1.0, "factor", above=0)


def measure_largest(context: Context) -> Found:
    return Found(
        {
            node.index: Largest(context.options.near * float(node.affine.operator.weight.max()))
            for node in context.net.affine_layers
        }
    )


def test_a_new_family_is_measured_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    @composed([Largest])
    class Row(Record):
        name: str = column("its name", label="layer")

    family = Family("largest", measure_largest, options=Near, layer=Largest)
    monkeypatch.setattr(module, "FAMILIES", (*FAMILIES, family))
    monkeypatch.setattr(module, "LayerMeasures", lambda name, **_: Row(name))
    found = module.measure(net(), sample(), only="largest", largest=Near(2.0))
    rows = found.layers
    assert [dataclasses.asdict(row).keys() for row in rows] == [{"name", "largest"}] * 2
    assert family.measured(found)
    text = show(family.shown(found))
    assert text.splitlines()[:2] == ["largest", "layer  largest"]
    assert "largest: the largest |w|" in text


def test_options_belong_to_a_family_of_that_name() -> None:
    with pytest.raises(BadInput, match=r"`tails` must be TailOptions\(...\), not Near"):
        cushion.measure(net(), sample(), only="tails", tails=Near())
    with pytest.raises(TypeError, match="unexpected keyword argument 'spectrum'"):
        cushion.measure(net(), sample(), spectrum=Near())
    found = cushion.measure(net(), sample(), only="margins", tails=None)
    assert [family.name for family in FAMILIES if family.measured(found)] == ["margins"]


def test_described_properties_are_columns() -> None:
    said = column_of(Largest, "twice")
    assert said is not None
    assert (said.name, said.label, said.unit) == ("twice", "double", "error")
    assert column_of(Largest, "largest") == columns_of(Largest)[0]
    assert column_of(Largest, "to_json") is None


class Holder(Record):
    name: str = column("its name", label="layer")
    first: Largest | None = column("one", label="one", default=None)
    second: Largest | None = column("another", label="other", default=None)
    many: tuple[Largest, ...] = column("several", default=())
    spread: Distribution | None = column("spread out", default=None)


def spread(value: float, median: float) -> Distribution:
    return Distribution(value, "max", 1, 0.0, 0.0, {"0.5": median}, (0.0, 1.0), (1,))


def test_views_walk_into_records_and_leave_empty_columns_out() -> None:
    rows = [
        Holder("a", Largest(1.0), Largest(2.0), (Largest(5.0),), spread(9.0, 8.0)),
        Holder("b", None, Largest(3.0)),
    ]
    columns = "name first.largest second.largest many.0.twice spread spread.median"
    text = show([View("title", rows, columns, ["a note"])])
    lines = text.splitlines()
    assert lines[0] == "title"
    header = "layer one: largest other: largest double spread spread: median"
    assert lines[1].split() == header.split()
    assert lines[2].split() == ["a", "1", "2", "1000.00", "%", "9", "8"]
    assert lines[3].split() == ["b", "-", "3", "-", "-", "-"]
    assert text.count("the largest |w|") == 1
    assert text.endswith("a note")
    assert "one" not in show([View("", rows[1:], "name first.largest second.largest")])


def test_the_net_beside_stands_column_by_column() -> None:
    mine, theirs = [Holder("a", Largest(1.0))], [Holder("a", Largest(4.0))]
    view = View("title", mine, "name first.largest", beside=theirs)
    assert show([view]).splitlines()[1:3] == ["layer  largest  beside", "a      1        4"]
    upright = View("title", mine, "first.largest", beside=theirs, upright=True)
    assert [line.split() for line in show([upright]).splitlines()[1:3]] == [
        ["this", "net", "beside", "it"],
        ["largest", "1", "4"],
    ]

"""What a family of measures is: its options, the columns that it adds to the table, how it measures
and what people are shown. A family is one folder (or file) and one line in `families`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from cushion.records import Column, Options, Record, column, columns_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cushion.measures.records import MeasureTable
    from cushion.nets.network import Network, Premise
    from cushion.nets.view import Way

Weights: TypeAlias = Literal["trained", "initial", "random"]  # whose weights a table is about
Composed = TypeVar("Composed")
Getter = TypeVar("Getter", bound=Callable[..., Any])


class PaperClaim(Record):
    """One qualitative claim of a paper, held against the net that was measured."""

    held: bool = column("whether the net does what the claim says")
    claim: str = column("what the paper says of trained nets")
    found: str = column("what was found on this net")
    threshold: str = column("the number put in the place of the paper's words")


@dataclass(frozen=True, eq=False)
class Context:
    """What a family measures: one net on its sample, and the options of that family."""

    net: Any  # as the family sees it: a Network, or where its `ways` allow, a view by hooks
    data: Any  # its Dataset; None only for families that need none
    options: Any  # of the family's own class
    initial: Network | None = None  # the net before training, where it is known
    weights: Weights = "trained"
    unscaled: Network | None = None  # the net before it was scaled to match another
    singular_values: bool = True  # whether those may be computed: by far the dearest norms
    seed: int = 0  # of the probes for singular values
    # One number an example, from the one pass that all families share: margins under "margins",
    # and the three norms of each affine layer under (index, stage).
    passed: Mapping[object, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Found:
    """What a family adds: a layer record under each node's index, and a net record."""

    layers: Mapping[int, Record] = field(default_factory=dict)
    net: Record | None = None


@dataclass(frozen=True, eq=False)
class View:
    """A table for people: described fields of some records, one record a row, then sentences.

    columns: names of fields with spaces between them; a dot leads into a record inside a record,
    "median" to the median of a distribution. beside: the same rows of another net, column by
    column. upright: the fields stand below each other, for few records with many fields.
    """

    title: str
    rows: Sequence[Record]
    columns: str
    notes: Sequence[str] = ()
    beside: Sequence[Record] = ()
    upright: bool = False


@dataclass(frozen=True, eq=False)
class Family:
    """A family of measures: what it computes, and what of it is asked, kept and shown.

    layer and net: records of what it adds to each layer's row and to the whole net; all of it is
    None or () where it was not measured. ways: how it can see a net (`nets.view`). premises: what
    its definitions or theorems ask of every operation of a traced net. sees: what it
    needs of the one pass over the data. brings: families that come with it. at_rest: whether it
    needs no data. effort: about how long it takes beside the others. title: of its options on the
    command line. claims: what a paper says of trained nets, on a net and the one beside it.
    """

    name: str
    measure: Callable[[Context], Found]
    title: str = ""
    options: type[Options] | None = None
    layer: type[Record] | None = None
    net: type[Record] | None = None
    ways: tuple[Way, ...] = ("trace",)
    premises: tuple[Premise, ...] = ()
    sees: frozenset[Literal["norms", "margins"]] = frozenset()
    brings: tuple[str, ...] = ()
    at_rest: bool = False
    effort: float = 1.0
    views: Callable[[MeasureTable], Iterable[View]] | None = None
    claims: Callable[[MeasureTable, MeasureTable], tuple[PaperClaim, ...]] | None = None

    def measured(self, table: MeasureTable) -> bool:
        """Whether the table holds any of its columns."""
        rows = [*((_names(self.layer), row) for row in table.layers), (_names(self.net), table.net)]
        return any(getattr(row, name) not in (None, ()) for names, row in rows for name in names)

    def shown(self, table: MeasureTable) -> Iterable[View]:
        """Its views; all of its described columns where it has none of its own."""
        if self.views is not None:
            return self.views(table)
        title = self.title or self.name
        views = []
        if self.layer is not None:
            views.append(View(title, table.layers, f"name {' '.join(_names(self.layer))}"))
        if self.net is not None:
            views.append(View(title, [table.net], " ".join(_names(self.net)), upright=True))
        return views


def _names(record: type[Record] | None) -> list[str]:
    return [] if record is None else [column.name for column in columns_of(record)]


def composed(
    records: Iterable[type[Record] | None],
) -> Callable[[type[Composed]], type[Composed]]:
    """A class decorator: the record, then the columns of all these, None or () until given."""

    def build(cls: type[Composed]) -> type[Composed]:
        parts = [record for record in records if record is not None]
        types: dict[str, Any] = {}
        namespace: dict[str, Any] = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        for part in parts:
            types |= (own := typing.get_type_hints(part))
            for one in fields(part):
                empty = () if typing.get_origin(own[one.name]) is tuple else None
                namespace[one.name] = field(default=empty, metadata=one.metadata)
        namespace["__annotations__"] = types
        made: Any = type(cls.__name__, (*reversed(parts), cls), namespace)
        return made  # type: ignore[no-any-return]

    return build


def described(meaning: str, *, label: str = "", **said: Any) -> Callable[[Getter], Getter]:
    """Below @property: a column computed from fields; what is said as of `column`."""

    def describe(getter: Getter) -> Getter:
        name = getter.__name__
        getter.column = Column(name, label or name.replace("_", " "), meaning, **said)  # type: ignore[attr-defined]
        return getter

    return describe


def column_of(record: type, name: str) -> Column | None:
    """What a described field or property of a record is; None where it is neither."""
    own = getattr(record, name, None)
    if isinstance(own, property):
        found: Column | None = getattr(own.fget, "column", None)
        return found
    return next((column for column in columns_of(record) if column.name == name), None)

"""What every front door hands over, and telling objects of other libraries by their class alone:
nothing is imported that the caller has not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cushion.errors import BadInput

# Names that a column of labels goes by, in the order in which they are tried.
LABEL_NAMES = ("label", "labels", "y", "target", "class")
_MOST = 12  # columns that a sentence names


class Examples(NamedTuple):
    """Inputs (arrays or a dict of them) and labels as they were found; what to say about it;
    columns: the names of the inputs' columns, where they come from a table.
    """

    x: Any
    y: Any
    name: str = "data"
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def is_a(data: object, library: str, kind: str) -> bool:
    """Whether some class of the object is `kind` of this library (its module's first names)."""
    return any(
        one.__name__ == kind and (one.__module__ + ".").startswith(library + ".")
        for one in type(data).__mro__
    )


def label_column(columns: Iterable[Any], asked: str | None, what: str) -> Any:
    """The column that holds the labels: the one asked for, or the first with a usual name."""
    known = list(columns)
    shown = known if len(known) <= _MOST else [*known[: _MOST - 2], "...", known[-1]]
    listed = ", ".join(map(str, shown)) or "none"
    if asked is not None:
        if asked not in known:
            raise BadInput(f"`label_column` = {asked} is not a column of {what}: it has {listed}")
        return asked
    found = [name for name in LABEL_NAMES if name in known]
    if len(found) != 1:
        several = f"several columns that may be labels ({', '.join(found)})"
        none = f"no column called {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]} ({listed})"
        guess = (found or known or ["label"])[-1]
        how = f"say which one it is: cushion.as_dataset(data, label_column={guess!r})"
        raise BadInput(f"{what} has {several if found else none}; {how}")
    return found[0]


def split_labels(item: Mapping[Any, Any], asked: str | None, what: str) -> tuple[Any, Any]:
    """Inputs and labels of a dict that holds both; a single input is no dict any more."""
    key = label_column(item, asked, what)
    inputs = {name: value for name, value in item.items() if name != key}
    if not inputs:
        raise BadInput(f"{what} has no inputs beside {key}; give them too")
    return (next(iter(inputs.values())) if len(inputs) == 1 else inputs), item[key]

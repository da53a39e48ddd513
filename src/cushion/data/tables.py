"""Tables with labels: pandas' DataFrame, Hugging Face's Dataset, scikit-learn's Bunch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.kinds import Examples, is_a, label_column, split_labels
from cushion.data.loaders import from_dataset
from cushion.data.streaming import room_for
from cushion.errors import BadInput

_READ = 1024  # rows that are converted together


def from_bunch(data: Any) -> Examples:
    """`data` and `target` of what scikit-learn's load_... and fetch_... return."""
    if "data" not in data or "target" not in data:
        listed = ", ".join(map(str, data))
        raise BadInput(f"this Bunch has {listed}, but not both data and target; give (x, y)")
    return from_pair(data["data"], data["target"])


def from_pair(x: Any, y: Any) -> Examples:
    """Inputs and labels, each a table or column of pandas or anything else.

    BadInput where both have row indexes that do not say the same rows.
    """
    rows = [part.index for part in (x, y) if _has_index(part)]
    if len(rows) == 2 and not rows[0].equals(rows[1]):
        numbered = any(index.tolist() == list(range(len(index))) for index in rows)
        if not numbered or set(rows[0]) == set(rows[1]):
            how = "give y.loc[x.index], or both after .reset_index(drop=True)"
            raise BadInput(f"x and y have different row indexes; {how}")
    return Examples(inputs_of(x), labels_of(y), columns=_columns_of(x))


def _has_index(part: Any) -> bool:
    return is_a(part, "pandas", "DataFrame") or is_a(part, "pandas", "Series")


def _columns_of(x: Any) -> tuple[str, ...]:
    return tuple(map(str, x.columns)) if is_a(x, "pandas", "DataFrame") else ()


def from_frame(data: Any, asked: str | None) -> Examples:
    """The label column, and all others as the inputs."""
    column = label_column(data.columns, asked, "this DataFrame")
    return from_pair(data.drop(columns=[column]), data[column])


def inputs_of(x: Any) -> Any:
    """A DataFrame's columns as a matrix: bytes if all are, floats otherwise; others as they are."""
    if not is_a(x, "pandas", "DataFrame"):
        return x
    kinds = {str(name): str(kind) for name, kind in x.dtypes.items()}
    if x.shape[1] and set(kinds.values()) == {"uint8"}:
        return x.to_numpy()
    try:
        if any(kind.lower().startswith(_NO_NUMBERS) for kind in kinds.values()):
            raise TypeError
        return x.to_numpy(np.float32 if _fits(kinds) else np.float64)
    except (TypeError, ValueError):
        odd = [name for name, kind in kinds.items() if not kind.lower().startswith(_NUMBERS)]
        listed = ", ".join(odd or kinds)
        how = "drop them or make numbers of them (pandas.get_dummies, .astype, .dropna)"
        raise BadInput(f"this DataFrame's columns {listed} hold no numbers; {how}") from None


_NUMBERS = ("int", "uint", "float", "bool")
# dates, times and complex numbers, of which pandas makes floats without a word
_NO_NUMBERS = ("date", "time", "duration", "period", "complex")


def _fits(kinds: dict[str, str]) -> bool:
    """Whether float32 holds all such values."""
    return set(kinds.values()) <= {"float32", "float16", "uint8", "int8", "int16", "uint16", "bool"}


def labels_of(y: Any) -> Any:
    """A column's values; a DataFrame of one column is that column."""
    if is_a(y, "pandas", "DataFrame") and y.shape[1] == 1:
        y = y.iloc[:, 0]
    return y.to_numpy() if hasattr(y, "to_numpy") else y


def from_hugging_face(data: Any, asked: str | None) -> Examples:
    """Columns of numbers; those of text are left out and named.

    The label is `label_column`, or the only column of kind ClassLabel, or has a usual name, among
    what a transform yields where there is one. Columns of single numbers become one matrix;
    anything else stays a dict by column.
    """
    what = "this datasets.Dataset"
    transformed = (getattr(data, "format", None) or {}).get("type") == "custom"
    kinds = {name: type(kind).__name__ for name, kind in data.features.items()}
    classes = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    column = classes[0] if asked is None and len(classes) == 1 else None
    if transformed:  # row by row; a transform may drop or rename the column
        yielded = data[0] if column is not None and len(data) else {}
        return from_dataset(data, column if column in yielded else asked)
    column = column or label_column(kinds, asked, what)
    if "Image" in kinds.values():
        return from_dataset(data, column)
    text = [name for name in kinds if name != column and _is_text(data.features[name])]
    numbers = [name for name in kinds if name not in {column, *text}]
    if not numbers:
        how = "tokenise the text, or map it to numbers, first"
        raise BadInput(f"{what} has only columns of text beside {column}; {how}")
    notes = (f"columns of text are left out: {', '.join(text)}",) if text else ()
    table = data.select_columns([*numbers, column]).with_format("numpy")
    joined, columns = _columns(table, numbers, column), ()
    x, y = split_labels(joined, column, what)
    if isinstance(x, dict) and all(values.ndim == 1 for values in x.values()):
        columns = tuple(x)
        x = np.stack(list(x.values()), axis=1).astype(np.float64)
    elif isinstance(x, dict) and (single := [name for name, a in x.items() if a.ndim == 1]):
        x = {name: values for name, values in x.items() if name not in single}
        notes = (*notes, f"columns of single numbers are left out: {', '.join(single)}")
        x = next(iter(x.values())) if len(x) == 1 else x
    elif not isinstance(x, dict) and x.ndim == 1:
        x = x[:, None]
    return Examples(x, y, "data", notes, columns)


def _is_text(feature: Any) -> bool:
    return "string" in str(getattr(feature, "dtype", ""))


def _columns(table: Any, numbers: list[str], column: str) -> dict[str, NDArray[Any]]:
    """The columns as arrays, the labels' last, from a thousand rows at a time."""
    found: dict[str, NDArray[Any]] = {}
    labels = []
    for start in range(0, len(table), _READ):
        part = table[start : start + _READ]
        labels.append(part[column])
        for name in numbers:
            rows = part[name]
            kept = found.get(name)
            if kept is None:
                kept = found[name] = room_for((len(table), *rows.shape[1:]), rows.dtype)
            if rows.dtype == object or rows.shape[1:] != kept.shape[1:]:
                how = "pad them to one length (padding='max_length'), or leave the column out"
                raise BadInput(f"column {name} has rows of different lengths; {how}")
            kept[start : start + len(rows)] = rows
    return {**found, column: np.concatenate(labels)}

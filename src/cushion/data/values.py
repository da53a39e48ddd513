"""From what people keep examples in (arrays, tensors, columns, dicts of them) to one array of the
kinds that a net reads: uint8, float32, int64, or a structured array with such a field for each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.streaming import pieces, room_for
from cushion.errors import BadInput

KINDS = (np.uint8, np.float32, np.int64)
_HOW = (
    "give uint8 (a net reads it divided by 255), floats (read as they are) or int64 (tokens, read "
    "as they are)"
)


def as_array(values: Any, where: str) -> NDArray[Any]:
    """A numpy array of an array, a tensor on any device, a column or a list; no copy if possible.

    `where` opens the sentence of a refusal.
    """
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a torch tensor; torch stays unknown
        try:
            plain = values.detach().cpu()
        except NotImplementedError:
            raise BadInput(f"{where} is a tensor without values (meta); give its numbers") from None
        try:
            # numpy has no bfloat16
            return np.asarray(plain.float() if "bfloat16" in str(plain.dtype) else plain)
        except (TypeError, RuntimeError):
            kind = f"a tensor of {str(plain.dtype).removeprefix('torch.')}, {plain.layout}"
            raise BadInput(f"{where} is {kind}; give a dense tensor of numbers") from None
    if isinstance(values, np.ma.MaskedArray):
        how = "fill its masked values (.filled) or drop those rows first"
        raise BadInput(f"{where} is a masked array; {how}")
    if isinstance(values, list | tuple) and len({isinstance(v, str | bytes) for v in values}) > 1:
        raise BadInput(f"{where} mixes text and numbers; give all of one kind")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        array = np.empty(0, object)
    if array.dtype == object and array.ndim < 2 and _is_ragged(values):
        shapes = {np.shape(value) for value in values} if isinstance(values, np.ndarray) else ()
        if len(shapes) == 1:
            raise BadInput(f"{where} is an object array of arrays; convert it with np.stack(x)")
        how = "give them one size (crop, resize, or pad to one length)"
        raise BadInput(f"{where} has examples of different shapes; {how}")
    return array


def as_inputs_array(values: Any, where: str) -> tuple[NDArray[Any], str]:
    """Inputs in a kind that a net reads, and what there is to say about it (mostly nothing)."""
    if isinstance(values, Mapping):
        return _as_fields(values, where)
    x = as_array(values, where)
    if x.dtype.names is not None:
        return _as_fields({name: x[name] for name in x.dtype.names}, where, given=x)
    if x.dtype.kind == "f":
        return _as_float32(x, where)
    if x.dtype == np.int32:
        return x.astype(np.int64), ""
    if x.dtype == object and x.size:
        of = f"an object array (of {type(x.flat[0]).__name__})"
        raise BadInput(f"{where} is {of}; convert it with x.astype('float32')")
    if x.dtype not in KINDS:
        raise BadInput(f"{where} is {_kind(x)}; {_HOW}")
    return x.astype(x.dtype.newbyteorder("="), copy=False), ""


def _as_float32(x: NDArray[Any], where: str) -> tuple[NDArray[Any], str]:
    if x.dtype == np.float32:
        return x.astype(np.float32, copy=False), ""
    found, rounds = room_for(x.shape, np.float32), False
    if x.ndim == 0:
        return x.astype(np.float32), ""
    # what overflows becomes infinite, and Dataset refuses that by name
    with np.errstate(over="ignore", invalid="ignore"):
        for start, rows in pieces(x):
            part = found[start : start + len(rows)]
            part[...] = rows
            rounds = rounds or bool((part != rows).any())
    return found, f"{where} was {x.dtype} and is rounded to float32" if rounds else ""


def _as_fields(
    values: Mapping[Any, Any], where: str, given: NDArray[Any] | None = None
) -> tuple[NDArray[Any], str]:
    """One array [m] with a field for each key; a single key's array stays what it is."""
    if not values:
        raise BadInput(f"{where} is a dict without arrays; give at least one")
    read = {str(key): as_inputs_array(part, f"{where}[{key!r}]") for key, part in values.items()}
    arrays, remarks = {k: a for k, (a, _) in read.items()}, [r for _, r in read.values() if r]
    for name, array in arrays.items():
        if array.dtype.names is not None or array.ndim == 0:
            raise BadInput(f"{where}[{name!r}] holds no rows of numbers; give an array [m, ...]")
    if len({len(array) for array in arrays.values()}) > 1:
        counts = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise BadInput(f"{where}: {counts} rows; they must describe the same examples")
    if len(arrays) == 1 and given is None:
        return next(iter(arrays.values())), "; ".join(remarks)
    kind = np.dtype([(name, a.dtype, a.shape[1:]) for name, a in arrays.items()])
    if given is not None and given.dtype == kind:
        return given, ""
    first = next(iter(arrays.values()))
    found = room_for((len(first),), kind)
    for name, array in arrays.items():
        for start, rows in pieces(array):
            found[name][start : start + len(rows)] = rows
    return found, "; ".join(remarks)


def _is_ragged(values: Any) -> bool:
    """Whether the values are themselves lists or arrays."""
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) == 0:
        return False
    return hasattr(values[0], "__len__") and not isinstance(values[0], (str, bytes, Mapping))


def _kind(x: NDArray[Any]) -> str:
    """What an array holds, in words."""
    if x.dtype == object:
        first = type(x.flat[0]).__name__ if x.size else "nothing"
        return f"an array of Python objects ({first})"
    return "text" if x.dtype.kind in "US" else str(x.dtype)

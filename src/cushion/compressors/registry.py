"""The methods of `cushion compress`, one line each; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, TypeAlias

from cushion.compressors.method import Method
from cushion.compressors.searches import Search
from cushion.compressors.tuning.options import Keeping
from cushion.errors import BadInput

AnyMethod: TypeAlias = Method | Search | Keeping

_TABLE = (
    "tuning.options.RATE",
    "searches.INTEGER",
    "searches.SUBSPACE",
    "searches.SUPERMASK",
    "projection.method.LOW_RANK",
    "projection.method.MATRIX_PROJECT",
    "projection.method.CONV_PROJECT",
    "pruning.method.MAGNITUDE",
    "pruning.method.SKETCH",
    "noise.method.HEAVY_TAIL",
    "projection.method.VECTOR_COMPRESS",
    "projection.method.VECTOR_PROJECT",
)


_FOUND = (resolve_name(f"cushion.compressors.{row}") for row in _TABLE)
METHODS: dict[str, AnyMethod] = {one.name: one for one in _FOUND}


def load_kinds() -> None:
    """Have every kind of stored layer known: a file may hold layers of any method."""
    for module in sorted({module for method in METHODS.values() for module in method.stores}):
        import_module(f"cushion.compressors.{module}")


def choose(name: str, values: Mapping[str, Any]) -> tuple[AnyMethod, Any]:
    """The method of that name and its options, or BadInput."""
    if name not in METHODS:
        raise BadInput(f"there is no method {name!r}; `method` is one of {', '.join(METHODS)}")
    return METHODS[name], METHODS[name].given(values)

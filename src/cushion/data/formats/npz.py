"""`.npz` files with the arrays x and y, and optionally x_test and y_test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.formats.arrays import Arrays, Pair, numpy_reason, whole_labels
from cushion.errors import BadInput, CushionError, Malformed


def read(path: Path) -> Pair:
    """Read both parts. Pickled (object) arrays are refused unread; float64 becomes float32."""
    arrays, found = _arrays(path, ("x", "y", "x_test", "y_test"))
    if "x" not in arrays or "y" not in arrays:
        raise BadInput(f"{path}: an .npz set needs the arrays x and y, but this one has {found}")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise BadInput(
            f"{path}: a held-out part needs both x_test and y_test, but this one has {found}"
        )
    train = _part(arrays["x"], arrays["y"], "", path)
    return train, _part(
        arrays["x_test"], arrays["y_test"], "_test", path
    ) if "x_test" in arrays else None


def read_inputs(path: Path, key: str) -> NDArray[Any]:
    """One array of inputs, "x" or "x_test", as `read` gives it; labels are not looked at."""
    arrays, found = _arrays(path, (key,))
    if key not in arrays:
        raise BadInput(f"{path}: unlabelled inputs need the array {key}, but this file has {found}")
    return _inputs(arrays[key], key, path)


def _arrays(path: Path, keys: tuple[str, ...]) -> tuple[dict[str, NDArray[Any]], str]:
    """Those of the named arrays that are there, and the names of all that are."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise Malformed(
                f"{path}: not an .npz archive; write it with numpy.savez(file, x=..., y=...)"
            )
        with archive:
            arrays = {key: _member(archive, key, path) for key in keys if key in archive}
            return arrays, ", ".join(archive.files) or "none"
    except (CushionError, PermissionError):
        raise
    except (
        Exception
    ) as error:  # a damaged zip raises nearly anything: BadZipFile, zlib.error, RuntimeError, ...
        reason = numpy_reason(error)
        raise Malformed(
            f"{path}: not a readable .npz archive ({reason}); write it again with numpy.savez"
        ) from None


def _member(archive: Any, key: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[key]
    except ValueError as error:
        # numpy's wording for dtype object under allow_pickle=False
        if "pickle" in str(error).lower():
            raise BadInput(
                f"{path}: {key} is an array of Python objects, which is never unpickled; save it "
                "as numbers"
            ) from None
        raise
    return array


def _part(x: NDArray[Any], y: NDArray[Any], suffix: str, path: Path) -> Arrays:
    return Arrays(_inputs(x, f"x{suffix}", path), whole_labels(y, f"{path}: y{suffix}"))


def _inputs(x: NDArray[Any], key: str, path: Path) -> NDArray[Any]:
    if x.dtype.kind == "f":
        # what overflows becomes infinite, and Dataset refuses that by name
        with np.errstate(over="ignore"):
            return x.astype(np.float32, copy=False)
    if x.dtype != np.uint8:
        raise BadInput(
            f"{path}: {key} is {x.dtype}; save it as uint8 (a net reads it divided by 255) or "
            "float32 (read as it is)"
        )
    return x

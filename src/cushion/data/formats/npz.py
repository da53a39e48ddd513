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
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise Malformed(f"{path}: not an .npz archive; write it with numpy.savez(file, x=..., y=...)")
        with archive:
            arrays = {key: _member(archive, key, path) for key in ("x", "y", "x_test", "y_test") if key in archive}
            found = ", ".join(archive.files) or "none"
    except (CushionError, PermissionError):
        raise
    except Exception as error:  # a damaged zip raises nearly anything: BadZipFile, zlib.error, RuntimeError, ...
        reason = numpy_reason(error)
        raise Malformed(f"{path}: not a readable .npz archive ({reason}); write it again with numpy.savez") from None
    if "x" not in arrays or "y" not in arrays:
        raise BadInput(f"{path}: an .npz set needs the arrays x and y, but this one has {found}")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise BadInput(f"{path}: a held-out part needs both x_test and y_test, but this one has {found}")
    train = _part(arrays["x"], arrays["y"], "", path)
    return train, _part(arrays["x_test"], arrays["y_test"], "_test", path) if "x_test" in arrays else None


def _member(archive: Any, key: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[key]
    except ValueError as error:
        if "pickle" in str(error).lower():  # numpy's wording for dtype object under allow_pickle=False
            raise BadInput(
                f"{path}: {key} is an array of Python objects, which is never unpickled; save it as numbers"
            ) from None
        raise
    return array


def _part(x: NDArray[Any], y: NDArray[Any], suffix: str, path: Path) -> Arrays:
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and Dataset refuses that by name
            x = x.astype(np.float32, copy=False)
    elif x.dtype != np.uint8:
        raise BadInput(
            f"{path}: x{suffix} is {x.dtype}; save it as uint8 (a net reads it divided by 255) "
            "or float32 (read as it is)"
        )
    return Arrays(x, whole_labels(y, f"{path}: y{suffix}"))

"""A backbone's features of a whole set, computed once and kept beside the data sets.

ROOT/features/KEY holds parts of rows as .npy files and what they are; KEY is a hash of the inputs
and of all that the features depend on. Work that was interrupted goes on behind its last part. A
part whose bytes are not the recorded ones is computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import write_whole
from cushion.data.inputs import Inputs
from cushion.data.store import root
from cushion.errors import BadInput
from cushion.nets.backbones import BATCH, Backbone
from cushion.progress import working

_ROWS = 32 * BATCH  # of a part
_VERSION = 1


def features_of(backbone: Backbone, inputs: Inputs, under: Path | None = None) -> Path:
    """The folder with the features of all rows, computing what is missing.

    Ctrl-C loses at most one part. Rows are read a part at a time.
    """
    place = folder(backbone, inputs, under)
    known = _known(place)
    starts = range(0, len(inputs), _ROWS)
    with working(f"features of {inputs.name}", len(inputs), "rows") as bar:
        for number, start in enumerate(starts):
            rows = inputs.x[start : start + _ROWS]
            if not _is_sound(place, number, known):
                batches = (rows[at : at + BATCH] for at in range(0, len(rows), BATCH))
                found = []
                for batch in batches:
                    found.append(backbone.features(batch))
                    bar.advance(len(batch))
                known[str(number)] = _write(place, number, np.concatenate(found))
                write_whole(place / "parts.json", json.dumps(known))
            bar.reach(start + len(rows))
    return place


def read_features(place: Path, rows: int) -> NDArray[np.float32]:
    """[rows, width], from the parts in the folder."""
    parts = [np.load(_part(place, at)) for at in range(-(-rows // _ROWS))]
    if len(widths := {part.shape[1] for part in parts}) > 1:
        said = " and ".join(map(str, sorted(widths)))
        raise BadInput(
            f"{place}: some rows have {said} features; make the net the same on every call, and "
            "remove this folder"
        )
    return np.concatenate(parts)


def folder(backbone: Backbone, inputs: Inputs, under: Path | None = None) -> Path:
    """Where these features are kept."""
    said = {"inputs": inputs.fingerprint, "version": _VERSION, **backbone.identity}
    key = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]
    return (under or root()) / "features" / key


def _part(place: Path, number: int) -> Path:
    return place / f"part-{number:05d}.npy"


def _write(place: Path, number: int, found: NDArray[np.float32]) -> str:
    """Write one part whole; its sha256."""
    place.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.save(buffer, found)
    write_whole(_part(place, number), buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def _known(place: Path) -> dict[str, str]:
    """sha256 of the parts that were written, by their numbers."""
    try:
        found = json.loads((place / "parts.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_sound(place: Path, number: int, known: dict[str, str]) -> bool:
    try:
        content = _part(place, number).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == known.get(str(number))

"""A folder that belongs to one plan (recipe, spec, options, data), written first, never changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cushion.data.dataset import Dataset
from cushion.data.files import write_whole
from cushion.errors import BadInput, Malformed
from cushion.nets.loading.weights import IMP_FILE, NET_FILE, RUN_FILE
from cushion.nets.specs import Spec

RUN_FORMAT = "cushion-run-1"
CHECKPOINT_FILE = "checkpoint.safetensors"


@contextmanager
def open_folder(
    folder: Path,
    file: str,
    spec: Spec,
    sample: Dataset,
    test: Dataset | None,
    options: dict[str, Any],
) -> Iterator[bool]:
    """Hold a folder whose plan is in `file`, written now or equal; yields whether it was there.

    Another plan is refused with the first difference, a folder with something else by what it is.
    """
    plan = {
        "format": RUN_FORMAT,
        "spec": str(spec),
        **{key: value for key, value in options.items() if key != "recipe"},
        "recipe": options["recipe"].to_json(),
        "data": _describe(sample),
        "test": None if test is None else _describe(test),
        "made_with": {"torch": torch.__version__, "threads": torch.get_num_threads()},
    }
    with _locked(folder):
        path = folder / file
        found = path.exists()
        if found:
            _compare(path, plan)
        else:
            other = IMP_FILE if file == RUN_FILE else RUN_FILE
            if (folder / other).exists():
                kind = "a run with" if other == IMP_FILE else "a run without"
                raise BadInput(
                    f"{folder} holds {kind} `prune` = imp; repeat its options, or choose another "
                    "folder"
                )
            if (folder / NET_FILE).exists() or (folder / CHECKPOINT_FILE).exists():
                raise BadInput(f"{folder} holds weights but no {file}; choose an empty folder")
            write_whole(path, json.dumps(plan, indent=2))
        yield found


def _describe(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "fingerprint": data.fingerprint,
        "history": list(data.history),
        "examples": len(data),
        "shape": list(data.shape),
        "classes": data.classes,
    }


def _compare(path: Path, plan: dict[str, Any]) -> None:
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); choose another folder") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("format"), str):
        raise Malformed(f"{path} is damaged; choose another folder")
    if found["format"] != RUN_FORMAT:
        raise BadInput(
            f"{path} has format {_shown(found['format'])!r}, but this version reads {RUN_FORMAT!r}"
        )
    parts = [found.get("recipe"), found.get("data"), found.get("test") or {}]
    if not all(isinstance(part, dict) for part in parts):
        raise Malformed(f"{path} is damaged; choose another folder")
    wanted = json.loads(json.dumps(plan))  # tuples and floats as JSON gives them back
    for key, before, now in _differences(found, wanted):
        raise BadInput(
            f"{path.parent} holds a run with {key} {_shown(before)}, but now {key} is {now}; "
            "repeat the options it was started with, or choose another folder"
        )


def _shown(value: Any) -> str:
    """A value from the file as part of one sentence, however long or deeply nested it is."""
    try:
        text = " ".join(str(value).split())
    except RecursionError:
        return "of nested lists"
    return text if len(text) <= 1000 else f"{text[:1000]}..."


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """(what, before, now) of all that decides a run and differs, what says most first."""
    mine, theirs = found["recipe"], wanted["recipe"]
    told = [
        ("recipe" if key == "name" else f"recipe {key}", mine.get(key), theirs[key])
        for key in ("name", *theirs)
        if key not in ("title", "source", "notes")
    ]
    told += [
        (key, found.get(key), wanted.get(key)) for key in ("width", "seed", "device", "snapshots")
    ]
    pruned, asked = found.get("prune"), wanted.get("prune")
    if isinstance(pruned, dict) and asked is not None:
        told += [(f"prune {key}", pruned.get(key), asked[key]) for key in asked]
    else:
        told.append(("prune", pruned, asked))
    for key in ("data", "test"):
        before, now = ((side.get(key) or {}).get("fingerprint") for side in (found, wanted))
        told.append((f"{key} fingerprint", before, now))
    told.append(("spec", found.get("spec"), wanted["spec"]))
    return [(what, before, now) for what, before, now in told if before != now]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it, however the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be used as a run's folder: {error.strerror}; choose another"
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"{folder} is in use by another training; wait for it, or choose another"
            ) from None
        yield
    finally:
        os.close(handle)

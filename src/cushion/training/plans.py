"""What decides a run (recipe, spec, options, data), and the folder that belongs to one plan."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cushion.data import AnyData, as_dataset
from cushion.data.dataset import Dataset
from cushion.data.files import check_regular, write_whole
from cushion.data.samples import randomize_labels, shuffle_labels
from cushion.errors import BadInput, Malformed
from cushion.nets.devices import find_device
from cushion.nets.loading.weights import IMP_FILE, NET_FILE, RUN_FILE
from cushion.nets.specs import Spec, scale_width, write_shape
from cushion.training.options import TrainOptions
from cushion.training.recipes import Recipe, find_recipe, fit_recipe

RUN_FORMAT = "cushion-run-1"
CHECKPOINT_FILE = "checkpoint.safetensors"


@dataclass(frozen=True, eq=False)
class Setting:
    """What is trained on what: the options of `train`, checked and put together."""

    recipe: Recipe
    spec: Spec
    sample: Dataset
    test: Dataset | None
    width: float
    seed: int
    device: torch.device
    snapshots: tuple[int, ...] = ()  # epochs after which the net stays
    prune: dict[str, Any] | None = None  # what the plan of a pruned run says about that

    def plan(self) -> dict[str, Any]:
        """The plan as it is written."""
        optional = {"snapshots": list(self.snapshots), "prune": self.prune}
        return {
            "format": RUN_FORMAT,
            "spec": str(self.spec),
            "width": self.width,
            "seed": self.seed,
            "device": str(self.device),
            **{key: value for key, value in optional.items() if value},
            "recipe": self.recipe.to_json(),
            "data": _describe(self.sample),
            "test": None if self.test is None else _describe(self.test),
            "made_with": {"torch": torch.__version__, "threads": torch.get_num_threads()},
        }


def settle(
    recipe: Recipe | Spec | str, data: AnyData, test: AnyData | None, options: TrainOptions
) -> Setting:
    """The setting that the options describe, or one sentence about the first that does not fit."""
    data = as_dataset(data)
    test = None if test is None else as_dataset(test, like=data)
    if not isinstance(recipe, Recipe):
        recipe = find_recipe(str(recipe))
    if options.epochs is not None:
        recipe = replace(recipe, epochs=options.epochs)
    if options.lr_halve_every is not None:
        recipe = replace(recipe, lr_halve_every=options.lr_halve_every)
    device, width, seed = find_device(options.device), float(options.width), options.seed
    spec = scale_width(fit_recipe(recipe, data.shape, data.classes), width)
    shape = write_shape(data.shape)
    if recipe.augment and len(data.shape) != 3:
        said = f"recipe {recipe.name} crops and mirrors images, but {data.name} has shape {shape}"
        raise BadInput(f"{said}; use data of shape channels x height x width")
    if test is not None and (test.shape, test.classes) != (data.shape, data.classes):
        said = f"the test set {test.name} is {write_shape(test.shape)} with {test.classes} classes"
        other = f"{data.name} is {shape} with {data.classes}"
        raise BadInput(f"{said}, but {other}; use sets of one kind")
    if len(data) < 2:
        raise BadInput(f"{data.name} has a single example; training needs at least 2")
    sample = label_sample(recipe, data, seed)
    return Setting(recipe, spec, sample, test, width, seed, device, options.snapshots or ())


def label_sample(recipe: Recipe, data: Dataset, seed: int) -> Dataset:
    """The sample as the recipe labels it, seeded by the run's seed and told in its history."""
    if recipe.labels == "shuffled":
        return shuffle_labels(data, seed)
    if recipe.labels == "random":
        return randomize_labels(data, 1.0, seed)
    return data


@contextmanager
def open_folder(folder: Path, file: str, plan: dict[str, Any]) -> Iterator[bool]:
    """Hold a folder whose plan is in `file`, written now or equal; yields whether it was there.

    Another plan is refused with the first difference, a folder with something else by what it is.
    """
    with _locked(folder):
        path = folder / file
        found = path.exists()
        if found:
            _compare(path, plan)
        else:
            other = IMP_FILE if file == RUN_FILE else RUN_FILE
            if (folder / other).exists():
                kind = f"a run {'with' if other == IMP_FILE else 'without'} `prune` = imp"
                fix = "repeat its options, or choose another folder"
                raise BadInput(f"{folder} holds {kind}; {fix}")
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
        found = json.loads(check_regular(path, "choose another folder").read_text())
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); choose another folder") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("format"), str):
        raise Malformed(f"{path} is damaged; choose another folder")
    if found["format"] != RUN_FORMAT:
        said = f"{path} has format {_shown(found['format'])!r}"
        raise BadInput(f"{said}, but this version reads {RUN_FORMAT!r}")
    parts = [found.get("recipe"), found.get("data"), found.get("test") or {}]
    if not all(isinstance(part, dict) for part in parts):
        raise Malformed(f"{path} is damaged; choose another folder")
    wanted = json.loads(json.dumps(plan))  # tuples and floats as JSON gives them back
    for key, before, now in _differences(found, wanted):
        if before != now:
            said = f"{path.parent} holds a run with {key} {_shown(before)}, but now {key} is {now}"
            fix = "repeat the options it was started with, or choose another folder"
            raise BadInput(f"{said}; {fix}")


def _shown(value: Any) -> str:
    """A value from the file as part of one sentence, however long or deeply nested it is."""
    try:
        text = " ".join(str(value).split())
    except RecursionError:
        return "of nested lists"
    return text if len(text) <= 1000 else f"{text[:1000]}..."


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(what, before, now) of all that decides a run, what says most first."""
    for key in ("name", *wanted["recipe"]):
        if key not in ("title", "source", "notes"):
            what = "recipe" if key == "name" else f"recipe {key}"
            yield what, found["recipe"].get(key), wanted["recipe"][key]
    for key in ("width", "seed", "device", "snapshots"):
        yield key, found.get(key), wanted.get(key)
    pruned, asked = found.get("prune"), wanted.get("prune")
    if isinstance(pruned, dict) and asked is not None:
        for key in asked:
            yield f"prune {key}", pruned.get(key), asked[key]
    else:
        yield "prune", pruned, asked
    for key in ("data", "test"):
        before, now = ((side.get(key) or {}).get("fingerprint") for side in (found, wanted))
        yield f"{key} fingerprint", before, now
    yield "spec", found.get("spec"), wanted["spec"]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it, however the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        said = f"{folder} cannot be used as a run's folder: {error.strerror}"
        raise BadInput(f"{said}; choose another") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = f"{folder} is in use by another training"
            raise BadInput(f"{said}; wait for it, or choose another") from None
        yield
    finally:
        os.close(handle)

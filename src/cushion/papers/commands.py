"""Studies: what commands of `cushion` answer, one step a command, and what their pages share."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cushion.errors import BadInput
from cushion.numerics import percent_up
from cushion.papers.runner import Workshop

Answer: TypeAlias = dict[str, Any]  # of a command, as its --json has it
Need: TypeAlias = str | Callable[[Path], None]  # a command, or what makes a file in OUT
OCCAM = "kind errors m bits delta bound holdout_errors holdout_m because"  # that pages read
# What makes a command of a recorded study one that takes seconds, on digits.
_SMALL = {
    "lenet-300-100": "'1x8x8: flatten fc32 relu fc32 relu fc10'",
    "--prune-to 0.995": "--prune-to 0.5",
    "--data mnist": "--data digits",
    ".runs/lenet": ".runs/small",
    ".runs/imp-lenet/level-2": ".runs/imp-small/level-0",
    ".runs/imp-lenet": ".runs/imp-small",
    ".runs/nets/": ".runs/nets/small-",
    "/recorded/": "/quick/",
}
LENET = "train lenet-300-100 --data mnist -o .runs/lenet"
TICKETS = (
    "train lenet-300-100 --data mnist --epochs 8 --prune imp --prune-to 0.995 -o .runs/imp-lenet"
)
_HELD = {True: "held", False: "broken", None: "not promised"}


def answers(
    workshop: Workshop,
    study: str,
    commands: Mapping[str, str],
    kept: Mapping[str, str] | Callable[[Answer], Answer],
    needs: Sequence[Need] = (),
) -> dict[str, Answer]:
    """What stays of the commands' answers, by the commands' own names.

    A command is what follows `cushion`, run in OUT; `needs` (trainings, which resume) come before
    it where its step is missing. kept: what stays of an answer, a function or as `pick` has it.
    """

    def make(command: str) -> Answer:
        (workshop.out / ".runs" / "nets").mkdir(parents=True, exist_ok=True)
        for need in needs:
            need(workshop.out) if callable(need) else _run(need, workshop.out)
        answer = _run(command, workshop.out)
        return kept(answer) if callable(kept) else pick(answer, kept)

    return {
        name: workshop.step(f"study-{study}", {"command": f"cushion {one}"}, partial(make, one))
        for name, one in commands.items()
    }


def sized(workshop: Workshop, command: str) -> str:
    """The command as it is recorded, or a small one at quick size."""
    if workshop.size == "quick":
        for large, small in _SMALL.items():
            command = command.replace(large, small)
    return command


def _run(command: str, folder: Path) -> Answer:
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "answer.json"
        words = [sys.executable, "-m", "cushion", *shlex.split(command), "--json", str(path)]
        done = subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL)
        if not path.is_file():
            raise BadInput(f"`cushion {command}` ended with {done.returncode} and no answer")
        found: Answer = json.loads(path.read_text(encoding="utf-8"))
        return found


def pick(found: Mapping[str, Any], kept: Mapping[str, str]) -> Answer:
    """The keys of `kept`: whole where nothing is said of them, else those of their own keys that
    are named (of every entry, where there is a list).
    """

    def part(value: Any, words: str) -> Any:
        if isinstance(value, list):
            return [part(one, words) for one in value]
        return value if not words or value is None else {key: value[key] for key in words.split()}

    return {key: part(found[key], words) for key, words in kept.items()}


def certified(bound: float | str) -> str:
    """A bound on the error in percent, rounded up."""
    return "vacuous" if float(bound) >= 1 else percent_up(str(bound))


def promised(one: Mapping[str, Any] | None) -> str:
    """Whether what a lemma promises held, and the worst that was seen over it."""
    if one is None:
        return "-"
    ratio = "" if one["worst_ratio"] is None else f", {one['worst_ratio']:.3g}"
    return _HELD[one["held"]] + ratio


def compressions(found: Mapping[str, Answer]) -> list[Answer]:
    """Each answer of `compress` with its `name`, the setting with the smallest bound (`taken`, in
    words `asked`), and the Occam bounds on this machine's scores and of the certificate.
    """
    rows = []
    for name, one in found.items():
        taken = next(setting for setting in one["tried"] if setting["chosen"])
        here, exact = one["occam"]
        file = "none" if exact["because"] else certified(exact["bound"])
        bounds = {"bound here": certified(here["bound"]), "certificate": file}
        asked = f"{taken['asked']}, {taken['grid']}"
        rows.append(one | bounds | {"name": name, "taken": taken, "asked": asked})
    return rows

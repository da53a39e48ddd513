"""What people's sizes take: whole commands, each in a process of its own, with its peak memory.

    python -m benchmarks.scale [NAMES] --page docs/scale.md

Every job is what a user types, on data and nets that are made here. Times are of the machine that
ran it; memory is that of the job alone. A line is written for every job: a run that was stopped
goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cushion.data.files import write_whole

_CUSHION = [sys.executable, "-m", "cushion"]
_NETS = """\
from torch import nn
from benchmarks.hooked import resnet50


def cnn():
    sizes = (3, 32, 64, 64)
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 56), nn.ReLU(), nn.Linear(56, 10))


def wide():
    layers = []
    for _ in range(4):
        layers += [nn.Linear(5000, 5000), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def tabular():
    return nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 10))
"""


@dataclass(frozen=True)
class Job:
    """One command: `make` writes what it reads into a folder and returns its words."""

    name: str
    shown: str  # the command as a user would type it
    make: Callable[[Path], list[str]]


@dataclass(frozen=True)
class Took:
    """What a job took, and the line of its answer that says most."""

    name: str
    shown: str
    minutes: float
    cpu_minutes: float
    peak_gigabytes: float
    code: int
    answer: str


def _rows(folder: Path, rows: int, shape: tuple[int, ...], classes: int, kind: Any) -> str:
    """Noise with a class's mark on it, as x.npy and y.npy, written piece by piece: pictures have a
    bright square in a place of its class, rows a large number.
    """
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    x = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=kind, shape=(rows, *shape))
    y = rng.integers(0, classes, rows)
    step = max(1, 2 * 10**7 // int(np.prod(shape)))
    for start in range(0, rows, step):
        part = x[start : start + step]
        noise = rng.integers(0, 200, part.shape) if kind == np.uint8 else rng.random(part.shape)
        part[...] = noise
        for row, label in zip(part, y[start : start + step], strict=True):
            _mark(row, int(label), classes)
    x.flush()
    np.save(folder / "y.npy", y)
    return str(folder)


def _mark(row: Any, label: int, classes: int) -> None:
    if row.ndim == 1:
        row[label % len(row)] = 2.0
        return
    places = math.ceil(math.sqrt(classes))
    side = row.shape[-1] // places
    down, across = (side * one for one in divmod(label, places))
    row[:, down : down + side, across : across + side] = 255


def _nets(folder: Path, name: str) -> str:
    (folder / "mine.py").write_text(_NETS, encoding="utf-8")
    return f"{folder / 'mine.py'}:{name}"


def _measure_cnn(folder: Path) -> list[str]:
    return ["measure", _nets(folder, "cnn"), "--data", "cifar10,subset=20000"]


def _margins(folder: Path) -> list[str]:
    data = _rows(folder / "pictures", 256, (3, 224, 224), 1000, np.uint8)
    return ["measure", _nets(folder, "resnet50"), "--data", data, "--only", "margins"]


def _hooks(folder: Path) -> list[str]:
    data = _rows(folder / "pictures", 64, (3, 224, 224), 1000, np.uint8)
    words = ["measure", _nets(folder, "resnet50"), "--data", data, "--way", "hooks"]
    few = ["--examples", "4", "--levels", "0.1", "--attenuation-draws", "1", "--probes", "4"]
    return [*words, "--only", "stability", "--no-spectra", *few, "--draws", "1", "--batch", "8"]


def _norms(folder: Path) -> list[str]:
    return ["measure", _nets(folder, "wide"), "--only", "norms"]


def _norms_of_resnet(folder: Path) -> list[str]:
    return ["measure", _nets(folder, "resnet50"), "--shape", "3x224x224", "--only", "norms"]


def _ten_million(folder: Path) -> list[str]:
    data = _rows(folder / "rows", 10**7, (5,), 10, np.float32)
    return ["measure", _nets(folder, "tabular"), "--data", data, "--only", "margins"]


def _certify(rows: int, classes: int, minutes: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        data = _rows(folder / "pictures", rows, (3, 224, 224), classes, np.uint8)
        out = str(folder / "out.cushion")
        return ["certify", "--data", data, "-o", out, "--minutes", minutes]

    return make


def _certify_mnist(folder: Path) -> list[str]:
    return ["certify", "--data", "mnist", "--kind", "occam", "-o", str(folder / "mnist.cushion")]


JOBS = (
    Job(
        "CNN of 115 000 parameters, 20 000 pictures of CIFAR-10, every measure",
        "cushion measure mine.py:cnn --data cifar10,subset=20000",
        _measure_cnn,
    ),
    Job(
        "ResNet-50, 256 pictures of 224x224, margins",
        "cushion measure mine.py:resnet50 --data pictures --only margins",
        _margins,
    ),
    Job(
        "ResNet-50, cushions on 64 pictures of 224x224; noise, blocks on 4 of them, by hooks",
        "cushion measure mine.py:resnet50 --data pictures --way hooks --only stability "
        "--no-spectra --examples 4 --levels 0.1 --attenuation-draws 1 --probes 4 --draws 1 "
        "--batch 8",
        _hooks,
    ),
    Job(
        "MLP of 100 million parameters, all norms, no data",
        "cushion measure mine.py:wide --only norms",
        _norms,
    ),
    Job(
        "ResNet-50 at 224x224, all norms of the true maps, no data",
        "cushion measure mine.py:resnet50 --shape 3x224x224 --only norms",
        _norms_of_resnet,
    ),
    Job(
        "10 000 000 rows of 5 numbers in a folder of .npy files, margins",
        "cushion measure mine.py:tabular --data rows --only margins",
        _ten_million,
    ),
    Job(
        "certify 2 000 pictures of 224x224 in 7 classes, three minutes",
        "cushion certify --data pictures -o out.cushion --minutes 3",
        _certify(2000, 7, "3"),
    ),
    Job(
        "certify 5 000 pictures of 224x224 in 1000 classes, three minutes",
        "cushion certify --data pictures -o out.cushion --minutes 3",
        _certify(5000, 1000, "3"),
    ),
    Job(
        "certify MNIST in its default time",
        "cushion certify --data mnist --kind occam -o mnist.cushion",
        _certify_mnist,
    ),
)


def take(job: Job) -> Took:
    """Run it, watch its memory, keep the line that says most."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = job.make(folder)
        with (folder / "told").open("w+", encoding="utf-8") as told:
            begin = time.perf_counter()
            path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
            process = subprocess.Popen(
                [*_CUSHION, *words],
                stdout=told,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path},
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begin
            told.seek(0)
            lines = told.read().splitlines()
        said = [line.replace(f"{folder}/", "").replace(str(folder), "") for line in lines]
    cpu = usage.ru_utime + usage.ru_stime
    gigabytes = usage.ru_maxrss / 2**20
    code = os.waitstatus_to_exitcode(status)
    return Took(
        job.name,
        job.shown,
        round(seconds / 60, 2),
        round(cpu / 60, 2),
        round(gigabytes, 2),
        code,
        _telling(said),
    )


def _telling(lines: Sequence[str]) -> str:
    """The sentence of a bound, or the line with the sizes."""
    found = [line for line in lines if re.search(r"at most [\d.]+ %|\d parameters( in|,)", line)]
    return (found or [line for line in lines if line.strip()] or [""])[0].strip()


def read(path: Path) -> list[Took]:
    """What was measured; of two lines about one job the later."""
    if not path.exists():
        return []
    took = [Took(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return list({one.name: one for one in took}.values())


def page(took: Sequence[Took]) -> str:
    """The table in Markdown."""
    known = {one.name: one for one in took}
    rows = [known[job.name] for job in JOBS if job.name in known]
    table = [
        f"| {one.name} | `{one.shown}` | {one.minutes:.1f} | {one.cpu_minutes:.1f} | "
        f"{one.peak_gigabytes:.2f} | {one.answer.replace('|', '/')} |"
        for one in rows
    ]
    return "\n".join([_INTRODUCTION, *table, ""])


_INTRODUCTION = """\
# How large, how long

What whole commands take on two cores without a graphics card, each in a process of its own. Made by
`python -m benchmarks.scale`. Data are noise with a class's mark on it, but for MNIST and CIFAR-10,
and nets have random weights: here only time and memory matter. Files are read through
memory maps, whose pages count while the machine has room for
them; a number an example is kept. Other work ran beside these runs: minutes are upper limits, and
the bounds of `certify` could be smaller. Raw figures: results/scale.jsonl. Ratios against bare
loops: results/benchmarks.json (`make bench`). `certify` without a kind meant `--kind occam` when
these were recorded.

| what | command | minutes | CPU minutes | peak memory, GB | first line of the answer |
|---|---|---|---|---|---|"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.scale", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names; default: all")
    parser.add_argument("--out", type=Path, default=Path("results/scale.jsonl"))
    parser.add_argument("--page", type=Path, help="write the table as Markdown")
    parser.add_argument("--again", action="store_true", help="also those that are measured")
    args = parser.parse_args(argv)
    done = set() if args.again else {one.name for one in read(args.out)}
    for job in JOBS:
        named = not args.names or any(part.lower() in job.name.lower() for part in args.names)
        if named and job.name not in done:
            took = take(job)
            print(json.dumps(asdict(took)), flush=True)
            with args.out.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(took)) + "\n")
    if args.page is not None:
        write_whole(args.page, page(read(args.out)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

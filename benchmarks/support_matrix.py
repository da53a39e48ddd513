"""Which families of measures, bounds and certificates see which architectures, and how.

    python -m benchmarks.support_matrix [NAMES] --page docs/support-matrix.md

Every net is built with random weights (but where it says otherwise) and asked for each family
alone, on eight rows and with the fewest draws. Norms, spectra and tails look at layers one by
one: here, unless `--all-layers` is given, at the smallest of each kind. A line is added for every
cell: a run that was stopped goes on where it was. NAMES are parts of the nets' names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cushion
from benchmarks.support_nets import NETS, Build
from cushion.certificates.answers import teacher_scores
from cushion.data import Dataset, as_dataset
from cushion.data.files import write_whole
from cushion.measures.families import FAMILIES
from cushion.measures.family import Context
from cushion.nets.network import Node
from cushion.nets.view import Way, see, way_of

_OPTIONS: dict[str, dict[str, Any]] = {
    "sharpness": {
        "sharpness": cushion.SharpnessOptions(draws=2, ascent_steps=1, alphas=(0.001,), batch=4)
    },
    "stability": {
        "stability": cushion.StabilityOptions(
            examples=1, probes=1, draws=1, levels=(0.1,), attenuation_draws=1
        )
    },
    "conditions": {"conditions": cushion.ConditionOptions(examples=1, probes=1)},
}
_BY_LAYER = frozenset({"norms", "spectra", "tails"})
COLUMNS = (
    "margins",
    "norms",
    "spectra",
    "tails",
    "sharpness",
    "stability",
    "paths",
    "conditions",
    "bounds",
    "certify",
)


@dataclass(frozen=True)
class Cell:
    """How one family saw one net: a way, refused, or what kept it from trying."""

    net: str
    family: str
    how: str
    why: str = ""
    seconds: float = 0.0


class _TooLong(Exception):
    pass


@contextlib.contextmanager
def _within(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def look(model: Any, data: Dataset, family: str, *, all_layers: bool = False) -> str:
    """The way by which `family` sees the model; raises what the user would see."""
    if family in _BY_LAYER and not all_layers:
        with contextlib.suppress(cushion.Unsupported):  # `measure` says it better
            return _look_at_few(model, data, family)
    if family == "certify":
        teacher_scores(model, data)
        return "answers"
    if family == "bounds":
        parts = {name: options[name] for name, options in _OPTIONS.items()}
        few = cushion.BoundOptions(noisy_draws=1, **parts)
        found = cushion.bounds(model, data, holdout=_held_out(data), options=few)
        if len(found.bounds) == 1:
            return "answers"
        return "hooks" if found.left_out else "trace"
    options: Any = {"spectra": family == "spectra", **_OPTIONS.get(family, {})}
    return str(cushion.measure(model, data, only=family, **options).net.way)


def _held_out(data: Dataset) -> Dataset:
    """Every row backwards: of the same kind, and another row."""
    turned = data.x.copy()
    for name in data.x.dtype.names or (...,):
        part = data.x[name]
        turned[name] = np.flip(part, tuple(range(1, part.ndim)))
    return Dataset("held out", turned, data.y, data.classes)


def _look_at_few(model: Any, data: Dataset, family: str) -> str:
    """One of the families that look at layers one by one, at the smallest of each kind."""
    by_hooks: tuple[Way, ...] = ("hooks",)
    net = see(model, data, by_hooks).net
    smallest: dict[object, Node] = {}
    for node in sorted(net.affine_layers, key=lambda node: node.affine.operator.parameters):
        smallest.setdefault((type(node.affine.operator), node.affine.kind), node)
    net.affine_layers = tuple(smallest.values())
    own = next(one for one in FAMILIES if one.name == family)
    found = own.measure(Context(net, data, None if own.options is None else own.options()))
    assert set(found.layers) == {node.index for node in smallest.values()}
    return way_of(net)


def cell(net: str, model: Any, data: Dataset, family: str, limit: int, **how: bool) -> Cell:
    """One cell; nothing that a net or a family does ends the run."""
    start = time.perf_counter()
    try:
        with _within(limit):
            way, why = look(model, data, family, **how), ""
    except cushion.CushionError as refused:
        way, why = "refused", str(refused)
    except _TooLong:
        way, why = "too long", f"not done within {limit} s"
        if family == "stability":  # all pairs of layers of the whole graph; blocks are far fewer
            return _by_hooks(net, model, data, limit)
    except Exception as error:  # a fault of ours: the matrix shows it
        way, why = "broken", f"{type(error).__name__}: {error}".split("\n")[0]
    return Cell(net, family, way, why, round(time.perf_counter() - start, 2))


def _by_hooks(net: str, model: Any, data: Dataset, limit: int) -> Cell:
    start, why = time.perf_counter(), f"not done within {limit} s, nor by hooks alone"
    try:
        with _within(limit):
            how: Any = {"way": "hooks", "spectra": False, **_OPTIONS["stability"]}
            cushion.measure(model, data, only="stability", **how)
    except (cushion.CushionError, _TooLong) as error:
        return Cell(net, "stability", "too long", str(error) or why)
    return Cell(net, "stability", "hooks", "", round(time.perf_counter() - start, 2))


def run(names: Sequence[str], out: Path, limit: int, *, all_layers: bool = False) -> None:
    """Fill in the cells that `out` does not have yet."""
    done = {(one.net, one.family) for one in read(out)}
    for net, build in NETS.items():
        if names and not any(name.lower() in net.lower() for name in names):
            continue
        missing = [family for family in COLUMNS if (net, family) not in done]
        if not missing:
            continue
        for one in _cells(net, build, missing, limit, all_layers):
            said = f"{one.net:34}{one.family:11}{one.how:9}{one.seconds:7.1f} s  {one.why}"
            print(said, flush=True)
            with out.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(one)) + "\n")


def _cells(
    net: str, build: Build, families: Sequence[str], limit: int, all_layers: bool
) -> Iterator[Cell]:
    torch.manual_seed(0)
    try:
        model, data = build()
    except ImportError as missing:
        yield from (Cell(net, family, "not installed", str(missing)) for family in families)
        return
    except Exception as error:
        why = f"it cannot be built here: {error}".split("\n")[0]
        yield from (Cell(net, family, "not built", why) for family in families)
        return
    sample = as_dataset(data)
    for family in families:
        yield cell(net, model, sample, family, limit, all_layers=all_layers)


def read(path: Path) -> list[Cell]:
    """The cells that are there; of two about one cell the later."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [Cell(**json.loads(line)) for line in lines]
    return list({(one.net, one.family): one for one in cells}.values())


def page(cells: Sequence[Cell]) -> str:
    """The matrix in Markdown, and below it the reasons for what is refused."""
    by_net: dict[str, dict[str, Cell]] = {}
    for one in cells:
        by_net.setdefault(one.net, {})[one.family] = one
    order = [net for net in NETS if net in by_net]
    reasons: dict[str, int] = {}
    body = []
    for net in order:
        shown = [_shown(by_net[net].get(family), reasons) for family in COLUMNS]
        body.append(f"| {net} | {' | '.join(shown)} |")
    head = [f"| net | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    notes = [f"{number}. {why}" for why, number in reasons.items()]
    return "\n".join([_INTRODUCTION.format(nets=len(order)), *head, *body, "", *notes, ""])


def _shown(one: Cell | None, reasons: dict[str, int]) -> str:
    if one is None:
        return ""
    if one.how in ("trace", "hooks", "weights", "answers"):
        return one.how
    number = reasons.setdefault(_short(one.why), len(reasons) + 1)
    return f"{one.how} ({number})"


def _short(why: str) -> str:
    """The first refusal of several, as Markdown."""
    first = why.split(" | ")[0].replace("|", "/").replace("<", "&lt;").replace("*", "\\*")
    return first if len(first) <= 400 else first[:400] + " ..."


_INTRODUCTION = """\
# Which nets are seen, and how

{nets} architectures by family of measures, and for the bounds and for `certify`, which asks a net
for answers to imitate. Made by `python -m benchmarks.support_matrix`; torchvision, timm,
transformers, onnxruntime and lightning are needed for that, and for nothing else. Weights are
random but where a name says otherwise. Norms, spectra and tails are those of the smallest layer of
each kind.

- **trace**: the whole graph of operations is known, and everything can be measured that is defined
  for the net.
- **hooks**: layers are seen as they run, with their true maps; blocks form a chain.
- **weights**: the numbers of its modules are read; nothing is seen as it runs.
- **answers**: its scores are asked for, nothing else.
- **too long**: the time that a cell is given was over; nothing is known beyond that.
- **refused**: the number leads to the sentence that a user reads, below the table.
"""


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.support_matrix", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="parts of names; default: all nets"
    )
    parser.add_argument("--out", type=Path, default=Path("results/support.json"))
    parser.add_argument("--page", type=Path, help="write the matrix as Markdown")
    parser.add_argument("--limit", type=int, default=120, help="seconds a cell")
    parser.add_argument("--all-layers", action="store_true", help="also where that takes minutes")
    parser.add_argument("--list", action="store_true", help="the nets' names")
    args = parser.parse_args(argv)
    if args.list:
        say("\n".join(NETS))
        return 0
    warnings.simplefilter("ignore")
    run(args.names, args.out, args.limit, all_layers=args.all_layers)
    if args.page is not None:
        write_whole(args.page, page(read(args.out)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

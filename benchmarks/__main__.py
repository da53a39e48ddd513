"""Benchmarks: each is printed and merged into results/benchmarks.json with the command that made
it. Without names all of them run, which takes about ten minutes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from cushion.data.files import write_whole

NAMES = (
    "limits",
    "training_speed",
    "one_pass",
    "hooked",
    "large_norms",
    "jacobians",
    "operator_norms",
    "sign_projection",
    "path_norms",
    "expected_sharpness",
    "measure_set",
    "replay",
    "loading",
    "large_data",
    "stability_memory",
    "compressing",
    "pruning",
    "tails",
)
RESULTS = Path(__file__).parent.parent / "results" / "benchmarks.json"


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 1 if a benchmark says that it did not hold its goal (`held`)."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; see --list")
    parser.add_argument("--list", action="store_true", help="what there is to choose from")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="default: %(default)s")
    args = parser.parse_args(argv)
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; see --list")
    if args.list:
        for name in NAMES:
            print(f"{name:20}{_summary(name)}")
        return 0
    command = " ".join(["python -m benchmarks", *args.names])
    missed = []
    for name in args.names or NAMES:
        found = importlib.import_module(f"benchmarks.{name}").run()
        found = {"command": command, "threads": torch.get_num_threads(), **found}
        print(f"{name}: {json.dumps(found)}", flush=True)
        _merge(args.output, name, found)
        if False in _held(found):
            missed.append(name)
    if missed:
        print(f"goals that were not held: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def _summary(name: str) -> str:
    """The first sentence of the benchmark's docstring."""
    text = importlib.import_module(f"benchmarks.{name}").__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())


def _merge(path: Path, name: str, found: dict[str, object]) -> None:
    """One benchmark's results in place of its last; the others stay."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results[name] = found
    write_whole(path, json.dumps(results, indent=2) + "\n")


def _held(found: object) -> Iterator[object]:
    if isinstance(found, dict):
        for key, value in found.items():
            yield from [value] if key == "held" else _held(value)


if __name__ == "__main__":
    sys.exit(main())

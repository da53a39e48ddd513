"""python -m fuzz --files N --seed S [--first K] [--kinds KIND,...]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.campaign import run
from fuzz.originals import KINDS, load_originals


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="names the sequence of mutants")
    parser.add_argument("--first", type=int, default=0, help="resume the sequence at this mutant")
    parser.add_argument(
        "--kinds",
        type=_kinds,
        default=KINDS,
        help=f"mutate certificates of these kinds only, of {','.join(KINDS)} (default: all)",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("fuzz-faults"),
        help="where mutants that break a promise go",
    )
    args = parser.parse_args()

    def say(line: str) -> None:
        sys.stderr.write(line + "\n")

    originals = load_originals(args.kinds)
    summary = run(originals, args.files, args.seed, args.first, args.keep, say)
    sys.stdout.write(summary.to_json() + "\n")
    return 1 if summary.faults else 0


def _kinds(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if not set(found) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"{text} must be some of {','.join(KINDS)}")
    return found


if __name__ == "__main__":
    sys.exit(main())

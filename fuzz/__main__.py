"""python -m fuzz --files N --seed S [--first K]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.campaign import run
from fuzz.originals import load_originals


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="names the sequence of mutants")
    parser.add_argument("--first", type=int, default=0, help="resume the sequence at this mutant")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("fuzz-faults"),
        help="where mutants that break a promise go",
    )
    args = parser.parse_args()

    def say(line: str) -> None:
        sys.stderr.write(line + "\n")

    summary = run(load_originals(), args.files, args.seed, args.first, args.keep, say)
    sys.stdout.write(summary.to_json() + "\n")
    return 1 if summary.faults else 0


if __name__ == "__main__":
    sys.exit(main())

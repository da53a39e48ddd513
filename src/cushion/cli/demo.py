"""`make demo`: from nothing to a verified certificate on the embedded digits, each step a command.

Every step runs in a process of its own; the last one knows only the certificate file and the data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from cushion.certificates.certificate import sentence
from cushion.certificates.format.container import unpack
from cushion.data import load_pair
from cushion.numerics import counted, percent_up


def main() -> int:
    """Run the demo in a folder; returns the exit code of the first step that fails."""
    name = "python -m cushion.cli.demo"
    parser = argparse.ArgumentParser(prog=name, description=__doc__, allow_abbrev=False)
    folder = "folder for the run and the certificate (default: demo)"
    parser.add_argument("--out", default="demo", help=folder)
    time = "time for the search of the certified net (default 1)"
    parser.add_argument("--minutes", default="1", help=time)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    run, file, verdict = (str(out / name) for name in ("run", "digits.cushion", "verdict.json"))
    data, held_out = load_pair("digits")
    assert held_out is not None
    print(f"The sample: {'; '.join(data.history)}: m = {len(data)}.")
    rows = f"{'; '.join(held_out.history)}: {len(held_out)} examples"
    print(f"Held out: {rows} that no step below trains on.")

    steps = {
        "Train a small net f.": f"train small --data digits -o {run}",
        "Measure it: why should it generalise? (diagnostics, not bounds)": (
            f"measure {run} --data digits"
        ),
        "Certify: find a small integer net g that imitates f, and prove a bound on its error.": (
            f"certify --data digits --net {run} -o {file} --minutes {args.minutes}"
        ),
        "Verify, trusting nothing but the file and the data.": (
            f"verify {file} --data digits --json {verdict}"
        ),
    }
    for title, command in steps.items():
        print(f"\n== {title}\n$ cushion {command}", flush=True)
        words = [sys.executable, "-m", "cushion", *command.split()]
        if code := subprocess.run(words, check=False).returncode:
            return code
    found = json.loads(Path(verdict).read_text(encoding="utf-8"))
    claim, _ = unpack(Path(file).read_bytes())
    assert claim.holdout is not None
    print("\n== What was proved")
    print(sentence(claim))
    print(
        f"The bound counts its {counted(found['errors'], 'error')} on the {found['m']} sample rows "
        f"and pays for all its {found['bits']} bits. The {claim.holdout.m} held-out rows, never "
        f"searched, say {percent_up(claim.holdout.bound)} for comparison. It is about the integer "
        "net g in the file, not about f."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

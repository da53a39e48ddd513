"""`make demo`: from nothing to a verified certificate on the embedded digits, each step a command
you can type.

Every step runs in a process of its own; the last one knows nothing but the certificate file and the
data.
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
from cushion.numerics import percent_up


def main() -> int:
    """Run the demo in a folder; returns the exit code of the verifier."""
    parser = argparse.ArgumentParser(
        prog="python -m cushion.cli.demo", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--out", default="demo", help="folder for the run and the certificate (default: demo)"
    )
    parser.add_argument(
        "--minutes", default="1", help="time for the search of the certified net (default 1)"
    )
    args = parser.parse_args()
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    run, file = str(folder / "run"), str(folder / "digits.cushion")
    data, held_out = load_pair("digits")
    assert held_out is not None
    print(f"The sample: {'; '.join(data.history)}: m = {len(data)}.")
    print(
        f"Held out: {'; '.join(held_out.history)}: {len(held_out)} examples that no step below "
        "trains on."
    )

    steps = [
        ("Train a small net f.", ["train", "small", "--data", "digits", "-o", run]),
        (
            "Measure it: why should it generalise? (diagnostics, not bounds)",
            ["measure", run, "--data", "digits"],
        ),
        (
            "Certify: find a small integer net g that imitates f, and prove a bound on its error.",
            ["certify", "--data", "digits", "--net", run, "-o", file, "--minutes", args.minutes],
        ),
    ]
    for title, command in steps:
        code = _say_and_run(title, command)
        if code:
            return code
    verdict = folder / "verdict.json"
    code = _say_and_run(
        "Verify, trusting nothing but the file and the data.",
        ["verify", file, "--data", "digits", "--json", str(verdict)],
    )
    if code:
        return code
    found = json.loads(verdict.read_text(encoding="utf-8"))
    claim, _ = unpack(Path(file).read_bytes())
    assert claim.holdout is not None
    print("\n== What was proved")
    print(sentence(claim))
    print(
        f"The bound counts its {found['errors']} errors on the {found['m']} sample rows and pays "
        f"for all its {found['bits']} bits. The {claim.holdout.m} held-out rows, never searched, "
        f"say {percent_up(claim.holdout.bound)} for comparison. It is about the integer net g in "
        "the file, not about f."
    )
    return 0


def _say_and_run(title: str, command: list[str]) -> int:
    print(f"\n== {title}\n$ cushion {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", "cushion", *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

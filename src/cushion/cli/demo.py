"""`make demo`: from nothing to a verified certificate on the embedded digits, each step a command.

Every step runs in a process of its own; the last ones know only a certificate file, the data and,
where the certificate is about it, the net.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from cushion.certificates.certificate import sentence
from cushion.certificates.format.container import unpack
from cushion.data import load_pair


def main() -> int:
    """Run the demo in a folder; returns the exit code of the first step that fails."""
    name = "python -m cushion.cli.demo"
    parser = argparse.ArgumentParser(prog=name, description=__doc__, allow_abbrev=False)
    folder = "folder for the run and the certificate (default: demo)"
    parser.add_argument("--out", default="demo", help=folder)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    run, file, picks = (
        str(out / name) for name in ("run", "digits.cushion", "digits.picks.cushion")
    )
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
        "Certify: the strongest statement about f, and one about a classifier g beside it.": (
            f"certify --data digits --net {run} -o {file}"
        ),
        "Verify what is said about f: its answers are counted again.": (
            f"verify {file} --net {run} --data digits"
        ),
        "Verify what is said about g, from nothing but the file and the data.": (
            f"verify {picks} --data digits"
        ),
    }
    for title, command in steps.items():
        print(f"\n== {title}\n$ cushion {command}", flush=True)
        words = [sys.executable, "-m", "cushion", *command.split()]
        if code := subprocess.run(words, check=False).returncode:
            return code
    print("\n== What was proved")
    for made in (file, picks):
        claim, _ = unpack(Path(made).read_bytes())
        print(sentence(claim))
    print(
        f"The first is about f: it was counted on the {len(held_out)} held-out rows. The second is "
        f"about g, needs no held-out row, and pays for those of the {len(data)} rows that g was "
        "made of or gets wrong. Both together hold with probability 95 %."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Start-up and loading: an interpreter that imports cushion, and one that loads CIFAR-10 with its
fingerprints.
"""

from __future__ import annotations

import subprocess
import sys
import time

from cushion.data import list_sets

# VmHWM and not getrusage: the latter counts what the parent process held before this one started.
_LOAD = """
import re, time
begin = time.perf_counter()
from cushion.data import load_pair
train, test = load_pair("cifar10")
train.fingerprint, test.fingerprint
seconds = time.perf_counter() - begin
print(seconds, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


def run() -> dict[str, object]:
    """Seconds are the best of five; the goals are absolute, so no ratio says more."""
    bare = _best([sys.executable, "-c", "pass"])
    found: dict[str, object] = {
        "import_cushion_seconds": _best([sys.executable, "-c", "import cushion"]) - bare,
        "help_seconds": _best([sys.executable, "-m", "cushion", "--help"]),
        "goal": "import < 0.3 s, help < 0.5 s, CIFAR-10 < 3 s and < 400 MB",
    }
    if any(s.name == "cifar10" and s.present for s in list_sets()):
        shown = subprocess.run(
            [sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True
        )
        seconds, megabytes = map(float, shown.stdout.split())
        found |= {"cifar10_seconds": seconds, "cifar10_peak_megabytes": megabytes}
    else:
        found["cifar10"] = "not measured: run `cushion data get cifar10` first"
    return found


def _best(command: list[str]) -> float:
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    print(run())

"""Loading: an interpreter that loads CIFAR-10 with its fingerprints."""

from __future__ import annotations

import subprocess
import sys

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
    if not any(s.name == "cifar10" and s.present for s in list_sets()):
        return {"cifar10": "not measured: run `cushion data get cifar10` first"}
    shown = subprocess.run(
        [sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True
    )
    seconds, megabytes = map(float, shown.stdout.split())
    return {
        "cifar10_seconds": seconds,
        "cifar10_peak_megabytes": megabytes,
        "goal": "< 3 s and < 400 MB",
        "held": seconds < 3 and megabytes < 400,
    }


if __name__ == "__main__":
    print(run())

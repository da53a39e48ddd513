"""Large data: what loading adds to the memory of an interpreter that knows how to, for 10^6 x 50
floats (reach: < 200 MB), and all checks of 10^7 rows (the memory of a hash of 8 bytes a row).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# VmHWM and not getrusage: the latter counts what the parent process held before this one started.
_LOAD = """
import re, sys, time
from cushion.data import load
load("digits").found  # what the code itself takes

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

before, begin = peak(), time.perf_counter()
data = load(sys.argv[1])
loaded, seconds = peak(), time.perf_counter() - begin
data.fingerprint
if sys.argv[2] == "all":
    assert data.found == {"repeated_rows": 1000}, data.found
print(loaded - before, seconds, peak() - before, time.perf_counter() - begin)
"""


def run() -> dict[str, object]:
    """Each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        wide = _measured(Path(folder) / "wide", 10**6, 50, "fingerprint")
        long = _measured(Path(folder) / "long", 10**7, 5, "all")
    return {
        "rows_1e6_columns_50": wide,
        "rows_1e7_columns_5": long,
        "goal": "10^6 x 50 floats add < 200 MB; all checks of 10^7 x 5 floats add < 400 MB",
        "held": wide["peak_added_megabytes"] < 200 and long["peak_added_megabytes"] < 400,
    }


def _measured(folder: Path, rows: int, columns: int, what: str) -> dict[str, float]:
    _write(folder, rows, columns)
    command = [sys.executable, "-c", _LOAD, str(folder), what]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded, seconds, most, in_all = map(float, shown.stdout.split())
    return {
        "file_megabytes": (folder / "x.npy").stat().st_size / 2**20,
        "load_added_megabytes": loaded,
        "load_seconds": seconds,
        "peak_added_megabytes": most,
        f"{what}_seconds": in_all,
    }


def _write(folder: Path, rows: int, columns: int) -> None:
    """x.npy and y.npy of random numbers, the last thousand rows copies of the first."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    x = np.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=np.float32, shape=(rows, columns)
    )
    for start in range(0, rows, 10**5):
        x[start : start + 10**5] = rng.random((10**5, columns), dtype=np.float32)
    x[-1000:] = x[:1000]
    y = np.arange(rows) % 10
    y[-1000:] = y[:1000]
    x.flush()
    np.save(folder / "y.npy", y)


if __name__ == "__main__":
    print(run())

"""Peak memory of measuring noise stability on 60 000 images, all pairs of layers on every image (reach: < 2 GiB)."""

from __future__ import annotations

import subprocess
import sys

_MEASURE = """
import re
import numpy as np
from cushion import StabilityOptions, measure
from cushion.data.dataset import Dataset
from cushion.models import build

rng = np.random.default_rng(0)
data = Dataset("noise", rng.integers(0, 256, (60_000, 1, 28, 28), dtype=np.uint8), rng.integers(0, 10, 60_000), 10)
net = build("1x28x28: flatten 4*[fc784 relu] fc10", seed=0)
options = StabilityOptions(examples=60_000, probes=16, draws=1, k=100, attenuation_draws=1, levels=(0.1,))
found = measure(net, data, only="stability", stability=options)
assert found.net.stability.examples == 60_000
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024**2)
"""


def run() -> dict[str, object]:
    """In a process of its own, so that the peak is that of measuring alone (PyTorch's own memory included)."""
    shown = subprocess.run([sys.executable, "-c", _MEASURE], capture_output=True, text=True, check=True)
    return {"peak_gibibytes": float(shown.stdout), "goal": "< 2"}


if __name__ == "__main__":
    print(run())

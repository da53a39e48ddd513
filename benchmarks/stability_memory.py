"""Peak memory of measuring noise stability on 60 000 images, on a dense net and on VGG-19 x 0.25
(reach: < 2 GiB).
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.workloads import W1
from cushion.nets.specs import parse, scale_width
from cushion.training.recipes import RECIPES

_MEASURE = """
import re
import sys
import numpy as np
from cushion import StabilityOptions, measure
from cushion.data.dataset import Dataset
from cushion.nets.models import build

rng = np.random.default_rng(0)
shape, spec, rows = eval(sys.argv[1]), sys.argv[2], int(sys.argv[3])
pixels = rng.integers(0, 256, (60_000, *shape), dtype=np.uint8)
data = Dataset("noise", pixels, rng.integers(0, 10, 60_000), 10)
options = StabilityOptions(
    examples=rows, probes=16, draws=2, k=100, attenuation_draws=1, levels=(0.1,)
)
found = measure(build(spec, seed=0), data, only="stability", stability=options)
assert found.net.stability.examples == rows
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024**2)
"""


def run() -> dict[str, object]:
    """In a process of its own, so that the peak is that of measuring alone (PyTorch's own memory
    included).
    """
    vgg = scale_width(parse(RECIPES["arora-vgg19"].spec), 0.25)
    return {
        "dense_peak_gibibytes": _peak((1, 28, 28), W1, 60_000),
        "conv_peak_gibibytes": _peak((3, 32, 32), str(vgg), 256),
        "goal": "< 2",
    }


def _peak(shape: tuple[int, ...], spec: str, rows: int) -> float:
    """Of measuring on 60 000 images, with everything but the one pass on so many rows of them."""
    command = [sys.executable, "-c", _MEASURE, str(shape), spec, str(rows)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    print(run())

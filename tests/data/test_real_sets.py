"""The real downloads: all three sets arrive, match their pins and the published statistics, and
load fast.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cushion.data import catalogue, get, list_sets, load_pair

pytestmark = pytest.mark.full

PUBLISHED_MEANS = {
    "mnist": [0.1307],
    "fashion-mnist": [0.2860],
    "cifar10": [0.49139968, 0.48215841, 0.44653091],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sets")


@pytest.mark.parametrize("name", PUBLISHED_MEANS)
def test_a_set_arrives_and_is_the_published_one(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(root))
    get(name)
    named = catalogue.SETS[name]
    sample, held_out = load_pair(name)
    assert held_out is not None
    assert (sample.fingerprint, held_out.fingerprint) == (
        named.train_fingerprint,
        named.test_fingerprint,
    )
    assert (len(sample), len(held_out), sample.shape) == (named.train, named.test, named.shape)
    means = sample.x.mean(axis=(0, 2, 3), dtype=np.float64) / 255
    digits = 4 if len(means) == 1 else 8
    assert np.round(means, digits).tolist() == PUBLISHED_MEANS[name]
    assert sample.x.dtype == np.uint8
    assert {line.name: line.present for line in list_sets()}[name]


def test_cifar10_loads_in_400_megabytes(root: Path) -> None:
    """In a fresh process, from the import to both fingerprints."""
    get("cifar10", root)
    code = (
        "from cushion.data import load_pair\n"
        "print([part.fingerprint for part in load_pair('cifar10')][0])\n"
        # not ru_maxrss: that one starts at the peak of the process that forked
        "print(*[int(line.split()[1]) / 1024 for line in open('/proc/self/status') if 'VmHWM' in "
        "line])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CUSHION_DATA": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    fingerprint, megabytes = done.stdout.split()
    assert fingerprint == catalogue.CIFAR10.train_fingerprint
    assert float(megabytes) < 400

"""The embedded set: 1797 handwritten digits of 8x8 pixels that ship inside scikit-learn."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.dataset import Dataset
from cushion.data.splits import split

SAMPLE = 1500  # rows of the sample; the other 297 are held out
SEED = 0


def read() -> tuple[Dataset, Dataset]:
    """The sample (m = 1500) and the held-out rows (297): x [n, 1, 8, 8] uint8 in 0..240, y in 0..9.

    The original pixels are counts in 0..16; times 15 they use the range of a byte without rounding.
    """
    rows = _rows()
    whole = Dataset(
        name="digits",
        x=(rows[:, :64] * 15).astype(np.uint8).reshape(-1, 1, 8, 8),
        y=rows[:, 64].astype(np.int64),
        classes=10,
        history=("digits: scikit-learn's 1797 images, pixels 0..16 multiplied by 15",),
    )
    sample, held_out = split(whole, SAMPLE, SEED)
    return sample, replace(held_out, name="digits test")


def _rows() -> NDArray[Any]:
    """[1797, 65]: 64 pixels and the label."""
    package = importlib.util.find_spec("sklearn")
    if package is not None and package.origin is not None:
        # Reading the table takes a tenth of the two seconds that importing scikit-learn does.
        table = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if table.is_file():
            return np.loadtxt(table, delimiter=",", dtype=np.int64)
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])

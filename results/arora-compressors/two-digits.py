"""The zeros and ones of MNIST as a set of two classes, with its held-out part: python two-digits.py
OUT.npz
"""

from __future__ import annotations

import sys

import numpy as np

from cushion.data import load_pair

train, test = load_pair("mnist")
assert test is not None
parts = {}
for part, data in (("", train), ("_test", test)):
    rows = np.flatnonzero(data.y < 2)
    parts[f"x{part}"], parts[f"y{part}"] = np.array(data.x)[rows], data.y[rows]
np.savez_compressed(sys.argv[1], **parts)

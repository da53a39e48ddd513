"""Tiny posteriors and samples whose errors are known in closed form; the PAC-Bayes tests share
them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cushion.certificates import recheck as verifier
from cushion.certificates.format.claims import Claim
from cushion.certificates.format.container import pack
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.posterior import Factor, Posterior
from cushion.certificates.format.sources import Values
from cushion.data.dataset import Dataset
from cushion_verify import Verdict

STILL = -8  # an exponent so small that the number hardly ever leaves its whole mean


@contextmanager
def few_draws() -> Iterator[None]:
    """Claims may have any number of draws, as in the theorem: simulations take thousands."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("cushion.certificates.pac_bayes", "cushion_verify"):
            patch.setattr(f"{module}.FEWEST_DRAWS", 1)
        yield


def whole(values: object) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def linear(means: NDArray[np.int64], variances: NDArray[np.int64], prior: int = 8) -> Posterior:
    """One dense layer without biases on bytes: means (quarters) and variances (exponents) are
    [classes, features].
    """
    classes, features = means.shape
    net = IntegerNet(
        (1, 1, features),
        Bytes(0),
        (Dense(Values(whole(np.zeros((classes, features)))), None, 0, 0),),
    )
    return Posterior(net, (Factor(1, "weights", prior, means, variances),))


def coin(seed: int = 0) -> Posterior:
    """Right on x = (1, 0) with label 1 when ⌊w + 1/2⌋ ≥ 1 for w ~ N(1, 1/4): wrong with probability
    Φ(-1).

    The last mean meets a zero input: it changes the message, hence the draws, and nothing else.
    """
    return linear(whole([[0, 4 * seed], [4, 0]]), whole([[STILL, STILL], [-2, STILL]]))


def ones(m: int) -> Dataset:
    """m times x = (1, 0) with label 1."""
    return Dataset(
        "ones",
        np.tile(np.array([[[[1, 0]]]], dtype=np.uint8), (m, 1, 1, 1)),
        np.ones(m, dtype=np.int64),
        2,
    )


def stripes(m: int = 300, seed: int = 0) -> Dataset:
    """Three classes of 1x6x6 images told apart by which rows are bright."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, m)
    x = rng.integers(0, 60, (m, 1, 6, 6), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, 0, 2 * label : 2 * label + 2] += 120
    return Dataset("stripes", x, y.astype(np.int64), 3)


def convolutional(seed: int = 0) -> Posterior:
    """A small posterior with every kind of factor: convolution, pooling, dense, biases."""
    rng = np.random.default_rng(seed)
    shapes = {
        (1, "weights"): (2, 1, 3, 3),
        (1, "biases"): (2,),
        (3, "weights"): (3, 18),
        (3, "biases"): (3,),
    }
    zeros = {key: whole(np.zeros(shape)) for key, shape in shapes.items()}
    layers = (
        Conv(Values(zeros[1, "weights"]), zeros[1, "biases"], 2, 4, 1, 1, 1, 1),
        Pool("max", 2),
        Dense(Values(zeros[3, "weights"]), zeros[3, "biases"], 3, 0),
    )
    net = IntegerNet((1, 6, 6), Bytes(4), layers)
    factors = tuple(
        Factor(*key, prior, rng.integers(-120, 120, shape), rng.integers(-8, 10, shape))
        for (key, shape), prior in zip(shapes.items(), (8, 6, 9, 12), strict=True)
    )
    return Posterior(net, factors)


def verify_claim(
    claim: Claim, message: bytes, data: Dataset | None, holdout: Dataset | None, slow: bool = False
) -> Verdict:
    """What the verifier says of a file with this claim and message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "c.cushion")
        path.write_bytes(pack(claim, message))
        return verifier.verify(path, data, holdout, slow=slow)
